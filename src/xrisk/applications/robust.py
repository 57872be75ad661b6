"""Robust logistic regression: a linear classifier of rows that are randomly perturbed."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse

from xrisk.applications.arguments import by_name, penalty_of
from xrisk.functions import MarginLoss, Softplus
from xrisk.inner import CSR, Dense, Dropout, Gaussian, Groups, LinearModel, Perturbed, WithIntercept, as_rows
from xrisk.inner.perturbed import perturbed_copy, perturbed_mean
from xrisk.inner.rows import as_numbers, frozen, row_count
from xrisk.problem import Problem

PERTURBATIONS: dict[str, Any] = {"gaussian": Gaussian(), "dropout": Dropout()}


def robust_logistic(
    X: Any,
    y: Any,
    *,
    perturbation: Any = "gaussian",
    copies: int = 10,
    rng: int | np.random.Generator | None = None,
    l1: float = 0.0,
    l2: float = 0.0,
    fit_intercept: bool = False,
) -> Problem:
    """A linear classifier of perturbed rows: mean_i log(1 + exp(−yᵢ E[𝒜(xᵢ)ᵀ w])) + l1‖w‖₁ + (l2/2)‖w‖².

    Parameters
    ----------
    X : array or sparse matrix (rows, d)
        Float32, float64 and memory maps in C order are not copied.
    y : array (rows,)
        −1 and 1.
    perturbation : {"gaussian", "dropout"}, perturbation spec, or function (row, rng) → row
        𝒜: `xrisk.inner.Gaussian`, `xrisk.inner.Dropout`, or a function that returns a perturbed copy of a row.
    copies : int
        Of a function the mean E 𝒜(xᵢ) is not known. So many perturbed copies of each row are drawn, once, and their
        mean stands for it: the problem is a finite sum whose values, optimum and certificate are exact. The copies
        take ``copies`` times the memory of X.
    rng : int or Generator
        The seed of the copies.
    l1, l2 : float
        Strengths of the penalty.
    fit_intercept : bool
        Whether the scores get an intercept, last in w, which is neither perturbed nor penalised.

    Returns
    -------
    Problem

    Notes
    -----
    The expectation stands inside the loss. Gaussian noise and inverted dropout leave the mean of a row as it is, so
    the *exact* objective is that of ordinary logistic regression: all that is hard about it is that a sampled method
    sees noise inside a function that is not linear. A perturbation with another mean (crops, masks that are not
    rescaled, corruptions) has another objective and another optimum. The weights of rows are not supported.

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk.applications import robust_logistic
    >>> X, y = np.array([[1.0, 0.5], [-1.0, 0.2]]), [1, -1]
    >>> plain = robust_logistic(X, y, l2=0.1)
    >>> masked = robust_logistic(X, y, l2=0.1, perturbation=lambda row, rng: row * rng.integers(0, 2, 2), rng=0)
    >>> w = np.array([2.0, 0.0])
    >>> plain.value(w) < masked.value(w)
    True
    """
    rows = as_rows(X)
    n = row_count(rows)
    target = _labels(y, n)
    noise = by_name("perturbation", perturbation, PERTURBATIONS)
    inner: Any
    if perturbed_mean.implemented(noise):
        inner = Perturbed(_with_intercept(rows, fit_intercept), target, noise)
    elif callable(noise):
        drawn = perturbed_rows(rows, noise, _at_least_one("copies", copies), np.random.default_rng(rng))
        model = LinearModel(_with_intercept(drawn, fit_intercept), frozen(np.repeat(target, copies)), MarginLoss())
        inner = Groups(model, frozen(copies * np.arange(n + 1)))
    else:
        raise TypeError(f"perturbation must be a word, a perturbation spec or a function, got {perturbation!r}")
    problem = Problem(inner, Softplus(), penalty_of(l1, l2, fit_intercept, MarginLoss()))
    problem.check()
    return problem


def perturbed_rows(rows: Dense | CSR, sample: Callable, copies: int, rng: np.random.Generator) -> Dense | CSR:
    """``copies`` perturbed copies of every row, one after another, stored as the rows are."""
    if isinstance(rows, Dense):
        X = np.empty((copies * rows.X.shape[0], rows.X.shape[1]), dtype=rows.X.dtype)
        for k, copy in enumerate(_each_copy(rows.X, sample, copies, rng)):
            X[k] = copy
        return as_rows(X)
    X = scipy.sparse.csr_array((rows.data, rows.indices, rows.indptr), shape=(row_count(rows), rows.size))
    whole = (X[[k]].toarray()[0] for k in range(X.shape[0]))
    parts = [scipy.sparse.csr_array(copy[None, :]) for copy in _each_copy(whole, sample, copies, rng)]
    return as_rows(scipy.sparse.vstack(parts, format="csr").astype(rows.data.dtype))


def _each_copy(rows: Any, sample: Callable, copies: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    for row in rows:
        for _ in range(copies):
            yield perturbed_copy(sample, row, rng)


def _with_intercept(rows: Any, fit_intercept: bool) -> Any:
    return WithIntercept(rows) if fit_intercept else rows


def _at_least_one(name: str, value: Any) -> int:
    if not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")
    return int(value)


def _labels(y: Any, n: int) -> np.ndarray:
    y = as_numbers("y", y)
    if y.shape != (n,):
        raise ValueError(f"y must have one entry for each of the {n} rows of X, got shape {y.shape}")
    if not np.isin(y, (-1, 1)).all():
        raise ValueError(f"y must hold −1 and 1, got {np.unique(y)[:5]}")
    return frozen(y.astype(np.float64))
