"""What is proved of the result of a fit, in the time that is left, and why the fit ended."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from xrisk.auto import Auto, pass_seconds
from xrisk.certificate import NOTHING_PROVED, Certificate, certifiable, certify, certify_measured, is_perfect, measured
from xrisk.certificate.least_squares import ProvedPoint
from xrisk.data.threads import Interrupted, interruptible
from xrisk.problem import Problem
from xrisk.run import Result, Runs, Stop
from xrisk.run.clock import ctrl_c, now
from xrisk.solvers.newton.smoothed import constant_size

GRACE = 0.5  # seconds that a certificate may take after the time of a fit is up


def proved(problem: Problem, result: Result, runs: Runs, tol: float) -> Result:
    """The result with its certificate; it has converged if that is within the tolerance."""

    def prove(hurried: bool) -> Certificate:
        return _bounds(problem, result, np.inf if hurried else 0.0)

    known = result.certificate or in_time(problem, result, runs, prove) or NOTHING_PROVED
    stop = stop_of(result)
    if known.relative <= tol:
        stop = Stop.CONVERGED
    elif stop is Stop.CONVERGED:  # by its own estimate, to its own tolerance
        size, _ = constant_size(problem, float(problem.value(np.zeros(result.w.size))))
        stop = Stop.PERFECT if is_perfect(known, size) else Stop.LOOSE
    return replace(result, certificate=known, stop=stop)


def stop_of(result: Result) -> Stop:
    """Why the fit ended: a listener that wants its end interrupts it."""
    return Stop.INTERRUPTED if result.stop is Stop.UNTIL else result.stop


def in_time(problem: Problem, result: Result, runs: Runs, prove: Callable[[bool], Any]) -> Any:
    """What ``prove``, which is told whether it must hurry, finds in the time left; None where there is too little."""
    hurried = result.stop in (Stop.SECONDS, Stop.INTERRUPTED)
    if hurried and 2.0 * pass_seconds(Auto(), problem) > GRACE:
        return None
    end = now() + max(0.0 if hurried else runs.seconds_left(), GRACE)
    with ctrl_c() as pressed, interruptible(lambda: bool(pressed) or now() > end):
        try:
            return prove(hurried)
        except Interrupted:
            return None


def _bounds(problem: Problem, result: Result, enough: float) -> Certificate:
    """What full passes prove of the result; others are tried while the relative gap is above ``enough``."""
    return certify_measured(measured(problem), result, enough) if certifiable(problem) else certify(problem, result)


def at_proof(result: Result, proof: ProvedPoint) -> Result:
    """The result at the point of the proof."""
    if result.trace.points:
        result.trace.points[-1] = result.trace.points[-1]._replace(value=proof.value, bound=proof.certificate.dual)
    return replace(result, w=proof.w, value=proof.value, certificate=proof.certificate)
