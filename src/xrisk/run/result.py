"""What a run found."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from xrisk.inner.passes import Slopes
from xrisk.run.budget import Progress, Stop
from xrisk.run.observers import Trace


@dataclass(frozen=True)
class Result:
    """What a run found.

    Attributes
    ----------
    w : ndarray (d,)
        The parameters.
    value : float
        The exact objective there.
    dual : ndarray (n, m)
        The solver's dual weights, for `xrisk.certify`.
    stop : Stop
        Why the run ended; ``str(stop)`` is a sentence.
    trace : Trace
        Iterations, oracle calls, seconds and objective along the run.
    progress : Progress
        Iterations, oracle calls and seconds used.
    x : ndarray
        The solver's variable, of which ``w`` is the head.
    slopes : Slopes, optional
        Slopes of the losses that belong to ``dual``, of a solver that keeps them; for `xrisk.certify`.
    certificate : Certificate, optional
        What the solver has proved of ``w``; `xrisk.certify` proves it of any result.
    gap : float
        The solver's own estimate of how far ``value`` is above the optimum, before its last step; NaN if it has none.
    """

    w: np.ndarray
    value: float
    dual: np.ndarray
    stop: Stop
    trace: Trace
    progress: Progress
    x: np.ndarray
    slopes: Slopes | None = None
    certificate: Any = None
    gap: float = np.nan
