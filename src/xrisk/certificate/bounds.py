"""Both sides of a certificate: the objective from above, the dual function from below."""

import contextlib
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from xrisk.certificate.cuts import Line, cut_bounds, has_cuts
from xrisk.certificate.dual import Choice, as_cuts, line_of, neighbours, penalised_box
from xrisk.certificate.optimum_box import best_lower_bound
from xrisk.certificate.passes import Bounded, Measured, bounded_values, measured, slope_candidates, unknown_part
from xrisk.certificate.penalties import penalty_rounding
from xrisk.certificate.rounding import EPS, TINY, block_sizes, risk_terms, risk_upper
from xrisk.certificate.weights import weight_candidates
from xrisk.compile import canonical, worthwhile
from xrisk.data.threads import Interrupted, one_thread_each
from xrisk.functions import block_is_monotone
from xrisk.inner.oracle import inner_size
from xrisk.inner.passes import scores_at, to_centred
from xrisk.problem import Problem, apply_prox, is_risk, penalty_at, risk_at

LEAST = TINY / EPS  # numbers below it have fewer digits
PERFECT = 1e-12


class Certificate(NamedTuple):
    """dual ≤ optimum ≤ primal, so the point is within gap = primal − dual of the optimum.

    ``relative`` is the gap over the larger of |primal| and |dual|; where either is infinite, both are inf.
    """

    primal: float
    dual: float
    gap: float
    relative: float


def certify(problem: Problem, result: Any) -> Certificate:
    """Bound the optimum from both sides at a result of `xrisk.minimize` or `xrisk.solvers.exact`.

    With weights q in the dual set of the risk and any slopes v in the domain of ℓ*,

        D(q, v) = −ρ*(q) − Σᵢ qᵢ meanⱼ ℓ*(vᵢⱼ) − r*(−Σᵢ qᵢ meanⱼ vᵢⱼ xᵢⱼ)

    is below the optimum. `certify` tries the weights of the solver and those of the worst case at ``result.w``, with
    the slopes of the solver and those of the losses at ``result.w``, and keeps the best bound. Both sides allow for
    rounding: they hold for the real numbers in the arrays of the problem.

    Parameters
    ----------
    problem : Problem
        Inner functions with full passes (group means of a linear or softmax model, means over pairs of rows), and an
        outer function or risk, loss and penalty whose rounding is known; unknown parts are refused. For losses in the
        tail of pairs it tries the cuts at the point and at zero; a run of `Bundle` proves more.
    result : Result, or anything with ``w`` and, if known, ``dual`` (n, m) and ``slopes``
        The point and the dual weights; these need not be feasible, they are projected.

    Returns
    -------
    Certificate
        Outside the domain of the penalty, and where the objective overflows, ``primal = inf``. The gap of an exact
        solution is small where r* is finite everywhere (l2, elastic net, ball, box), for l1, and with one intercept.
        Where r* is infinite on the way to 0 (no penalty, the non-negative numbers, more than one free coordinate),
        slopes of 0 may be the only feasible ones, and prove only that losses are not negative. Affine losses have one
        slope: under a risk or a maximum, where r* is infinite at it, ``dual = -inf``. Where either side is infinite,
        so are ``gap`` and ``relative``.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> rng = np.random.default_rng(0)
    >>> X, groups = rng.standard_normal((200, 2)), rng.integers(0, 3, 200)
    >>> y = np.where(X[:, 0] + rng.standard_normal(200) > 0, 1, -1)
    >>> problem = xrisk.group_dro(X, y, groups, divergence="max", l2=0.1)
    >>> best = xrisk.solvers.exact(problem)
    >>> xrisk.certify(problem, best).relative < 1e-6
    True
    """
    problem.check()
    if not certifiable(problem) and has_cuts(problem):
        problem = canonical(problem)
        return between(*cut_bounds(problem, _point(problem, result)))
    return certify_measured(measured(problem), result)


