"""Functions of one point at a time: losses, outer functions, risks, penalties, domains; no data, no samples.

A function in a new file of this folder is shown with the others; the imports below name those that are there for type
checkers and editors.
"""

from importlib import import_module
from pkgutil import walk_packages

from xrisk.functions.ambiguity import ChiSquareBallRisk as ChiSquareBallRisk
from xrisk.functions.ambiguity import KLBallRisk as KLBallRisk
from xrisk.functions.ambiguity import WithMasses as WithMasses
from xrisk.functions.block import LogSumExp as LogSumExp
from xrisk.functions.block import MaxOuter as MaxOuter
from xrisk.functions.block import TopSum as TopSum
from xrisk.functions.block import block_conjugate as block_conjugate
from xrisk.functions.block import block_dual_step as block_dual_step
from xrisk.functions.block import block_entropy_step as block_entropy_step
from xrisk.functions.block import block_is_monotone as block_is_monotone
from xrisk.functions.block import block_is_smooth as block_is_smooth
from xrisk.functions.block import block_lipschitz as block_lipschitz
from xrisk.functions.block import block_max_smoothness as block_max_smoothness
from xrisk.functions.block import block_project as block_project
from xrisk.functions.block import block_slope as block_slope
from xrisk.functions.block import block_smoothness as block_smoothness
from xrisk.functions.block import block_start as block_start
from xrisk.functions.block import block_value as block_value
from xrisk.functions.domain import Ball as Ball
from xrisk.functions.domain import Box as Box
from xrisk.functions.domain import CappedSimplex as CappedSimplex
from xrisk.functions.domain import NonNegative as NonNegative
from xrisk.functions.domain import Simplex as Simplex
from xrisk.functions.domain import support_point as support_point
from xrisk.functions.exposure import Hyperplane as Hyperplane
from xrisk.functions.exposure import L1Ball as L1Ball
from xrisk.functions.exposure import LeveragedBudget as LeveragedBudget
from xrisk.functions.exposure import SolidSimplex as SolidSimplex
from xrisk.functions.loss import Absolute as Absolute
from xrisk.functions.loss import AffineLoss as AffineLoss
from xrisk.functions.loss import ExponentialLoss as ExponentialLoss
from xrisk.functions.loss import HingeLoss as HingeLoss
from xrisk.functions.loss import Huber as Huber
from xrisk.functions.loss import Logistic as Logistic
from xrisk.functions.loss import MarginLoss as MarginLoss
from xrisk.functions.loss import Multinomial as Multinomial
from xrisk.functions.loss import Pinball as Pinball
from xrisk.functions.loss import SmoothedHinge as SmoothedHinge
from xrisk.functions.loss import Squared as Squared
from xrisk.functions.loss import SquaredHinge as SquaredHinge
from xrisk.functions.loss import loss_conjugate as loss_conjugate
from xrisk.functions.loss import loss_curvature as loss_curvature
from xrisk.functions.loss import loss_domain as loss_domain
from xrisk.functions.loss import loss_is_affine as loss_is_affine
from xrisk.functions.loss import loss_is_classification as loss_is_classification
from xrisk.functions.loss import loss_kink as loss_kink
from xrisk.functions.loss import loss_lipschitz as loss_lipschitz
from xrisk.functions.loss import loss_piece as loss_piece
from xrisk.functions.loss import loss_slope as loss_slope
from xrisk.functions.loss import loss_smoothness as loss_smoothness
from xrisk.functions.loss import loss_terms as loss_terms
from xrisk.functions.loss import loss_value as loss_value
from xrisk.functions.loss import scores_conjugate as scores_conjugate
from xrisk.functions.loss import scores_lipschitz as scores_lipschitz
from xrisk.functions.loss import scores_slope as scores_slope
from xrisk.functions.loss import scores_smoothness as scores_smoothness
from xrisk.functions.loss import scores_value as scores_value
from xrisk.functions.outer import ChiSquareA as ChiSquareA
from xrisk.functions.outer import ChiSquareB as ChiSquareB
from xrisk.functions.outer import CVaRHinge as CVaRHinge
from xrisk.functions.outer import Exponential as Exponential
from xrisk.functions.outer import HardNonsmooth as HardNonsmooth
from xrisk.functions.outer import HardSmooth as HardSmooth
from xrisk.functions.outer import Identity as Identity
from xrisk.functions.outer import LogisticOuter as LogisticOuter
from xrisk.functions.outer import Power as Power
from xrisk.functions.outer import Scaled as Scaled
from xrisk.functions.outer import Smoothed as Smoothed
from xrisk.functions.outer import Softplus as Softplus
from xrisk.functions.outer import Square as Square
from xrisk.functions.outer import outer_conjugate as outer_conjugate
from xrisk.functions.outer import outer_curvature as outer_curvature
from xrisk.functions.outer import outer_domain as outer_domain
from xrisk.functions.outer import outer_dual_step as outer_dual_step
from xrisk.functions.outer import outer_is_monotone as outer_is_monotone
from xrisk.functions.outer import outer_is_piece as outer_is_piece
from xrisk.functions.outer import outer_is_piecewise_linear as outer_is_piecewise_linear
from xrisk.functions.outer import outer_is_smooth as outer_is_smooth
from xrisk.functions.outer import outer_kink as outer_kink
from xrisk.functions.outer import outer_lipschitz as outer_lipschitz
from xrisk.functions.outer import outer_piece as outer_piece
from xrisk.functions.outer import outer_prox as outer_prox
from xrisk.functions.outer import outer_slope as outer_slope
from xrisk.functions.outer import outer_smoothness as outer_smoothness
from xrisk.functions.outer import outer_value as outer_value
from xrisk.functions.penalty import L1 as L1
from xrisk.functions.penalty import L2 as L2
from xrisk.functions.penalty import ElasticNet as ElasticNet
from xrisk.functions.penalty import GroupLasso as GroupLasso
from xrisk.functions.penalty import NoPenalty as NoPenalty
from xrisk.functions.penalty import penalty_conjugate as penalty_conjugate
from xrisk.functions.penalty import penalty_convexity as penalty_convexity
from xrisk.functions.penalty import penalty_slope as penalty_slope
from xrisk.functions.penalty import penalty_value as penalty_value
from xrisk.functions.penalty import prox as prox
from xrisk.functions.penalty import shrink as shrink
from xrisk.functions.restricted import Restricted as Restricted
from xrisk.functions.restricted import Tilted as Tilted
from xrisk.functions.restricted import Unpenalised as Unpenalised
from xrisk.functions.restricted import WithThreshold as WithThreshold
from xrisk.functions.risk import ChiSquareRiskA as ChiSquareRiskA
from xrisk.functions.risk import ChiSquareRiskB as ChiSquareRiskB
from xrisk.functions.risk import CVaRRisk as CVaRRisk
from xrisk.functions.risk import KLRisk as KLRisk
from xrisk.functions.risk import MaxRisk as MaxRisk
from xrisk.functions.risk import risk_cap as risk_cap
from xrisk.functions.risk import risk_conjugate as risk_conjugate
from xrisk.functions.risk import risk_is_capped as risk_is_capped
from xrisk.functions.risk import risk_is_support as risk_is_support
from xrisk.functions.risk import risk_outer as risk_outer
from xrisk.functions.risk import risk_project as risk_project
from xrisk.functions.risk import risk_threshold as risk_threshold
from xrisk.functions.risk import risk_value as risk_value
from xrisk.functions.risk import risk_weights as risk_weights
from xrisk.functions.simplex import kl_project_capped_simplex as kl_project_capped_simplex
from xrisk.functions.simplex import kl_project_logs as kl_project_logs
from xrisk.functions.simplex import normalise_logs as normalise_logs
from xrisk.functions.simplex import project_capped_simplex as project_capped_simplex
from xrisk.functions.simplex import project_simplex as project_simplex
from xrisk.functions.smoothed_worst import Worst as Worst
from xrisk.functions.smoothed_worst import worst as worst

for _file in walk_packages(__path__, f"{__name__}."):
    import_module(_file.name)
_VALUES = (outer_value, block_value, loss_value, scores_value, risk_value, penalty_conjugate)
_SPECS = {cls.__name__: cls for verb in _VALUES for cls in verb.table}
globals().update({name: cls for name, cls in _SPECS.items() if cls.__module__.startswith(__name__)})
