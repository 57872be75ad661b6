"""Fits side by side on one table, trained alike and judged by one rule.

`compare` is about groups: plain, re-weighted, robust. `compare_rankings` is about rare positives: logistic, balanced,
ranking.
"""

from xrisk.study.fits import ARMS, compare
from xrisk.study.found import Arm, Study
from xrisk.study.ranked import RankingArm, RankingScore, RankingStudy, RankingVerdict, judge_ranking
from xrisk.study.ranking import RANKING_ARMS, compare_rankings
from xrisk.study.scores import SCORES, judge
from xrisk.study.verdict import Difference, Verdict

__all__ = [
    "ARMS",
    "RANKING_ARMS",
    "SCORES",
    "Arm",
    "Difference",
    "RankingArm",
    "RankingScore",
    "RankingStudy",
    "RankingVerdict",
    "Study",
    "Verdict",
    "compare",
    "compare_rankings",
    "judge",
    "judge_ranking",
]