def certify_measured(known: "Measured", result: Any, enough: float = 0.0) -> Certificate:
    """As `certify`, of a problem whose rows have been measured; takes two full passes at best.

    The solver's own weights and slopes are tried first, others only while the relative gap is above ``enough``. When
    passes are interrupted, the bound found so far is returned.
    """
    problem = known.problem
    w = _point(problem, result)
    with one_thread_each(), np.errstate(over="ignore", invalid="ignore"):  # infinities are bounds as well
        z = scores_at(problem.inner, to_centred(known.centre, w))
        u = bounded_values(known, w, z)
        primal = _primal(problem, w, u)
        weights = weight_candidates(problem, u.value, getattr(result, "dual", None))
        candidates = slope_candidates(known, z, getattr(result, "slopes", None))
        return _best_proof(known, primal, ((q, v) for q in weights for v in candidates), enough)


def _best_proof(known: Measured, primal: float, choices: Iterator[Choice], enough: float) -> Certificate:
    """The certificate of the weights and slopes that prove most; columns with a negligible ridge need several."""
    found, first = between(primal, -np.inf), None
    lines: list[Line] = []
    with contextlib.suppress(Interrupted):
        for choice in choices:
            first = first or choice
            lines.append(line_of(known, *choice))
            found = between(primal, max(found.dual, lines[-1].bound(known.penalty)))
            if found.relative <= enough:
                return found
        box = penalised_box(known)
        if first and box.loose.size and primal < np.inf:
            lines += [line_of(known, *choice) for choice in neighbours(known, box, first)]
            found = between(primal, max(found.dual, best_lower_bound(box, as_cuts(lines, box.scale), primal)))
    return found


NOTHING_PROVED = Certificate(np.inf, -np.inf, np.inf, np.inf)


def certifiable(problem: Problem) -> bool:
    """Whether `certify` knows every part of the problem by walks over its samples."""
    return unknown_part(problem) is None


def between(primal: float, dual: float) -> Certificate:
    """The certificate of two proved bounds."""
    gap = max(primal - dual, 0.0)
    return Certificate(primal, dual, gap, gap / max(abs(primal), abs(dual), LEAST) if gap < np.inf else np.inf)


def is_perfect(known: Certificate, size: float) -> bool:
    """Whether the objective is negligible compared to ``size``: a gap relative to zero has no digits."""
    return max(known.gap, known.primal) <= max(PERFECT * size, LEAST)


def _point(problem: Problem, result: Any) -> np.ndarray:
    """The point of a result, moved into the domain where it is outside by no more than rounding."""
    w, d = np.array(result.w, dtype=np.float64), inner_size(problem.inner)
    if w.shape != (d,) or not np.isfinite(w).all():
        raise ValueError(f"w must be finite and of shape ({d},), got shape {w.shape}")
    if penalty_at(problem.penalty, w) < np.inf:
        apply_prox(problem.penalty, w, TINY)  # the prox of so short a step is the projection
    return w


def _primal(problem: Problem, w: np.ndarray, values: Bounded) -> float:
    """An upper bound on the objective at w, whose inner values are known."""
    (u, error), f = values, problem.outer
    n, m = u.shape
    penalty = penalty_at(problem.penalty, w)
    if not (np.isfinite(u + error).all() and penalty < np.inf):
        return np.inf
    if is_risk(f):
        top, size = (u + error)[:, 0], float(np.abs(u).max() + error.max())
        value, plain = risk_at(f, top), risk_upper(f, top)
        is_plain = not value + 16 * EPS * (n + m + 16) * risk_terms(f, n) < plain  # its rounding is larger
        size += 0.0 if is_plain else risk_terms(f, n)
        upper = np.array([plain if is_plain else value])
    else:
        ends = (u + error,) if block_is_monotone(f) else (u - error, u + error)  # convex: largest at an end
        parts = [end.reshape(-1, m if block_is_monotone(f) else 1) for end in ends]
        ends_values, sizes = np.empty((2, len(parts), len(parts[0])))
        for part, value, terms in zip(parts, ends_values, sizes, strict=True):
            worthwhile(block_sizes, part.size, f)(f, part, value, terms)
        share = len(parts[0]) / n
        upper, size = ends_values.max(axis=0) * share, float(sizes.mean(axis=1).max()) * share
    slack = 16 * EPS * (n + m + 16) * size + penalty_rounding(problem.penalty, w)
    primal = float(upper.mean() + penalty + slack)
    return np.inf if math.isnan(primal) else primal
