"""Inner functions given as plain Python functions; the same solver code runs on them uncompiled."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from xrisk.inner.oracle import (
    batch_value,
    batch_vjp,
    draw,
    exact_values,
    exact_vjp,
    inner_count,
    inner_dim,
    inner_is_affine,
    inner_lipschitz,
    inner_size,
    inner_smoothness,
    new_batch,
)


class Callables(NamedTuple):
    """gᵢ through four functions; ``w`` and ``y`` are the solver's own arrays, shown to them read-only.

    Parameters
    ----------
    n, d : int
        Number of inner functions and of variables.
    sample : function (i, rng, size) → batch
        Any object that stands for ``size`` samples of gᵢ.
    value : function (i, w, batch) → float or array (m,)
        gᵢ(w; batch), the mean over the batch.
    vjp : function (i, w, batch, y) → array (d,)
        Jᵢ(w; batch)ᵀ y.
    exact : function (i, w) → float or array (m,)
        gᵢ(w), for traces and the final value.
    m : int
        Components of each gᵢ.
    affine : bool
        Whether gᵢ is affine: then the outer function need not be monotone.
    lipschitz, smoothness : float
        Constants of gᵢ, its m components together, for the theorems' parameter settings; inf if unknown.

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk import Budget, Problem, minimize
    >>> from xrisk.functions import L2, Softplus
    >>> from xrisk.inner import Callables
    >>> from xrisk.solvers import ALEXR
    >>> inner = Callables(
    ...     n=2, d=1,
    ...     sample=lambda i, rng, size: rng.standard_normal(size),
    ...     value=lambda i, w, noise: (w[0] - i) + noise.mean(),
    ...     vjp=lambda i, w, noise, y: y,
    ...     exact=lambda i, w: w[0] - i,
    ...     affine=True,
    ... )
    >>> result = minimize(Problem(inner, Softplus(), L2(1.0)), ALEXR(blocks=2), budget=Budget(iterations=50), rng=0)
    >>> result.w.shape
    (1,)
    """

    n: int
    d: int
    sample: Callable
    value: Callable
    vjp: Callable
    exact: Callable
    m: int = 1
    affine: bool = False
    lipschitz: float = np.inf
    smoothness: float = np.inf

    def check(self) -> None:
        """Refuse empty problems."""
        if min(self.n, self.d, self.m) < 1:
            raise ValueError(f"n, d and m must be at least 1, got {self.n}, {self.d} and {self.m}")


class CallableBatch(NamedTuple):
    """What the user's ``sample`` returned, and how many samples it was asked for."""

    size: int
    samples: list[Any]  # of one entry


def read_only(array: np.ndarray) -> np.ndarray:
    """What a function is shown of the solver's own array: one that wrote into it would change the run in silence."""
    shown = array.view()
    shown.flags.writeable = False
    return shown


inner_count.of(Callables)(lambda g: g.n)
inner_size.of(Callables)(lambda g: g.d)
inner_dim.of(Callables)(lambda g: g.m)
inner_is_affine.of(Callables)(lambda g: g.affine)
inner_lipschitz.of(Callables)(lambda g: g.lipschitz)
inner_smoothness.of(Callables)(lambda g: g.smoothness)


@new_batch.of(Callables)
def _(g, size):
    return CallableBatch(size, [None])


@draw.of(Callables)
def _(g, i, rng, batch):
    batch.samples[0] = g.sample(i, rng, batch.size)


@batch_value.of(Callables)
def _(g, i, w, batch, out):
    out[:] = g.value(i, read_only(w), batch.samples[0])


@batch_vjp.of(Callables)
def _(g, i, w, batch, y, scale, grad):
    grad += scale * np.asarray(g.vjp(i, read_only(w), batch.samples[0], read_only(y)))


@exact_values.of(Callables)
def _(g, w, out):
    for i in range(g.n):
        out[i] = g.exact(i, read_only(w))


@exact_vjp.of(Callables)
def _(g, w, y, grad):
    raise TypeError("the exact gradient of plain Python inner functions is not known: a sampled solver is needed")
