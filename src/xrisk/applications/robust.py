"""Robust logistic regression: a linear classifier of rows that are randomly perturbed."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse

from xrisk.annotations import Inner, Matrix, Rows, Spec, Vector
from xrisk.applications.arguments import by_name, checked_problem, mean_loss, penalty_of, signs_of
from xrisk.data.rows import add_row, frozen, row_count, row_size
from xrisk.functions import Logistic, MarginLoss, Softplus
from xrisk.inner import CSR, Dense, Dropout, Gaussian, Groups, LinearModel, Perturbed, WithIntercept, as_rows
from xrisk.inner.perturbed import perturbed_copy, perturbed_mean
from xrisk.problem import Problem

PERTURBATIONS: dict[str, Any] = {"gaussian": Gaussian(), "dropout": Dropout()}


def robust_logistic(
    X: Matrix,
    y: Vector,
    *,
    perturbation: Spec = "gaussian",
    copies: int = 10,
    rng: int | np.random.Generator | None = None,
    l1: float = 0.0,
    l2: float = 0.0,
    fit_intercept: bool = False,
) -> Problem:
    """A linear classifier of perturbed rows: mean_i log(1 + exp(−yᵢ E[𝒜(xᵢ)ᵀ w])) + l1‖w‖₁ + (l2/2)‖w‖².

    Parameters
    ----------
    X, l1, l2
        As for `xrisk.group_dro`.
    y : array (rows,)
        −1 and 1.
    perturbation : {"gaussian", "dropout"}, perturbation spec, or function (row, rng) → row
        𝒜: `xrisk.inner.Gaussian`, `xrisk.inner.Dropout`, or a function that returns a perturbed copy of a row.
    copies : int
        For a function, the mean E 𝒜(xᵢ) is unknown. It is replaced by the mean of ``copies`` perturbed copies of each
        row, which are drawn once: the problem is then a finite sum with exact values, optimum and certificate. The
        copies take ``copies`` times the memory of X.
    rng : int or Generator
        The seed of the copies.
    fit_intercept : bool
        Whether the scores get an intercept, last in w, which is neither perturbed nor penalised.

    Notes
    -----
    The expectation is inside the loss. Gaussian noise and inverted dropout do not change the mean of a row, so the
    *exact* objective is that of ordinary logistic regression; it is hard only because a sampled method sees noise
    inside a function that is not linear. A perturbation with another mean (crops, masks that are not
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
    target, noise = frozen(signs_of(y, n).astype(np.float64)), _noise(perturbation, copies)
    inner: Inner
    if perturbed_mean.implemented(noise):
        inner = Perturbed(_with_intercept(rows, fit_intercept), target, noise)
    else:
        drawn = _stored(rows, _drawn(rows, noise, copies, rng), copies)
        model = LinearModel(_with_intercept(drawn, fit_intercept), frozen(np.repeat(target, copies)), MarginLoss())
        inner = Groups(model, frozen(copies * np.arange(n + 1)))
    return checked_problem(inner, Softplus(), penalty_of(l1, l2, fit_intercept, MarginLoss()))


def averaged_logistic(
    X: Matrix,
    y: Vector,
    *,
    perturbation: Spec = "gaussian",
    copies: int = 10,
    rng: int | np.random.Generator | None = None,
    l1: float = 0.0,
    l2: float = 0.0,
    fit_intercept: bool = False,
) -> Problem:
    """The objective of `robust_logistic` with the expectation taken first: logistic regression on the rows E 𝒜(xᵢ).

    The inner functions are affine, so this is the same function of w, one mean over all rows instead of a mean over
    functions of sampled rows. It is cheaper for full-batch methods: only the means of the copies of a function are
    kept. Parameters are those of `robust_logistic`, and the same ``rng`` draws the same copies.

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk.applications import averaged_logistic, robust_logistic
    >>> X, y, w = np.array([[1.0, 0.5], [-1.0, 0.2]]), [1, -1], np.array([2.0, 1.0])
    >>> round(averaged_logistic(X, y, l2=0.1).value(w) - robust_logistic(X, y, l2=0.1).value(w), 12)
    0.0
    """
    rows = as_rows(X)
    n = row_count(rows)
    target, noise = frozen(signs_of(y, n).astype(np.float64)), _noise(perturbation, copies)
    means: Any = rows
    if perturbed_mean.implemented(noise):
        Perturbed(rows, target, noise).check()
        noise.check()
    else:
        means = _stored(rows, (copy.mean(axis=0)[None, :] for copy in _drawn(rows, noise, copies, rng)), 1)
    model = LinearModel(_with_intercept(means, fit_intercept), target, Logistic())
    return mean_loss(model, penalty_of(l1, l2, fit_intercept, Logistic()))


def _noise(perturbation: Spec, copies: Any) -> Any:
    """The perturbation as a spec, or as a function that draws a copy."""
    noise = by_name("perturbation", perturbation, PERTURBATIONS)
    if perturbed_mean.implemented(noise):
        return noise
    if not callable(noise):
        raise TypeError(f"perturbation must be a word, a perturbation spec or a function, got {perturbation!r}")
    if not isinstance(copies, int | np.integer) or copies < 1:
        raise ValueError(f"copies must be a whole number of at least 1, got {copies!r}")
    return noise


def _drawn(rows: Dense | CSR, sample: Callable, copies: int, rng: Any) -> Iterator[np.ndarray]:
    """The perturbed copies (copies, d) of every row."""
    rng = np.random.default_rng(rng)
    row = np.empty(row_size(rows))
    for k in range(row_count(rows)):
        row[:] = 0.0
        add_row(rows, k, 1.0, row)
        yield np.array([perturbed_copy(sample, row, rng) for _ in range(copies)])


def _stored(rows: Dense | CSR, blocks: Iterator[np.ndarray], size: int) -> Dense | CSR:
    """Blocks of ``size`` rows, one for each row, in the storage of the rows."""
    if isinstance(rows, Dense):
        X = np.empty((size * rows.X.shape[0], rows.X.shape[1]), dtype=rows.X.dtype)
        for k, block in enumerate(blocks):
            X[size * k : size * (k + 1)] = block
        return as_rows(X)
    return as_rows(scipy.sparse.vstack([scipy.sparse.csr_array(block) for block in blocks]).astype(rows.data.dtype))


def _with_intercept(rows: Rows, fit_intercept: bool) -> Any:
    return WithIntercept(rows) if fit_intercept else rows
