"""The protocol between the driver and the solvers."""

import enum
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from xrisk.annotations import Spec, State
from xrisk.compile import canonical
from xrisk.functions.parameters import (
    Check,
    below_one,
    check_fields,
    check_spec,
    from_zero_to_one,
    inside_zero_to_one,
    non_negative,
    positive,
    whole,
    whole_from,
)
from xrisk.generic import generic
from xrisk.inner.oracle import Oracles, has_batches, inner_count, inner_samples
from xrisk.problem import Problem, coupled, coupled_start
from xrisk.solvers.card import MethodCard, require
from xrisk.solvers.schedules import average_weight, check_fraction, check_step, rate

BLOCKS = 8  # per iteration, by default


class Stop(enum.Enum):
    """Why a run ended; the value is the sentence that users read."""

    CONVERGED = "converged: the gap is within the tolerance"
    PERFECT = "the fit is perfect up to rounding: the objective is below 1e-12 of that of a constant model"
    OPTIMAL = "optimal up to rounding: the gap is below 1e-12 of what the objective is made of"
    UNTIL = "the `until` condition was met"
    ITERATIONS = "the budget of iterations is used up"
    ORACLE_CALLS = "the budget of oracle calls is used up"
    SECONDS = "the budget of seconds is used up"
    ROUNDING = "the method can do no better in floating point"
    LOOSE = "the solver reached its own tolerance"
    LOCAL = "a local optimum: the surrogate is bounded, not convex, and nothing is proved of it"
    EARLY = "as many steps as a bounded surrogate is given, short of a local optimum: nothing is proved of it"
    KEPT = "the start is kept, nothing was sure to be better: the surrogate is bounded, and nothing is proved of it"
    FLAT = "the objective is flat to the tolerance but w still moves: the minimum may not be attained"
    UNBOUNDED = "the objective falls without bound"
    INTERRUPTED = "interrupted: this is the best point seen so far"
    DIVERGED = "the iterates diverged, a smaller step is needed: this is the best point seen before"

    def __str__(self) -> str:
        return self.value


PROVED_ENDINGS = (Stop.CONVERGED, Stop.PERFECT, Stop.OPTIMAL)  # fits that end so need no warning
BOUNDED_ENDINGS = (Stop.LOCAL, Stop.EARLY, Stop.KEPT)  # of fits of a bounded surrogate that no limit ended


class Solver(Protocol):
    """A solver is data; the driver owns time, budgets, traces and files.

    States are NamedTuples of arrays, whole numbers and further states. ``advance`` may write into the arrays of the
    state it is given. Advancing by a and then by b must equal advancing by a + b, bit for bit.

    Full passes, also those in ``prepare`` and ``init``, raise `xrisk.data.threads.Interrupted` when time is up or
    Ctrl-C was pressed. The driver then continues with the state it gave to ``advance``, which must therefore not be
    written to before the last pass is done.
    """

    def card(self) -> MethodCard:
        """What the method needs, costs and promises."""

    def prepare(self, problem: Problem) -> tuple[Problem, Any]:
        """The problem in the form this solver works on, and the solver with its open choices settled.

        Raises an error of one sentence if the two do not fit; nothing is compiled.
        """

    def start(self, problem: Problem, w: np.ndarray) -> np.ndarray:
        """The solver's variable at the parameters ``w`` of the problem as stated."""

    def init(self, problem: Problem, x: np.ndarray, rng: np.random.Generator) -> Any:
        """The state at the variable ``x``."""

    def advance(self, problem: Problem, state: State, n_steps: int, rng: np.random.Generator) -> Any:
        """The state ``n_steps`` iterations on."""

    def solution(self, state: State) -> np.ndarray:
        """The variable to report."""

    def dual(self, problem: Problem, state: State) -> np.ndarray:
        """Dual weights y (n, m) to report, yᵢ in the domain of f*."""

    def oracles(self, problem: Problem, t: int) -> Oracles:
        """Calls of the oracles in the first t iterations, full passes included."""


