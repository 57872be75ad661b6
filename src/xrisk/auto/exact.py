"""The ground truth: Newton's method under the driver, a bundle of cuts where there is no walk over the samples."""

from xrisk.auto.choice import ONLY_BY_CUTS, choose
from xrisk.problem import Problem
from xrisk.run import Budget, Result, minimize
from xrisk.solvers.newton.solver import Newton


def exact(problem: Problem, *, tol: float = 1e-9, max_steps: int = 400) -> Result:
    """Minimise a convex problem of linear scores to ``tol`` relative to its objective, by `xrisk.solvers.Newton`.

    `xrisk.solvers.Bundle` takes losses in the tail of pairs, with a ridge.

    Parameters
    ----------
    problem : Problem
        Group means of a linear or softmax model, means over pairs, or noisy coordinates; any of our outer functions,
        risks, penalties; at most 5,000 variables.
    tol : float
        Accepted suboptimality relative to the objective.
    max_steps : int
        Newton steps at most; ten times as many of `Bundle`, which are cheaper.

    Returns
    -------
    Result
        With the dual weights and slopes of the losses that `xrisk.certify` needs.

    Examples
    --------
    >>> import xrisk
    >>> from xrisk.functions import HardSmooth, L2
    >>> from xrisk.inner import NoisyCoordinates
    >>> best = xrisk.solvers.exact(xrisk.Problem(NoisyCoordinates(n=4, nu=0.3), HardSmooth(nu=0.3), L2(0.125)))
    >>> round(best.value, 9)
    -0.03
    """
    newton = Newton(tol)
    chosen = choose(problem, newton, (ONLY_BY_CUTS,))
    return minimize(problem, chosen, budget=Budget(iterations=max_steps if chosen is newton else 10 * max_steps))
