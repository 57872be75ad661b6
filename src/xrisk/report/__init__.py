"""A page about a study: one file of HTML."""

from xrisk.report.page import render, write_report

__all__ = ["render", "write_report"]
