"""A page about a study: one file of HTML."""

from xrisk.report.page import render, write_report
from xrisk.report.ranking import render_ranking, write_ranking_report

__all__ = ["render", "render_ranking", "write_ranking_report", "write_report"]
