"""Parameter settings of the theorems: from the constants of a problem and a target ε to a solver."""

from xrisk.solvers.theory.alexr import (
    Setting,
    realised_omega,
    theorem_3,
    theorem_5_7,
    theorem_5_8,
    theorem_5_9,
    theorem_6,
    theorem_18,
    theorem_20,
    theorem_22,
)
from xrisk.solvers.theory.alexr_dl import alexr_dl_setting
from xrisk.solvers.theory.constants import Constants, estimate_constants
from xrisk.solvers.theory.dro import ascdro_setting, dro_smoothness, rascdro_setting, rscdro_setting, scdro_setting
from xrisk.solvers.theory.finite_sum import spdc_setting, theorem_4_5, theorem_4_6, theorem_f_1
from xrisk.solvers.theory.groups import nol_setting, ooa_setting, smd_setting
from xrisk.solvers.theory.stacked import ascpg_strongly_convex, sapd_setting, scgd_strongly_convex
from xrisk.solvers.theory.tracking import (
    msvr_setting,
    sonex_setting,
    sonx_setting,
    sox_boost_setting,
    sox_setting,
)

__all__ = [
    "Constants",
    "Setting",
    "alexr_dl_setting",
    "ascdro_setting",
    "ascpg_strongly_convex",
    "dro_smoothness",
    "estimate_constants",
    "msvr_setting",
    "nol_setting",
    "ooa_setting",
    "rascdro_setting",
    "realised_omega",
    "rscdro_setting",
    "sapd_setting",
    "scdro_setting",
    "scgd_strongly_convex",
    "smd_setting",
    "sonex_setting",
    "sonx_setting",
    "sox_boost_setting",
    "sox_setting",
    "spdc_setting",
    "theorem_3",
    "theorem_4_5",
    "theorem_4_6",
    "theorem_5_7",
    "theorem_5_8",
    "theorem_5_9",
    "theorem_6",
    "theorem_18",
    "theorem_20",
    "theorem_22",
    "theorem_f_1",
]
