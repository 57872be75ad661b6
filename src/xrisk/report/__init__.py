"""Pages about what studies found: one file of HTML, nothing outside it."""

from xrisk.report.page import render, write_report

__all__ = ["render", "write_report"]
