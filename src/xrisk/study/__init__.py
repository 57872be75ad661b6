"""Fits side by side on one table: plain, re-weighted, robust; trained alike and judged by one rule."""

from xrisk.study.fits import ARMS, compare
from xrisk.study.found import Arm, Study
from xrisk.study.scores import SCORES, judge
from xrisk.study.verdict import Difference, Verdict

__all__ = ["ARMS", "SCORES", "Arm", "Difference", "Study", "Verdict", "compare", "judge"]
