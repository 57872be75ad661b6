"""ASCVRG: snapshots at the means of epochs that grow, and proximal steps."""

import math
from typing import NamedTuple

import numpy as np

from xrisk.functions import block_slope, prox
from xrisk.functions.parameters import positive
from xrisk.inner.oracle import draw, new_batch, uniform_index
from xrisk.problem import Problem, block_slopes
from xrisk.solvers.base import COUPLED, prepare_coupled
from xrisk.solvers.card import FULL_PASSES, SMOOTH_INNER, SMOOTH_OUTER, MethodCard
from xrisk.solvers.method import method
from xrisk.solvers.shared.epochs import Growing, epoch_of, settled_epoch
from xrisk.solvers.shared.reduced import (
    KeptJacobians,
    add_reduced_vjp,
    mean_vjp_at,
    no_jacobians,
    reduced_value,
    values_at,
)
from xrisk.solvers.shared.tracking import average_into, first_duals


class ASCVRGState(NamedTuple):
    w: np.ndarray  # iterate
    w_mean: np.ndarray  # mean of the iterates of the epoch: the next snapshot
    w_hat: np.ndarray  # the snapshot x̃
    means: np.ndarray  # (n, m) g(x̃)
    y_hat: np.ndarray  # (n, m) ∇f(gᵢ(x̃))
    jacobians: KeptJacobians  # at x̃
    full: np.ndarray  # (1/n) Σ Jᵢ(x̃)ᵀ ∇f(gᵢ(x̃))
    began: int  # iterations done when the epoch began
    t: int  # iterations done


class ASCVRG(NamedTuple):
    """Accelerated stochastic compositional variance reduced gradient [1]_.

    Epoch e has round(5·1.5^(e−1)) iterations and begins with a full pass at x̃, the mean of the iterates of the epoch
    before. Its iterations are those of `CompositionalSVRG2`,

        x ← prox_{s_t r}( x − s_t (Ĵᵀ∇f(ĝ) − J̄ᵢᵀ∇f(ḡᵢ) + g̃) ),    s_t = s √(T/(2T − t)),

    T = n·passes, with steps that grow from s/√2 to s in the first T iterations.

    Parameters
    ----------
    step : float
        Step size s; 0.4 over the largest eigenvalue of the Hessian in the public code.
    passes : int
        Iterations, in units of n, after which the steps stay constant.
    epoch : Growing(), int or SingleLoop()
        Iterations from one full pass to the next; ``⌊n^(1/3)⌋`` with ``passes=1`` is VRSC-PG.
    batch, jacobian_batch : int
        Samples A of the inner value and B of the Jacobian.

    Notes
    -----
    For affine g the update is that of public code; for other g, Ĵ is that of VRSC-PG, by analogy. An epoch continues
    from the last iterate; only the snapshot is a mean. The state keeps the Jacobians of all blocks, n·m·d numbers.

    References
    ----------
    .. [1] Lin, Fan, Wang and Jordan, Improved sample complexity for stochastic compositional variance reduced gradient,
       2020.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> rng = np.random.default_rng(0)
    >>> X, groups = rng.standard_normal((100, 3)), rng.integers(0, 4, 100)
    >>> y = np.where(X[:, 0] > 0, 1, -1)
    >>> problem = xrisk.group_dro(X, y, groups, divergence="chi2", lam=1.0, l2=0.1)
    >>> result = xrisk.minimize(problem, xrisk.solvers.ASCVRG(0.3), budget=xrisk.Budget(iterations=100), rng=0)
    >>> bool(result.value - xrisk.solvers.exact(problem).value < 1e-3)
    True
    """

    step: float = 0.05
    passes: int = 50
    epoch: Growing | int = Growing()
    batch: int = 5
    jacobian_batch: int = 5

    def card(self) -> MethodCard:
        return MethodCard(
            "ASCVRG",
            "Lin et al. 2020",
            "reconstructed",
            values="2A, full passes",
            gradients="2B (none if g is affine), full passes",
            rate="convex: (n + N) log 1/ε + 1/ε³ calls",
            needs=(FULL_PASSES, SMOOTH_OUTER),
            theory=(SMOOTH_INNER,),
        )

    def prepare(self, problem: Problem) -> tuple[Problem, "ASCVRG"]:
        positive("step", self.step)
        problem, solver = prepare_coupled(problem, self)
        return problem, solver._replace(epoch=settled_epoch(self.epoch, problem, 1))

    def init(self, problem: Problem, x: np.ndarray, rng: np.random.Generator) -> ASCVRGState:
        y = first_duals(problem)
        means, full = np.zeros_like(y), np.zeros(x.size)
        return ASCVRGState(x.copy(), x.copy(), x.copy(), means, y, no_jacobians(problem), full, 0, 0)

    def pass_over(self, problem: Problem, state: ASCVRGState, rng: np.random.Generator) -> ASCVRGState:
        """The state with its snapshot at the mean of the epoch that ends here."""
        w_hat = state.w_mean.copy()
        means, began = values_at(problem, w_hat), epoch_of(self.epoch, state.t)[0]
        y_hat = block_slopes(problem.outer, means)
        jacobians, full = mean_vjp_at(state.jacobians, problem, w_hat, y_hat)
        return ASCVRGState(state.w.copy(), w_hat.copy(), w_hat, means, y_hat, jacobians, full, began, state.t)


@method(COUPLED, {"ascvrg": ASCVRG()})
def ascvrg_steps(problem, state, solver, n_steps, rng):
    w, w_mean, w_hat, means, y_hat, jacobians, full, began, t0 = state
    g, f, r = problem
    (n, m), d = means.shape, w.size
    value, value_hat, y, v = np.empty(m), np.empty(m), np.empty(m), np.empty(d)
    batch, other, rising = new_batch(g, solver.batch), new_batch(g, solver.jacobian_batch), n * solver.passes
    for t in range(t0, t0 + n_steps):
        step = solver.step * math.sqrt(rising / (2.0 * rising - min(t, rising)))
        i = uniform_index(rng, 0, n)
        draw(g, i, rng, batch)
        reduced_value(g, i, w, w_hat, batch, means, value, value_hat)
        block_slope(f, value, y)
        for j in range(d):
            v[j] = full[j]
        add_reduced_vjp(jacobians, g, i, w, w_hat, other, y, y_hat[i], rng, v)
        for j in range(d):
            w[j] -= step * v[j]
        prox(r, w, step)
        average_into(w_mean, w, 1.0 / (t + 1 - began))
    return ASCVRGState(w, w_mean, w_hat, means, y_hat, jacobians, full, began, t0 + n_steps)
