"""Solvers: one file per method, `exact`, the ground truth, and `catalogue`, which lists the methods.

What is imported here is what users see.
"""

from typing import Any

from xrisk.problem import ThresholdBounds as ThresholdBounds
from xrisk.solvers import theory as theory
from xrisk.solvers.auc.aucm import AUCM as AUCM
from xrisk.solvers.auc.cross_entropy import CrossEntropy as CrossEntropy
from xrisk.solvers.auc.cross_entropy import EqualClasses as EqualClasses
from xrisk.solvers.auc.cross_entropy import EqualRows as EqualRows
from xrisk.solvers.auc.pauci import PAUCI as PAUCI
from xrisk.solvers.auc.sota import SOTA as SOTA
from xrisk.solvers.auc.sota import AllThresholds as AllThresholds
from xrisk.solvers.auc.sota import SampledThresholds as SampledThresholds
from xrisk.solvers.auc.sotas import SOTAs as SOTAs
from xrisk.solvers.auc.staco1 import STACO1 as STACO1
from xrisk.solvers.auc.staco2 import STACO2 as STACO2
from xrisk.solvers.auc.staco2 import GradientScaling as GradientScaling
from xrisk.solvers.auc.staco2 import PrintedScaling as PrintedScaling
from xrisk.solvers.auc.tail_sonex import TailSONEX as TailSONEX
from xrisk.solvers.auc.tail_sonx import TailSONX as TailSONX
from xrisk.solvers.bundle import Bundle as Bundle
from xrisk.solvers.card import MethodCard as MethodCard
from xrisk.solvers.card import Need as Need
from xrisk.solvers.catalogue import METHODS as METHODS
from xrisk.solvers.coupled.alexr import ALEXR as ALEXR
from xrisk.solvers.coupled.alexr_dl import ALEXRDL as ALEXRDL
from xrisk.solvers.coupled.ascpg import ASCPG as ASCPG
from xrisk.solvers.coupled.bsgd import BSGD as BSGD
from xrisk.solvers.coupled.momentum_sgd import MomentumSGD as MomentumSGD
from xrisk.solvers.coupled.msvr import MSVR as MSVR
from xrisk.solvers.coupled.msvr import AveragedGradient as AveragedGradient
from xrisk.solvers.coupled.msvr import CorrectedGradient as CorrectedGradient
from xrisk.solvers.coupled.msvr import PlainStep as PlainStep
from xrisk.solvers.coupled.msvr import UnitStep as UnitStep
from xrisk.solvers.coupled.msvr_snapshot import SnapshotMSVR as SnapshotMSVR
from xrisk.solvers.coupled.nasa import NASA as NASA
from xrisk.solvers.coupled.nssd import NSSD as NSSD
from xrisk.solvers.coupled.restarted import Restarted as Restarted
from xrisk.solvers.coupled.sapd import SAPD as SAPD
from xrisk.solvers.coupled.scgd import SCGD as SCGD
from xrisk.solvers.coupled.sgd import SGD as SGD
from xrisk.solvers.coupled.sgd import UpweightedSGD as UpweightedSGD
from xrisk.solvers.coupled.sonex import SONEX as SONEX
from xrisk.solvers.coupled.sonx import SONX as SONX
from xrisk.solvers.coupled.sox import SOX as SOX
from xrisk.solvers.coupled.ssd import SSD as SSD
from xrisk.solvers.dro.accmda import AccMDA as AccMDA
from xrisk.solvers.dro.ascdro import ASCDRO as ASCDRO
from xrisk.solvers.dro.dual_sgm import DualSGM as DualSGM
from xrisk.solvers.dro.fastdro import FastDRO as FastDRO
from xrisk.solvers.dro.fastdro_mlmc import FastDROMLMC as FastDROMLMC
from xrisk.solvers.dro.pgsmd2 import PGSMD2 as PGSMD2
from xrisk.solvers.dro.rascdro import RASCDRO as RASCDRO
from xrisk.solvers.dro.recover import RECOVER as RECOVER
from xrisk.solvers.dro.rscdro import RSCDRO as RSCDRO
from xrisk.solvers.dro.scdro import SCDRO as SCDRO
from xrisk.solvers.dro.scent import SCENT as SCENT
from xrisk.solvers.dro.spd import SPD as SPD
from xrisk.solvers.faces import Faces as Faces
from xrisk.solvers.finite_sum.ascvrg import ASCVRG as ASCVRG
from xrisk.solvers.finite_sum.csaga import CSAGA as CSAGA
from xrisk.solvers.finite_sum.csvrg1 import CompositionalSVRG1 as CompositionalSVRG1
from xrisk.solvers.finite_sum.csvrg2 import CompositionalSVRG2 as CompositionalSVRG2
from xrisk.solvers.finite_sum.gradient import BatchGradient as BatchGradient
from xrisk.solvers.finite_sum.gradient import Nesterov as Nesterov
from xrisk.solvers.finite_sum.gradient import NoAcceleration as NoAcceleration
from xrisk.solvers.finite_sum.spdc import SPDC as SPDC
from xrisk.solvers.finite_sum.svrpda1 import SVRPDAI as SVRPDAI
from xrisk.solvers.finite_sum.svrpda2 import SVRPDAII as SVRPDAII
from xrisk.solvers.groups.aleg import ALEG as ALEG
from xrisk.solvers.groups.drago import Drago as Drago
from xrisk.solvers.groups.gdro import EXP3P as EXP3P
from xrisk.solvers.groups.gdro import GDRO as GDRO
from xrisk.solvers.groups.gdro import TINF as TINF
from xrisk.solvers.groups.lsvrg import LSVRG as LSVRG
from xrisk.solvers.groups.nol import NOL as NOL
from xrisk.solvers.groups.ooa import OOA as OOA
from xrisk.solvers.groups.prospect import Prospect as Prospect
from xrisk.solvers.groups.smd import SMD as SMD
from xrisk.solvers.groups.smd import DrawnGroup as DrawnGroup
from xrisk.solvers.groups.smd import EveryGroup as EveryGroup
from xrisk.solvers.lbfgs import SmoothedLBFGS as SmoothedLBFGS
from xrisk.solvers.newton.composite import CompositeNewton as CompositeNewton
from xrisk.solvers.newton.rows import RowNewton as RowNewton
from xrisk.solvers.newton.solver import Newton as Newton
from xrisk.solvers.schedules import Decreasing as Decreasing
from xrisk.solvers.schedules import GeometricAverage as GeometricAverage
from xrisk.solvers.schedules import LastIterate as LastIterate
from xrisk.solvers.schedules import PolynomialAverage as PolynomialAverage
from xrisk.solvers.schedules import StageAverage as StageAverage
from xrisk.solvers.schedules import Stagewise as Stagewise
from xrisk.solvers.schedules import UniformAverage as UniformAverage
from xrisk.solvers.shared.epochs import Growing as Growing
from xrisk.solvers.shared.epochs import LastPoint as LastPoint
from xrisk.solvers.shared.epochs import Lengthening as Lengthening
from xrisk.solvers.shared.epochs import MeanPoint as MeanPoint
from xrisk.solvers.shared.epochs import RandomPoint as RandomPoint
from xrisk.solvers.shared.epochs import SingleLoop as SingleLoop
from xrisk.solvers.shared.mirror import Conjugate as Conjugate
from xrisk.solvers.shared.mirror import Entropy as Entropy
from xrisk.solvers.shared.mirror import Quadratic as Quadratic
from xrisk.solvers.shared.pairing import FreshBatch as FreshBatch
from xrisk.solvers.shared.pairing import OldValue as OldValue
from xrisk.solvers.shared.pairing import SameBatch as SameBatch
from xrisk.solvers.shared.thresholds import ExactThresholds as ExactThresholds
from xrisk.solvers.shared.thresholds import FixedThresholds as FixedThresholds
from xrisk.solvers.shared.tracking import TheoryCorrection as TheoryCorrection


def __getattr__(name: str) -> Any:
    if name == "exact":  # runs under the driver, which stands below the solvers
        from xrisk.auto.exact import exact

        return exact
    if name == "Auto":
        from xrisk.auto import Auto

        return Auto
    raise AttributeError(f"module 'xrisk.solvers' has no attribute {name!r}")