class PointToProve(NamedTuple):
    """What a certificate looks at: parameters, dual weights, slopes of the losses."""

    w: np.ndarray
    dual: np.ndarray | None
    slopes: Any = None


@generic
def known_stop(solver, state):
    """The `Stop` by which the method itself has ended; None while it has not."""


known_stop.otherwise(lambda solver, state: None)


@generic
def known_slopes(solver, state):
    """Slopes of the losses that belong to the dual weights, `xrisk.inner.passes.Slopes`; None where none are kept."""


known_slopes.otherwise(lambda solver, state: None)


@generic
def known_value(solver, state):
    """The objective at the solution; NaN of a method that does not know it."""


known_value.otherwise(lambda solver, state: np.nan)


@generic
def known_gap(solver, state):
    """The method's own estimate of how far the objective is above the optimum; NaN of a method that has none."""


known_gap.otherwise(lambda solver, state: np.nan)


@generic
def known_certificate(solver, state):
    """The `Certificate` of the solution; None of a method that has proved nothing."""


known_certificate.otherwise(lambda solver, state: None)


@generic
def known_phase(solver, state):
    """What the method is doing, in a word."""


@known_phase.otherwise
def _(solver, state):
    return "run"


@generic
def known_omega(solver, problem, state):
    """Ω = Σᵢ D_ψ(yᵢ, yᵢ₀) of the present dual blocks; inf where it is not known."""


known_omega.otherwise(lambda solver, problem, state: np.inf)


@generic
def on_all_rows(solver, state):
    """Whether the solution is worth a full pass; not while a method works on a sample of the rows."""


on_all_rows.otherwise(lambda solver, state: True)


@generic
def iterations_made(solver, state, requested):
    """Iterations done by a method that may end before the requested number."""


iterations_made.otherwise(lambda solver, state, requested: requested)


@generic
def passes_made(solver, problem, state, t):
    """Oracle calls of the t iterations so far, for methods whose iterations differ in their number."""


@passes_made.otherwise
def _(solver, problem, state, t):
    return solver.oracles(problem, t)


@generic
def calls_ahead(solver, problem, state, t, steps):
    """The least number of oracle calls in the ``steps`` iterations after the first t."""


@calls_ahead.otherwise
def _(solver, problem, state, t, steps):
    before, after = solver.oracles(problem, t), solver.oracles(problem, t + steps)
    return Oracles(after.values - before.values, after.gradients - before.gradients)


@generic
def like_state(solver, problem, blank, found):
    """A state with arrays of the shapes that ``found``, read from a file, must have; ``blank`` is the first state."""


like_state.otherwise(lambda solver, problem, blank, found: blank)


@generic
def check_state(solver, state):
    """Refuse a state read from a file, with arrays of the right shapes, that no run of the solver leads to."""


@check_state.otherwise
def _(solver, state):
    pass


def check_code(name: str, value: int, known: tuple[Any, ...]) -> None:
    """Refuse a number of a state that should be a place in ``known`` and is not."""
    if not 0 <= value < len(known):
        raise ValueError(f"{name} must lie between 0 and {len(known) - 1}, got {value}")


def copied(state: State) -> Any:
    """A copy of the state and its arrays."""
    if isinstance(state, tuple):
        return state._make(map(copied, state))  # type: ignore[attr-defined]
    return state.copy() if isinstance(state, np.ndarray) else state


class Form(NamedTuple):
    """How a family of methods takes a problem."""

    prepare: Callable[[Problem, Any], tuple[Problem, Any]]  # `Solver.prepare`
    start: Callable[[Problem, np.ndarray], np.ndarray]  # `Solver.start`
    dual: Callable[[Problem, np.ndarray], np.ndarray] | None = None  # at a solution, of methods that keep none


def prepare_coupled(problem: Problem, solver: Any) -> tuple[Problem, Any]:
    """The problem in its coupled form, and the solver with its open choices settled and its fields checked."""
    ready = checked(solver, inner_count(problem.inner))
    require(problem, ready.card())
    if not has_batches(problem.inner):
        raise ValueError(f"{ready.card().name} needs inner functions of which the mean of a batch is an estimate")
    return coupled(problem), ready


