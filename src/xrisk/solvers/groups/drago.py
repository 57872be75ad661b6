"""Drago: primal and dual steps on tables, which are refreshed in turn and corrected at random parts."""

from typing import NamedTuple

import numpy as np
from numba.extending import register_jitable

from xrisk.annotations import Spec
from xrisk.functions import prox, risk_is_support, risk_project, risk_weights
from xrisk.functions.parameters import non_negative
from xrisk.inner.oracle import (
    Oracles,
    batch_value,
    batch_vjp,
    draw_part,
    inner_count,
    new_batch,
    part_count,
    sample_parts,
    uniform_index,
)
from xrisk.problem import Problem
from xrisk.solvers.base import AS_STATED, prepare_as_stated
from xrisk.solvers.card import IN_PARTS, RISK, SMOOTH_INNER, STRONGLY_CONVEX, MethodCard
from xrisk.solvers.method import method
from xrisk.solvers.schedules import Decreasing, LastIterate, Stagewise, average_weight, rate
from xrisk.solvers.shared.tracking import average_into


class DragoState(NamedTuple):
    w: np.ndarray  # iterate
    z: np.ndarray  # (n,) mean of estimated values; q are the weights there
    q: np.ndarray  # (n,) weights
    u: np.ndarray  # (n,) values of the groups by the table
    total: np.ndarray  # Σ q̂ᵢ∇gᵢ by the table
    fresh: np.ndarray  # gradient of the part last visited, not yet in the table
    values: np.ndarray  # (parts,) table of values
    weights: np.ndarray  # (parts,) table of weights of the groups
    grads: np.ndarray  # (parts, d) table of gradients
    w_mean: np.ndarray  # average of the iterates
    t: int  # iterations done


class Drago(NamedTuple):
    """Primal-dual steps with coupled variance reduction [1]_. Its parts are those of the authors' code.

    On min over w of max over q of Σ qᵢgᵢ(w) − ρ*(q) + r(w). The rows of all groups are divided into C parts of B rows.
    The value of a group is the sum of a_c g_c over its parts, with g_c the mean loss of a part. Tables hold a value ℓ̂,
    a weight q̂ and a gradient ĝ of every part. In an iteration, k is the next part in turn, i and j are random ones;
    q_c is the weight of the group of a part, and e_c its unit vector::

        v = Σ_c a_c q̂_c ĝ_c + θ C a_i (q_{t,i} ∇g_i(w_t) − q̂′_i ĝ′_i)     q̂′, ĝ′: the tables an iteration before
        w_{t+1} = prox_{s r}( w_t − s v )
        h = Σ_c a_c ℓ̂_c e_c + θ C a_j (g_j(w_{t+1}) − ℓ̂′_j) e_j           ℓ̂_k = g_k(w_{t+1}), else ℓ̂ = ℓ̂′
        z_{t+1} = (1 − γ) z_t + γ h                                       q_{t+1} = argmax ⟨q, z_{t+1}⟩ − ρ*(q)
        q̂_k, ĝ_k = q_{t+1,k}, ∇g_k(w_{t+1})

    Parameters
    ----------
    step : float or schedule
        Step size s of the parameters.
    track : float or schedule
        Weight γ of the new values: a dual step of size γ/(1 − γ) under the divergence of ρ*.
    theta : float
        Weight θ of the sampled corrections.
    batch : int
        Rows of a part, B.
    smoothing : float
        ν > 0 adds the price (ν/n) Σ ½(n qᵢ − 1)² to a CVaR or the maximum, which have no price themselves. This lowers
        the risk by at most ν (1/α − 1)/2, for the maximum ν (n − 1)/2. 0 for other risks.
    average : LastIterate(), UniformAverage(), PolynomialAverage(), …
        What is reported.

    Notes
    -----
    The paper's losses are those of single rows under any convex set of their weights; here the set gives all rows of a
    group the same weight, and r is any penalty with a prox. Its one constant α sets s = α(1 + α)/μ, θ = 1/(1 + α) and
    γ/(1 − γ) = α(1 + α), and its first steps are longer, from an infinite one down to these. It also draws w_{t+1}
    towards the last iterates of all parts, with weights of the order of 1/n² that the authors' code calls essentially
    zero; we leave this out. That q̂′ and ĝ′ are the tables one iteration before is recalled from the paper; the code
    uses those one visit before, which takes twice the memory and was slower in our trials. The divergence of ρ* is
    taken at its slope z_t at q_t, as in dual averaging; where weights are 0 the paper's differs.

    The tables take (d + 2) numbers for every B rows. The first iteration fills them. A part with fewer
    than B rows counts as B oracle calls.

    References
    ----------
    .. [1] Mehta, Diakonikolas and Harchaoui, Drago: primal-dual coupled variance reduction for faster distributionally
       robust optimization, 2024, Algorithm 1.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> rng = np.random.default_rng(0)
    >>> X, groups = rng.standard_normal((100, 3)), rng.integers(0, 4, 100)
    >>> y = np.where(X[:, 0] > 0, 1, -1)
    >>> problem = xrisk.group_dro(X, y, groups, divergence="chi2", lam=1.0, l2=0.1)
    >>> result = xrisk.minimize(problem, xrisk.solvers.Drago(step=0.5), budget=xrisk.Budget(iterations=100), rng=0)
    >>> bool(result.value - xrisk.solvers.exact(problem).value < 1e-6)
    True
    """

    step: float | Decreasing | Stagewise = 0.1
    track: float | Decreasing | Stagewise = 0.2
    theta: float = 0.9
    batch: int = 8
    smoothing: float = 0.0
    average: Spec = LastIterate()

    def card(self) -> MethodCard:
        return MethodCard(
            "Drago",
            "Mehta et al. 2024, Algorithm 1",
            "recalled",
            values="2B, one full pass",
            gradients="2B, one full pass",
            rate="linear, for a risk smooth by its price on the weights",
            needs=(RISK, IN_PARTS),
            theory=(SMOOTH_INNER, STRONGLY_CONVEX),
        )

    def prepare(self, problem: Problem) -> tuple[Problem, "Drago"]:
        problem, solver = prepare_as_stated(problem, self)
        if risk_is_support(problem.outer) != (solver.smoothing > 0.0):
            right = "positive for a risk with a kink" if solver.smoothing == 0.0 else "0 for a smooth risk"
            raise ValueError(f"smoothing must be {right}, got {self.smoothing} for {type(problem.outer).__name__}")
        return problem, solver

    def init(self, problem: Problem, w: np.ndarray, rng: np.random.Generator) -> DragoState:
        n, parts = inner_count(problem.inner), part_count(problem.inner, self.batch)
        z, q, u, total, fresh = np.zeros(n), np.full(n, 1.0 / n), np.zeros(n), np.zeros(w.size), np.zeros(w.size)
        tables = np.zeros(parts), np.full(parts, 1.0 / n), np.zeros((parts, w.size))
        return DragoState(w.copy(), z, q, u, total, fresh, *tables, w.copy(), 0)

    def oracles(self, problem: Problem, t: int) -> Oracles:
        filled = part_count(problem.inner, self.batch) if t > 0 else 0
        return Oracles((2 * t + filled) * self.batch, (2 * t + filled) * self.batch)


