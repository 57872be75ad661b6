"""PG-SMD2: proximally guided stochastic mirror descent on parameters and the weights of all rows."""

import math
from typing import NamedTuple

import numpy as np

from xrisk.annotations import Spec
from xrisk.functions import prox
from xrisk.inner.oracle import batch_losses, batch_losses_vjp, inner_count, new_batch
from xrisk.problem import Problem
from xrisk.solvers.card import MethodCard
from xrisk.solvers.method import method
from xrisk.solvers.schedules import Decreasing, Stagewise, rate
from xrisk.solvers.shared.epochs import Lengthening, epoch_of, settled_epoch
from xrisk.solvers.shared.single_rows import (
    EQUAL_MASSES,
    KL_RISK,
    ROWS,
    SINGLE_ROWS,
    draw_rows,
    prepare_rows,
    weights_step,
    worst_weights,
)
from xrisk.solvers.shared.tracking import average_into, fill_zero


class PGSMD2State(NamedTuple):
    w: np.ndarray  # iterate
    p: np.ndarray  # (n,) weights of the rows
    anchor: np.ndarray  # w̄, around which the present stage works
    w_mean: np.ndarray  # average of the iterates of the stage
    p_mean: np.ndarray  # (n,) average of the weights of the stage
    stage: int  # stages begun
    first: int  # iterations done when the present stage began
    t: int  # iterations done


class PGSMD2(NamedTuple):
    """Proximally guided stochastic mirror descent, for strongly concave duals [1]_.

    Stage j = 1, 2, … begins at w̄, the mean iterate of the last one, and at the worst-case weights p there, a full pass.
    Then, with steps s/j and κ/j and B rows drawn alike, j times as often as in the first stage::

        w ← argmin ⟨g, w⟩ + (j/2s)‖w − w_t‖² + (ρ̄/2)‖w − w̄‖² + r(w),    g = mean n pᵢ∇vᵢ(w_t)
        p ← argmax over the ball of ⟨p, ĝ⟩ − (price of p) − (j/κ) KL(p, p_t),    ĝ = mean n vᵢ(w_t) eᵢ

    Parameters
    ----------
    step : float or schedule
        Step size s of the parameters.
    dual_step : float or schedule
        n·κ: the weight of a sampled row is multiplied by about exp(dual_step·vᵢ/(jB)).
    strength : float
        ρ̄ of the proximal term around w̄, which makes a stage convex where the losses are not; 0 for none.
    epoch : int or Lengthening(first) or Growing(first, factor)
        Iterations of the stages; by default first·j in stage j.
    least : float
        δ in (0, 1): weights below δ/n are raised to it.
    batch : int
        Rows per iteration B, with replacement.

    Notes
    -----
    An iteration takes O(n) operations, a stage begins with a full pass. We did not have the paper's text; the structure
    is from general knowledge of it: lengths grow and steps shrink linearly, stages restart at exact duals. Its
    constants are not established. The method reports the means of the present stage. As in `SPD`, no weight falls
    below δ/n.

    References
    ----------
    .. [1] Rafique, Liu, Lin and Yang, Weakly-convex–concave min–max optimization: provable algorithms and applications
       in machine learning, 2021.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> from xrisk.functions import L2, KLRisk
    >>> from xrisk.inner import LinearModel, Samples, as_rows
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 3))
    >>> y = np.where(X[:, 0] + 0.5 * rng.standard_normal(100) > 0, 1.0, -1.0)
    >>> problem = xrisk.Problem(Samples(LinearModel(as_rows(X), y)), KLRisk(0.5), L2(0.1))
    >>> result = xrisk.minimize(problem, xrisk.solvers.PGSMD2(), budget=xrisk.Budget(iterations=150), rng=0)
    >>> bool(result.value < xrisk.solvers.exact(problem).value + 0.02)
    True
    """

    step: float | Decreasing | Stagewise = 0.2
    dual_step: float | Decreasing | Stagewise = 10.0
    strength: float = 0.1
    epoch: Spec = Lengthening(100)
    least: float = 0.01
    batch: int = 16

    def card(self) -> MethodCard:
        return MethodCard(
            "PG-SMD2",
            "Rafique et al. 2021, under assumption D2",
            "recalled",
            values="B, full passes",
            gradients="B",
            rate="weakly convex 1/ε⁴ + n/ε² to near stationarity, O(n) per iteration",
            needs=(SINGLE_ROWS, KL_RISK, EQUAL_MASSES),
        )

    def prepare(self, problem: Problem) -> tuple[Problem, "PGSMD2"]:
        problem, solver = prepare_rows(problem, self)
        return problem, solver._replace(epoch=settled_epoch(solver.epoch, problem, solver.batch))

    def init(self, problem: Problem, w: np.ndarray, rng: np.random.Generator) -> PGSMD2State:
        p = np.full(inner_count(problem.inner), 1.0 / inner_count(problem.inner))
        return PGSMD2State(w.copy(), p, w.copy(), w.copy(), p.copy(), 0, 0, 0)

    def pass_over(self, problem: Problem, state: PGSMD2State, rng: np.random.Generator) -> PGSMD2State:
        """The state at the beginning of the next stage."""
        w, n = state.w_mean, state.p.size
        p = np.maximum(worst_weights(problem, w)[:, 0], self.least) / n
        p /= p.sum()
        first = epoch_of(self.epoch, state.t)[0]
        return PGSMD2State(w.copy(), p, w.copy(), w.copy(), p.copy(), state.stage + 1, first, state.t)


@method(ROWS, {"pg-smd2": PGSMD2()})
def pgsmd2_steps(problem, state, solver, n_steps, rng):
    w, p, anchor, w_mean, p_mean, stage, first, t0 = state
    g, rho, r = problem
    n, batch, grad, logits = p.size, new_batch(g, solver.batch), np.empty(w.size), np.empty(p.size)
    for t in range(t0, t0 + n_steps):
        step, kappa = rate(solver.step, t) / stage, rate(solver.dual_step, t) / (n * stage)
        draw_rows(g, rho, rng, batch)
        batch_losses(g, w, batch, batch.losses)
        for i in range(n):
            logits[i] = math.log(p[i])
        for b in range(solver.batch):
            batch.scales[b] = n * p[batch.rows[b]] / solver.batch
            logits[batch.rows[b]] += kappa * n * batch.losses[b] / solver.batch
        fill_zero(grad)
        batch_losses_vjp(g, w, batch, batch.scales, grad)
        adjoint = 1.0 + step * solver.strength
        for j in range(w.size):
            w[j] = (w[j] - step * (grad[j] - solver.strength * anchor[j])) / adjoint
        prox(r, w, step / adjoint)
        weights_step(rho, kappa, logits, solver.least, p)
        average_into(w_mean, w, 1.0 / (t + 1 - first))
        average_into(p_mean, p, 1.0 / (t + 1 - first))
    return PGSMD2State(w, p, anchor, w_mean, p_mean, stage, first, t0 + n_steps)
