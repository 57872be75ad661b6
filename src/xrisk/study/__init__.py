"""Models side by side on one table, trained on the same rows and judged by one rule.

`compare` answers a question, given as an objective; `xrisk.objectives` has them.
"""

from xrisk.study.comparison import compare
from xrisk.study.objective import Objective
from xrisk.study.scores import SCORES
from xrisk.study.study import Arm, Study
from xrisk.study.verdict import Difference, Verdict

__all__ = ["SCORES", "Arm", "Difference", "Objective", "Study", "Verdict", "compare"]