@register_jitable
def fill_tables(g, state, parts, batch):
    """Tables and their sums at the start, where all groups weigh the same."""
    group, first, share = parts
    value, one = np.empty(1), np.ones(1)
    for k in range(group.size):
        draw_part(g, group[k], first[k], batch)
        batch_value(g, group[k], state.w, batch, value)
        batch_vjp(g, group[k], state.w, batch, one, 1.0, state.grads[k])
        state.values[k] = value[0]
        state.u[group[k]] += share[k] * value[0]
        for j in range(state.w.size):
            state.total[j] += share[k] * state.weights[k] * state.grads[k, j]
    for j in range(state.w.size):
        state.fresh[j] = state.grads[-1, j]


@register_jitable
def write_dual(rho, z, smoothing, q):
    """argmax ⟨q, z⟩ − ρ*(q) − (ν/n) Σ ½(n qᵢ − 1)², where one of the two prices is zero."""
    if smoothing == 0.0:
        risk_weights(rho, z, q)
    else:
        for i in range(q.size):
            q[i] = (1.0 + z[i] / smoothing) / q.size
        risk_project(rho, q)


@method(AS_STATED, {"drago": Drago(), "drago-smoothed": Drago(smoothing=0.005)}, smoothing=non_negative)
def drago_steps(problem, state, solver, n_steps, rng):
    w, z, q, u, total, fresh, values, weights, grads, w_mean, t0 = state
    g, rho, r = problem
    parts, theta, smoothing = values.size, solver.theta, solver.smoothing
    group, first, share = sample_parts(g, solver.batch, parts)
    value, one, v, batch = np.empty(1), np.ones(1), np.empty(w.size), new_batch(g, solver.batch)
    if t0 == 0 and n_steps > 0:
        fill_tables(g, state, (group, first, share), batch)
    for t in range(t0, t0 + n_steps):
        step, track = rate(solver.step, t), rate(solver.track, t)
        i, j, k, last = uniform_index(rng, 0, parts), uniform_index(rng, 0, parts), t % parts, (t - 1) % parts
        weight = theta * parts * share[i]
        for b in range(w.size):
            v[b] = total[b] - weight * weights[i] * grads[i, b]
            grads[last, b] = fresh[b]
            fresh[b] = 0.0
        weights[last] = q[group[last]]
        draw_part(g, group[i], first[i], batch)
        batch_vjp(g, group[i], w, batch, one, weight * q[group[i]], v)
        for b in range(w.size):
            w[b] -= step * v[b]
        prox(r, w, step)
        draw_part(g, group[j], first[j], batch)
        batch_value(g, group[j], w, batch, value)
        change = theta * parts * share[j] * (value[0] - values[j])
        draw_part(g, group[k], first[k], batch)
        batch_value(g, group[k], w, batch, value)
        batch_vjp(g, group[k], w, batch, one, 1.0, fresh)
        u[group[k]] += share[k] * (value[0] - values[k])
        values[k] = value[0]
        for c in range(u.size):
            h = u[c] + (change if c == group[j] else 0.0)
            z[c] += track * (h - z[c])
        write_dual(rho, z, smoothing, q)
        for b in range(w.size):
            total[b] += share[k] * (q[group[k]] * fresh[b] - weights[k] * grads[k, b])
        average_into(w_mean, w, average_weight(solver.average, t))
    return DragoState(w, z, q, u, total, fresh, values, weights, grads, w_mean, t0 + n_steps)
