"""Runs: budgets, the driver, observers and checkpoints."""

from xrisk.run.budget import Budget, Progress, Stop
from xrisk.run.checkpoint import Checkpoint
from xrisk.run.driver import minimize, resume
from xrisk.run.observers import LogProgress, ProgressBar, Snapshot, Trace, TracePoint
from xrisk.run.result import Result

__all__ = [
    "Budget",
    "Checkpoint",
    "LogProgress",
    "Progress",
    "ProgressBar",
    "Result",
    "Snapshot",
    "Stop",
    "Trace",
    "TracePoint",
    "minimize",
    "resume",
]
