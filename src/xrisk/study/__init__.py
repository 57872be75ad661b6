"""Fits side by side on one table: plain, re-weighted, robust; trained alike and judged by one rule."""

from xrisk.study.fits import compare
from xrisk.study.found import Arm, Study
from xrisk.study.scores import judge

__all__ = ["Arm", "Study", "compare", "judge"]
