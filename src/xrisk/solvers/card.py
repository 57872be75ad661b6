"""The cards of the table of methods: what a method needs, its cost, its rate, and the source of its update."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from xrisk.annotations import Solver
from xrisk.certificate import certifiable
from xrisk.functions import (
    block_is_monotone,
    block_is_smooth,
    block_lipschitz,
    penalty_convexity,
    risk_cap,
    risk_is_capped,
)
from xrisk.inner.oracle import (
    exact_values,
    exact_vjp,
    has_parts,
    inner_count,
    inner_dim,
    inner_is_affine,
    inner_lipschitz,
    inner_pooled,
    inner_samples,
    inner_smoothness,
    shared_count,
)
from xrisk.problem import Problem, coupled, is_risk


class Need(NamedTuple):
    """What a problem must have, or what a theorem assumes of it."""

    words: str  # completes "the method needs …"
    met: Callable[[Problem], bool]  # of the problem as stated
    part: str = "outer"  # the field of the problem it is about


class MethodCard(NamedTuple):
    """A row of the table of methods.

    ``confidence`` says where the update is from: "as published", checked against the paper, its book or the authors'
    code; "recalled" from memory of the literature; "reconstructed" from descriptions by others; or "ours". S is the
    number of blocks per iteration, B that of samples of each, n that of all blocks; σ₀² and σ₁² are the variances of a
    sampled inner value and gradient, δ² that between the blocks, μ the strong convexity of the penalty.
    """

    name: str
    paper: str  # with algorithm or equation
    confidence: str
    values: str  # sampled inner values per iteration
    gradients: str  # sampled inner gradients per iteration
    rate: str  # iterations to ε, and of what
    needs: tuple[Need, ...] = ()  # refused otherwise
    theory: tuple[Need, ...] = ()  # assumed by the rate; the method runs without it


SMOOTH_OUTER = Need("a smooth outer function", lambda problem: bool(block_is_smooth(coupled(problem).outer)))
MONOTONE_OUTER = Need(
    "a non-decreasing outer function", lambda problem: bool(block_is_monotone(coupled(problem).outer))
)
SMOOTH_INNER = Need("smooth inner functions", lambda problem: bool(inner_smoothness(problem.inner) < np.inf), "inner")
LIPSCHITZ_OUTER = Need(
    "a Lipschitz outer function",
    lambda problem: bool(block_lipschitz(coupled(problem).outer, np.inf, inner_dim(problem.inner)) < np.inf),
)
LIPSCHITZ_INNER = Need(
    "Lipschitz inner functions", lambda problem: bool(inner_lipschitz(problem.inner) < np.inf), "inner"
)
CONVEX_COUPLING = Need(
    "a non-decreasing outer function or affine inner functions",
    lambda problem: bool(block_is_monotone(coupled(problem).outer) or inner_is_affine(problem.inner)),
)
STRONGLY_CONVEX = Need(
    "a strongly convex penalty", lambda problem: bool(penalty_convexity(problem.penalty) > 0.0), "penalty"
)
FULL_PASSES = Need(
    "inner finite sums",
    lambda problem: all(verb.implemented(problem.inner) for verb in (exact_values, exact_vjp, inner_samples)),
    "inner",
)
CERTIFIABLE = Need(
    "inner functions with full passes, and losses, outer functions and penalties whose rounding is known",
    certifiable,
    "inner",
)
POOLED = Need(
    "inner functions whose samples can be pooled, such as Groups and Pairs",
    lambda problem: inner_pooled.implemented(problem.inner),
    "inner",
)
IN_PARTS = Need(
    "inner functions whose samples can be taken in order, such as Groups",
    lambda problem: has_parts(problem.inner, 2),
    "inner",
)
SHARED_SAMPLES = Need(
    "equally many numbered samples of all inner functions",
    lambda problem: shared_count(problem.inner) > 0,
    "inner",
)
SINGLE_SAMPLES = Need(
    "affine inner functions of one sample each",
    lambda problem: bool(
        inner_is_affine(problem.inner)
        and inner_samples.implemented(problem.inner)
        and inner_samples(problem.inner) == inner_count(problem.inner)
    ),
    "inner",
)
RISK = Need("a joint risk of the inner values", lambda problem: is_risk(problem.outer))
SUPPORT_RISK = Need("the maximum or a CVaR of the inner values", lambda problem: bool(risk_is_capped(problem.outer)))
MAXIMUM = Need(
    "the maximum of the inner values, or a CVaR of 1/n of them",
    lambda problem: bool(risk_is_capped(problem.outer) and risk_cap(problem.outer, inner_count(problem.inner)) == 1.0),
)


SADDLE_THEORY = (SMOOTH_OUTER, LIPSCHITZ_OUTER, SMOOTH_INNER, LIPSCHITZ_INNER, STRONGLY_CONVEX, CONVEX_COUPLING)


def suits(solver: Solver, problem: Problem) -> bool:
    """Whether the problem has what the solver's card needs; true of solvers without a card."""
    return not hasattr(solver, "card") or all(need.met(problem) for need in solver.card().needs)


def require(problem: Problem, card: MethodCard) -> None:
    """Refuse a problem that lacks what the method needs."""
    for need in card.needs:
        if not need.met(problem):
            raise ValueError(f"{card.name} needs {need.words}, got {type(getattr(problem, need.part)).__name__}")
