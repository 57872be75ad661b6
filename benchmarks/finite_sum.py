"""Speed as ratios in one process: SVRPDA iterations, policy evaluation and portfolios against plain NumPy and SciPy.

Run ``python benchmarks/finite_sum.py``; contestants take turns, ratios are those of their least times.
"""

import time
import warnings

import numpy as np

import xrisk
from xrisk.applications import bellman
from xrisk.compile import kernel
from xrisk.data.rows import dense_dot
from xrisk.datasets import make_mdp, make_returns
from xrisk.solvers import SVRPDAI, SVRPDAII

STATES, FEATURES, SUCCESSORS, STEPS = 10_000, 10, 50, 300_000


@kernel
def read_stored(g, y, means, jacobians, chosen, w):
    """Dot the rows of a state and a successor of it and its Jacobian, and read the numbers of that transition."""
    law, total = g.law, 0.0
    for t in range(chosen.shape[0]):
        i = chosen[t, 0]
        p = law.starts[i] + chosen[t, 1]
        total += dense_dot(g.features[i], w) + dense_dot(g.features[law.successors[p]], w)
        total += dense_dot(jacobians[i, 0], w) + y[i, 0] + means[i, 0] + law.reward[p] + law.probability[p]
    return total


@kernel
def read_generated(g, y, means, jacobians, chosen, w):
    """The same where transitions are computed: a number for each state is all that is stored of them."""
    total = 0.0
    for t in range(chosen.shape[0]):
        i = chosen[t, 0]
        total += dense_dot(g.features[i], w) + dense_dot(g.features[chosen[t, 1]], w)
        total += dense_dot(jacobians[i, 0], w) + y[i, 0] + means[i, 0] + g.law.sums[i]
    return total


def iteration(solver, successors, rounds=9):
    """Nanoseconds of an iteration on a decision process, and its ratio over reading the same rows."""
    mdp = make_mdp(STATES, FEATURES, successors=successors, random_state=0)
    stated = bellman(mdp.transitions, mdp.rewards, mdp.features, sampling="uniform")
    problem, solver = solver.prepare(stated)
    rng, read = np.random.default_rng(0), read_stored if successors else read_generated
    state = solver.advance(problem, solver.init(problem, np.zeros(FEATURES), rng), 10, rng)
    jacobians, w = np.ascontiguousarray(stated.inner.mean_rows)[:, None, :], np.ones(FEATURES)
    seconds = []
    for _ in range(rounds + 1):
        chosen = np.column_stack([rng.integers(0, STATES, STEPS), rng.integers(0, successors or STATES, STEPS)])
        started = time.perf_counter()
        read(stated.inner, state.y, state.means, jacobians, chosen, w)
        between = time.perf_counter()
        state = solver.advance(problem, state, STEPS, rng)
        seconds.append((time.perf_counter() - between, between - started))
    ours, theirs = np.min(seconds[1:], axis=0)
    return 1e9 * ours / STEPS, ours / theirs


def take_turns(contestants, rounds=5):
    """The least seconds of each."""
    seconds = []
    for _ in range(rounds + 1):  # the first compiles
        times = []
        for run in contestants:
            started = time.perf_counter()
            run()
            times.append(time.perf_counter() - started)
        seconds.append(times)
    return np.min(seconds[1:], axis=0)


def normal_equations(mdp, discount=0.9):
    """Policy evaluation as a good engineer writes it."""
    A = mdp.features - discount * (mdp.transitions @ mdp.features)
    return np.linalg.solve(A.T @ A, A.T @ mdp.rewards)


def policy(states, features):
    mdp = make_mdp(states, features, successors=5, random_state=0)
    model = xrisk.PolicyEvaluator()
    times = take_turns(
        (
            lambda: model.fit(mdp.features, transitions=mdp.transitions, rewards=mdp.rewards),
            lambda: normal_equations(mdp),
        )
    )
    return (*times, model.certificate_.relative)


def projected_descent(returns, aversion=1.0, tol=1e-6):
    """A long-only portfolio as a good engineer writes it: accelerated projected gradients, restarted, to a gap."""
    mean, Q = returns.mean(axis=0), 2.0 * aversion * np.cov(returns.T, bias=True)
    step = 1.0 / np.linalg.eigvalsh(Q)[-1]
    w = ahead = np.full(mean.size, 1.0 / mean.size)
    speed = 1.0
    for t in range(100_000):
        gradient = Q @ ahead - mean
        x = on_simplex(ahead - step * gradient)
        if (ahead - x) @ (x - w) > 0.0:
            speed = 1.0
        faster = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * speed**2))
        ahead, w, speed = x + (speed - 1.0) / faster * (x - w), x, faster
        if t % 10 == 9:
            gradient = Q @ w - mean
            if gradient @ w - gradient.min() <= tol * abs(0.5 * w @ (gradient - mean)):
                break
    return w


def on_simplex(v):
    u = np.sort(v)[::-1]
    excess = (np.cumsum(u) - 1.0) / np.arange(1, v.size + 1)
    return np.maximum(v - excess[np.flatnonzero(u > excess)[-1]], 0.0)


def modelled(returns, aversion=1.0):
    """The same in CVXPY."""
    import cvxpy

    w = cvxpy.Variable(returns.shape[1])
    mean, covariance = returns.mean(axis=0), np.cov(returns.T, bias=True)
    value = mean @ w - aversion * cvxpy.quad_form(w, cvxpy.psd_wrap(covariance))
    cvxpy.Problem(cvxpy.Maximize(value), [w >= 0, cvxpy.sum(w) == 1]).solve()
    return w.value


def portfolio(periods, assets, rounds):
    returns = 100.0 * make_returns(periods, assets, random_state=0).returns
    model = xrisk.MeanVariancePortfolio()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        times = take_turns(
            (lambda: model.fit(returns), lambda: projected_descent(returns), lambda: modelled(returns)), rounds
        )
    return (*times, model.certificate_.relative)


def main():
    print(f"one SVRPDA iteration, {STATES:,} states, {FEATURES} features, over reading the same rows (at most 3)")
    for name, successors in ((f"{SUCCESSORS} stored successors", SUCCESSORS), ("generated transitions", None)):
        for solver in (SVRPDAI(0.01, 10.0, 10**9), SVRPDAII(0.01, 10.0, 10**9)):
            nanoseconds, ratio = iteration(solver, successors)
            print(f"  {type(solver).__name__:9s} {name:24s} {nanoseconds:6.0f} ns  {ratio:5.2f}", flush=True)
    print("PolicyEvaluator, certified, over normal equations in NumPy; seconds")
    for states, features in ((1_000, 10), (100_000, 20), (1_000_000, 20), (20_000, 500)):
        ours, theirs, gap = policy(states, features)
        print(f"  {states:>9,} × {features:<5} {ours:8.4f}  {ours / theirs:5.2f}  gap {gap:.0e}", flush=True)
    print("MeanVariancePortfolio, long only, certified, over projected gradients in NumPy and over CVXPY; seconds")
    for periods, assets, rounds in ((1_000, 25, 5), (100_000, 100, 5), (1_000_000, 100, 2), (1_000, 1_000, 2)):
        ours, theirs, model, gap = portfolio(periods, assets, rounds)
        ratios = f"{ours / theirs:5.2f} {ours / model:5.2f}"
        print(f"  {periods:>9,} × {assets:<5} {ours:8.4f}  {ratios}  gap {gap:.0e}", flush=True)


if __name__ == "__main__":
    main()
