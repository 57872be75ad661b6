"""Linear scores of randomly perturbed rows: gᵢ(w) = −bᵢ ⟨E 𝒜(aᵢ), w⟩, the label bᵢ = ±1 folded in."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from xrisk.annotations import Rows
from xrisk.data.rows import Dense, WithIntercept, add_row, frozen, row_count, row_size
from xrisk.functions.loss import MarginLoss
from xrisk.functions.parameters import require
from xrisk.generic import generic
from xrisk.inner.affine import affine_batches
from xrisk.inner.groups import Groups
from xrisk.inner.models import LinearModel
from xrisk.inner.oracle import draw, inner_count, inner_size
from xrisk.inner.passes import as_linear_groups


@generic
def perturbed_mean(noise, rows, i, size, rng, out):
    """Write the mean of ``size`` perturbed copies of row i into ``out`` (d,); ``rows`` are the mean rows E 𝒜(aᵢ)."""


@generic
def feature_count(rows):
    """Number of columns that are data: an intercept is not perturbed."""


class Gaussian(NamedTuple):
    """𝒜(a) = a + σ ξ, ξ standard normal; E 𝒜(a) = a.

    Examples
    --------
    >>> from xrisk.inner import Gaussian
    >>> Gaussian(0.5)
    Gaussian(sigma=0.5)
    """

    sigma: float = 0.1

    def check(self) -> None:
        """Refuse a σ that is negative or not finite."""
        require(0.0 <= self.sigma < np.inf, "sigma", self.sigma, "finite and not negative")


class Dropout(NamedTuple):
    """𝒜(a)ⱼ = aⱼ/(1 − rate) with probability 1 − rate, else 0 (inverted dropout); E 𝒜(a) = a.

    Examples
    --------
    >>> from xrisk.inner import Dropout
    >>> Dropout(0.2)
    Dropout(rate=0.2)
    """

    rate: float = 0.1

    def check(self) -> None:
        """Refuse a rate outside [0, 1)."""
        require(0.0 <= self.rate < 1.0, "rate", self.rate, "at least 0 and below 1")


class Sampler(NamedTuple):
    """𝒜 as a plain Python function; runs uncompiled.

    Parameters
    ----------
    sample : function (row, rng) → row
        A perturbed copy of a row (d,); it gets a copy of its own to work on.
    X : array (n, d)
        The rows before they are perturbed. Their means E 𝒜(aᵢ) are the ``rows`` of the `Perturbed` it stands in.
    """

    sample: Callable
    X: np.ndarray


@affine_batches
class Perturbed(NamedTuple):
    """gᵢ(w) = −bᵢ ⟨E 𝒜(aᵢ), w⟩, sampled by fresh perturbations 𝒜(aᵢ).

    Under f = `Softplus` the mean over i is that of log(1 + exp(−bᵢ E[𝒜(aᵢ)ᵀ w])), robust logistic regression [1]_.

    Parameters
    ----------
    rows : rows spec (n, d)
        The means E 𝒜(aᵢ): for `Gaussian` and `Dropout` the rows aᵢ themselves. An intercept is not perturbed.
    target : array (n,)
        The labels bᵢ, −1 or 1.
    noise : Gaussian, Dropout or Sampler
        The perturbation 𝒜.

    Notes
    -----
    A mean over B Gaussian perturbations is drawn at once, as one perturbation of standard deviation σ/√B. The
    variance of a sample, wᵀ Cov(𝒜(a)) w, grows with w: a penalty or a domain keeps it in bounds.

    References
    ----------
    .. [1] Wang and Yang, ALEXR, section 2.3. There the loss lacks its minus sign; f is increasing only because the
       label is part of gᵢ here, and need not be, since gᵢ is affine.

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk import Budget, Problem, minimize
    >>> from xrisk.functions import L2, Softplus
    >>> from xrisk.inner import Gaussian, Perturbed, as_rows
    >>> from xrisk.solvers import ALEXR
    >>> inner = Perturbed(as_rows(np.eye(2)), np.array([1.0, -1.0]), Gaussian(0.1))
    >>> round(Problem(inner, Softplus(), L2(0.1)).value(np.zeros(2)), 6)
    0.693147
    """

    rows: Rows = Dense()
    target: np.ndarray = np.zeros(0)  # (n,)
    noise: Any = Gaussian()

    def check(self) -> None:
        """Refuse labels that are not ±1, one for each row, and what is no perturbation."""
        n = row_count(self.rows)
        if not perturbed_mean.implemented(self.noise):
            raise TypeError(f"noise must be a spec that implements perturbed_mean, got {self.noise!r}")
        if n == 0 or self.target.shape != (n,):
            raise ValueError(f"y must have one entry for each of the {n} rows of X, got shape {self.target.shape}")
        if not np.isin(self.target, (-1.0, 1.0)).all():
            raise ValueError(f"y must hold −1 and 1, got {np.unique(self.target)[:5]}")


feature_count.otherwise(lambda rows: row_size(rows))
feature_count.of(WithIntercept)(lambda rows: row_size(rows.rows))


@perturbed_mean.of(Gaussian)
def _(noise, rows, i, size, rng, out):
    for j in range(out.size):
        out[j] = 0.0
    add_row(rows, i, 1.0, out)
    spread = noise.sigma / math.sqrt(size)
    for j in range(feature_count(rows)):
        out[j] += spread * rng.standard_normal()


@perturbed_mean.of(Dropout)
def _(noise, rows, i, size, rng, out):
    for j in range(out.size):
        out[j] = 0.0
    add_row(rows, i, 1.0, out)
    keep = 1.0 - noise.rate
    for j in range(feature_count(rows)):
        if out[j] != 0.0:
            kept = 0
            for _ in range(size):
                if rng.random() < keep:
                    kept += 1
            out[j] *= kept / (size * keep)


@perturbed_mean.of(Sampler)
def _(noise, rows, i, size, rng, out):
    d = feature_count(rows)
    out[:d], out[d:] = 0.0, 1.0
    for _ in range(size):
        out[:d] += perturbed_copy(noise.sample, noise.X[i], rng) / size


def perturbed_copy(sample: Callable, row: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """What the user's function makes of a row, checked."""
    copy = np.asarray(sample(row.astype(np.float64), rng), dtype=np.float64)
    if copy.shape != row.shape or not np.isfinite(copy).all():
        raise ValueError(f"perturbation must return finite rows of shape {row.shape}, got shape {copy.shape}")
    return copy


inner_count.of(Perturbed)(lambda g: row_count(g.rows))
inner_size.of(Perturbed)(lambda g: row_size(g.rows))


@draw.of(Perturbed)
def _(g, i, rng, batch):
    perturbed_mean(g.noise, g.rows, i, batch.size, rng, batch.row)
    for j in range(batch.row.size):
        batch.row[j] *= -g.target[i]


@as_linear_groups.of(Perturbed)
def _(g):
    model = LinearModel(g.rows, g.target, MarginLoss())
    return Groups(model, frozen(np.arange(row_count(g.rows) + 1)))
