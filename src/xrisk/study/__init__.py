"""Fits side by side on one table, trained alike and judged by one rule.

`compare` is about groups: plain, re-weighted, robust. `compare_rankings` is about rare positives: logistic, balanced,
ranking. `compare_tails` is about the tail of the loss: plain, robust, robust with outliers set aside.
"""

from xrisk.study.fits import ARMS, compare
from xrisk.study.found import Arm, Study
from xrisk.study.ranked import RankingArm, RankingScore, RankingStudy, judge_ranking
from xrisk.study.ranking import RANKING_ARMS, compare_rankings
from xrisk.study.scores import SCORES, judge
from xrisk.study.tailed import HeavyRow, TailArm, TailScore, TailStudy, judge_tail
from xrisk.study.tails import TAIL_ARMS, compare_tails
from xrisk.study.verdict import Difference, PairedVerdict, Verdict

__all__ = [
    "ARMS",
    "RANKING_ARMS",
    "SCORES",
    "TAIL_ARMS",
    "Arm",
    "Difference",
    "HeavyRow",
    "PairedVerdict",
    "RankingArm",
    "RankingScore",
    "RankingStudy",
    "Study",
    "TailArm",
    "TailScore",
    "TailStudy",
    "Verdict",
    "compare",
    "compare_rankings",
    "compare_tails",
    "judge",
    "judge_ranking",
    "judge_tail",
]
