"""Robust against plain training on one table, and a page about it."""

from xrisk.report.page import render, write_report
from xrisk.report.study import Arm, Part, Study, compare, parts

__all__ = ["Arm", "Part", "Study", "compare", "parts", "render", "write_report"]
