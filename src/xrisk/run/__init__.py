"""Runs: budgets, the driver, observers and checkpoints."""

from xrisk.run.budget import Budget as Budget
from xrisk.run.budget import Progress as Progress
from xrisk.run.budget import Stop as Stop
from xrisk.run.checkpoint import Checkpoint as Checkpoint
from xrisk.run.driver import minimize as minimize
from xrisk.run.driver import resume as resume
from xrisk.run.observers import LogProgress as LogProgress
from xrisk.run.observers import ProgressBar as ProgressBar
from xrisk.run.observers import Snapshot as Snapshot
from xrisk.run.observers import Trace as Trace
from xrisk.run.observers import TracePoint as TracePoint
from xrisk.run.result import Result as Result
from xrisk.run.runs import Runs as Runs