def prepare_as_stated(problem: Problem, solver: Any) -> tuple[Problem, Any]:
    """As `prepare_coupled`, for solvers of the stated problem, whose variable is w alone."""
    ready = checked(solver, inner_count(problem.inner))
    require(problem, ready.card())
    return canonical(problem), ready


def parameters_alone(problem: Problem, w: np.ndarray) -> np.ndarray:
    """The variable of a problem as it is stated: w."""
    return w.copy()


COUPLED = Form(prepare_coupled, coupled_start)
AS_STATED = Form(prepare_as_stated, parameters_alone)


def checked(solver: Any, n: int) -> Any:
    """The solver with its fields checked by name and its counts as whole numbers."""
    if "blocks" in solver._fields and solver.blocks is None:
        solver = solver._replace(blocks=min(BLOCKS, n))
    counts = {name: whole(name, getattr(solver, name)) for name in COUNTS if name in solver._fields}
    solver = canonical(solver._replace(**counts))
    known = {**CHECKS, **OWN_CHECKS.get(type(solver), {})}
    check_fields(solver, {name: known[name] for name in solver._fields if name in known})
    check_spec(solver)
    if not 1 <= getattr(solver, "blocks", 1) <= n:
        raise ValueError(f"blocks must lie between 1 and the number of inner functions, {n}, got {solver.blocks}")
    return solver


def one_of(verb: Any, first: type | None = None) -> Check:
    """A check that a spec implements the verb; the message lists those that do, the default first."""
    CHOICES.append(verb)

    def check(name: str, value: Any) -> None:
        if not verb.implemented(value):
            known = sorted(verb.table, key=lambda cls: cls is not first)
            words = [f"{cls.__name__}()" for cls in known]
            raise TypeError(f"{name} must be {', '.join(words[:-1])} or {words[-1]}, got {value!r}")
        check_spec(value)

    return check


def _check_average(name: str, average: Spec) -> None:
    if not average_weight.implemented(average):
        raise TypeError(f"{name} must be a spec that implements average_weight, got {average!r}")
    check_spec(average)


COUNTS = ("blocks", "batch", "passes", "jacobian_batch", "levels")
CHECKS: dict[str, Check] = {
    "step": check_step,
    "dual_step": check_step,
    "temperature_step": check_step,
    "threshold_step": check_step,
    "tail_step": check_step,
    "track": check_fraction,
    "momentum": check_fraction,
    "mixing": check_fraction,
    "theta": from_zero_to_one,
    "average": _check_average,
    "strength": non_negative,
    "least": inside_zero_to_one,
    "inertia": below_one,
    **dict.fromkeys(("batch", "passes", "jacobian_batch", "levels"), whole_from(1)),
    **dict.fromkeys(("temperature", "floor", "slack", "decay", "nu", "lam", "outer_lam"), positive),
}
CHOICES: list[Any] = [rate, average_weight]  # verbs whose specs may be fields of methods
OWN_CHECKS: dict[type, dict[str, Check]] = {}  # of fields that only one method has, or that mean something else there


def register_full_batch(cls: type, endings: tuple[Stop | None, ...], phase: str) -> None:
    """Let the driver ask a state with ``ended``, ``value``, ``gap``, ``values``, ``gradients`` and ``t`` for them.

    ``ended`` is a place in ``endings``, ``values`` and ``gradients`` are full passes.
    """

    def passes(solver: Any, problem: Any, state: State, t: int) -> Oracles:
        samples = inner_samples(problem.inner)
        return Oracles(state.values * samples, state.gradients * samples)

    check_state.of(cls)(lambda solver, state: check_code("ended", state.ended, endings))
    known_stop.of(cls)(lambda solver, state: endings[state.ended])
    known_phase.of(cls)(lambda solver, state: phase if state.t else "start")
    known_value.of(cls)(lambda solver, state: state.value)
    known_gap.of(cls)(lambda solver, state: state.gap)
    iterations_made.of(cls)(lambda solver, state, requested: state.t)
    passes_made.of(cls)(passes)
