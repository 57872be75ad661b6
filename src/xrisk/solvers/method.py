"""What makes a spec a method: the names that it is raced under, and the default members of the protocol."""

import itertools
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from xrisk.annotations import Solver, State
from xrisk.compile import kernel, specialise
from xrisk.inner.oracle import Oracles, inner_count, inner_dim, inner_is_affine, inner_samples
from xrisk.problem import Problem
from xrisk.solvers.base import OWN_CHECKS, Check, Form, one_of
from xrisk.solvers.shared.epochs import advance_by_epochs, epochs_begun

CATALOGUE: dict[str, Any] = {}  # every method and variant by its name
REPORTED = ("w_mean", "x_mean", "w", "x")  # the solution is the first of these that a state has
WEIGHTS = ("q_mean", "p_mean", "q", "p")  # weights of all blocks; the duals are n times these
FORMULA = re.compile(r"(.+?)(?: \((.+) if g is affine\))?(?:, (.+))?")  # of a card: calls per iteration, full passes
ONCE = "a full pass"  # of a card: before the first iteration


def register(named: dict[str, Any]) -> None:
    """Add a method and its variants to the catalogue, by their names."""
    twice = named.keys() & CATALOGUE.keys()
    if twice:
        raise ValueError(f"names of methods must be new, got {', '.join(twice)} again")
    CATALOGUE.update(named)


def method(form: Form, named: dict[str, Any], /, **fields: Any) -> Callable[[Callable], Any]:
    """Make a function the kernel of a method, and add the members of the protocol that its class lacks.

    Parameters
    ----------
    form : Form
        `COUPLED`, `AS_STATED` or that of a family of methods.
    named : dict
        The method with its defaults and its variants, by the names they are raced under. Two classes may
        share a kernel if their states differ only in a spec.
    **fields
        Checks of its own fields: a verb that their specs must implement, or a check of a name and a value.
    """
    classes = {type(solver) for solver in named.values()}
    register(named)
    for cls in classes:
        OWN_CHECKS[cls] = {name: _check(cls, name, wanted) for name, wanted in fields.items()}

    def attach(steps: Callable) -> Any:
        iterate = kernel(steps)

        def advance(self: Any, problem: Problem, state: State, n_steps: int, rng: np.random.Generator) -> Any:
            if hasattr(self, "pass_over"):
                return advance_by_epochs(self, problem, state, n_steps, rng, iterate)
            return specialise(iterate, problem, self)(problem, state, self, n_steps, rng)

        defaults = {
            "prepare": lambda self, problem: form.prepare(problem, self),
            "start": lambda self, problem, w: form.start(problem, w),
            "advance": advance,
            "solution": _solution,
            "dual": lambda self, problem, state: _dual(form, self, problem, state),
            "oracles": _oracles,
        }
        for cls, (name, default) in itertools.product(classes, defaults.items()):
            if name not in vars(cls):
                setattr(cls, name, default)
        return iterate

    return attach


def _check(cls: Any, name: str, wanted: Any) -> Check:
    return one_of(wanted, type(cls._field_defaults[name])) if hasattr(wanted, "implemented") else wanted


def _solution(self: Any, state: State) -> np.ndarray:
    """The average if the state has one, else the iterate."""
    return getattr(state, next(name for name in REPORTED if name in state._fields))


def _dual(form: Form, solver: Solver, problem: Problem, state: State) -> np.ndarray:
    """The mean dual blocks, the present ones, those of the snapshot, or n times the weights of a risk."""
    for name in ("y_mean", "y", "y_hat"):
        if name in state._fields:
            return getattr(state, name).copy()
    for name in WEIGHTS:
        if name in state._fields:
            return inner_count(problem.inner) * getattr(state, name)[:, None]
    return form.dual(problem, solver.solution(state))  # type: ignore[misc]


def _oracles(self: Any, problem: Problem, t: int) -> Oracles:
    """The calls of t iterations by the card."""
    card = self.card()
    return Oracles(*(_calls(self, problem, t, formula) for formula in (card.values, card.gradients)))


def _calls(solver: Solver, problem: Problem, t: int, formula: str) -> int:
    """Calls in t iterations by a formula such as "2SB + nB (none if g is affine), full passes"."""
    per_iteration, if_affine, passes = FORMULA.fullmatch(formula).groups()  # type: ignore[union-attr]
    if if_affine and inner_is_affine(problem.inner):
        per_iteration = if_affine.replace("none", "0")
    n, m = inner_count(problem.inner), inner_dim(problem.inner)
    letters = {"S": getattr(solver, "blocks", 0) or 0, "A": getattr(solver, "batch", 0), "n": n, "m": m}
    letters["B"] = getattr(solver, "jacobian_batch", letters["A"])
    calls = t * m * sum(_term(term, letters) for term in per_iteration.split(" + "))
    if passes:
        calls += inner_samples(problem.inner) * (min(t, 1) if passes == ONCE else epochs_begun(solver.epoch, t))
    return calls


def _term(term: str, letters: dict[str, int]) -> int:
    number, product = re.fullmatch(r"(\d*)(\w*)", term).groups()  # type: ignore[union-attr]
    return int(number or 1) * math.prod(letters[letter] for letter in product)
