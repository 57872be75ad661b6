"""A page about a study: one file of HTML."""

from xrisk.report.page import render, write_report
from xrisk.report.ranking import render_ranking, write_ranking_report
from xrisk.report.tail import render_tail, write_tail_report

__all__ = [
    "render",
    "render_ranking",
    "render_tail",
    "write_ranking_report",
    "write_report",
    "write_tail_report",
]
