"""The one list of methods: every method and variant by the name it is raced under, and the table made from them."""

import inspect
import re
from typing import Any

from xrisk.problem import Problem
from xrisk.solvers.auc.aucm import AUCM
from xrisk.solvers.auc.cross_entropy import CrossEntropy, EqualClasses
from xrisk.solvers.auc.pauci import PAUCI
from xrisk.solvers.auc.sota import SOTA, AllThresholds
from xrisk.solvers.auc.sotas import SOTAs
from xrisk.solvers.auc.staco1 import STACO1
from xrisk.solvers.auc.staco2 import STACO2
from xrisk.solvers.auc.tail_sonex import TailSONEX
from xrisk.solvers.auc.tail_sonx import TailSONX
from xrisk.solvers.bundle import Bundle
from xrisk.solvers.card import Need
from xrisk.solvers.coupled.alexr import ALEXR
from xrisk.solvers.coupled.alexr_dl import ALEXRDL
from xrisk.solvers.coupled.ascpg import ASCPG
from xrisk.solvers.coupled.bsgd import BSGD
from xrisk.solvers.coupled.momentum_sgd import MomentumSGD
from xrisk.solvers.coupled.msvr import MSVR, AveragedGradient
from xrisk.solvers.coupled.msvr_snapshot import SnapshotMSVR
from xrisk.solvers.coupled.nasa import NASA
from xrisk.solvers.coupled.nssd import NSSD
from xrisk.solvers.coupled.restarted import Restarted
from xrisk.solvers.coupled.sapd import SAPD
from xrisk.solvers.coupled.scgd import SCGD
from xrisk.solvers.coupled.sgd import SGD, UpweightedSGD
from xrisk.solvers.coupled.sonex import SONEX
from xrisk.solvers.coupled.sonx import SONX
from xrisk.solvers.coupled.sox import SOX
from xrisk.solvers.coupled.ssd import SSD
from xrisk.solvers.dro.accmda import AccMDA
from xrisk.solvers.dro.ascdro import ASCDRO
from xrisk.solvers.dro.dual_sgm import DualSGM
from xrisk.solvers.dro.fastdro import FastDRO
from xrisk.solvers.dro.fastdro_mlmc import FastDROMLMC
from xrisk.solvers.dro.pgsmd2 import PGSMD2
from xrisk.solvers.dro.rascdro import RASCDRO
from xrisk.solvers.dro.recover import RECOVER
from xrisk.solvers.dro.rscdro import RSCDRO
from xrisk.solvers.dro.scdro import SCDRO
from xrisk.solvers.dro.scent import SCENT
from xrisk.solvers.dro.spd import SPD
from xrisk.solvers.faces import Faces
from xrisk.solvers.finite_sum.ascvrg import ASCVRG
from xrisk.solvers.finite_sum.csaga import CSAGA
from xrisk.solvers.finite_sum.csvrg1 import CompositionalSVRG1
from xrisk.solvers.finite_sum.csvrg2 import CompositionalSVRG2
from xrisk.solvers.finite_sum.gradient import BatchGradient, Nesterov
from xrisk.solvers.finite_sum.spdc import SPDC
from xrisk.solvers.finite_sum.svrpda1 import SVRPDAI
from xrisk.solvers.finite_sum.svrpda2 import SVRPDAII
from xrisk.solvers.groups.aleg import ALEG
from xrisk.solvers.groups.drago import Drago
from xrisk.solvers.groups.gdro import GDRO, TINF
from xrisk.solvers.groups.lsvrg import LSVRG
from xrisk.solvers.groups.nol import NOL
from xrisk.solvers.groups.ooa import OOA
from xrisk.solvers.groups.prospect import Prospect
from xrisk.solvers.groups.smd import SMD, DrawnGroup
from xrisk.solvers.lbfgs import SmoothedLBFGS
from xrisk.solvers.newton.composite import CompositeNewton
from xrisk.solvers.newton.rows import RowNewton
from xrisk.solvers.newton.solver import Newton
from xrisk.solvers.schedules import LastIterate
from xrisk.solvers.shared.mirror import Conjugate
from xrisk.solvers.shared.pairing import OldValue, SameBatch

CATALOGUE: dict[str, Any] = {
    "alexr": ALEXR(),
    "alexr-theta0": ALEXR(theta=0.0),
    "alexr-conjugate": ALEXR(mirror=Conjugate()),
    "alexr-same": ALEXR(pairing=SameBatch()),
    "sox": SOX(),
    "sox-momentum": SOX(momentum=0.1),
    "sox-old": SOX(pairing=OldValue()),
    "sox-same": SOX(pairing=SameBatch()),
    "sonx-v1": SONX(correction=0.0),
    "sonx-v2": SONX(),
    "sonex-v1": SONEX(correction=0.0),
    "sonex-v2": SONEX(),
    "msvr-v1": MSVR(gradient=AveragedGradient()),
    "msvr-v2": MSVR(),
    "msvr-v3": SnapshotMSVR(),
    "msvr-stagewise": Restarted(MSVR(track=0.5, momentum=0.5), step_factor=0.5**0.5),
    "sox-boost": Restarted(SOX(track=0.5, momentum=0.5)),
    "bsgd": BSGD(),
    "ooa": OOA(),
    "smd": SMD(),
    "smd-drawn": SMD(gradient=DrawnGroup()),
    "nol": NOL(),
    "gdro-exp3p": GDRO(),
    "gdro-tinf": GDRO(bandit=TINF()),
    "lsvrg": LSVRG(),
    "aleg": ALEG(),
    "aleg-last": ALEG(average=LastIterate()),
    "drago": Drago(),
    "drago-smoothed": Drago(smoothing=0.005),
    "prospect": Prospect(),
    "prospect-smoothed": Prospect(smoothing=0.002),
    "sgd": SGD(),
    "sgd-uw": UpweightedSGD(),
    "sgd-momentum": MomentumSGD(),
    "scgd": SCGD(),
    "asc-pg": ASCPG(),
    "nasa": NASA(),
    "sapd": SAPD(),
    "ssd": SSD(),
    "nssd": NSSD(),
    "alexr-dl": ALEXRDL(),
    "alexr-dl-smoothed": ALEXRDL(smoothing=0.05),
    "alexr2": ALEXRDL(length=100, smoothing=0.05, momentum=0.5),
    "svrpda-i": SVRPDAI(),
    "svrpda-ii": SVRPDAII(),
    "csvrg-1": CompositionalSVRG1(),
    "csvrg-2": CompositionalSVRG2(),
    "ascvrg": ASCVRG(),
    "c-saga": CSAGA(),
    "spdc": SPDC(),
    "staco1": STACO1(),
    "staco2": STACO2(),
    "tail-sonx": TailSONX(),
    "tail-sonex": TailSONEX(),
    "sota": SOTA(),
    "sota-all": SOTA(coordinates=AllThresholds()),
    "sota-s": SOTAs(),
    "pauci": PAUCI(),
    "aucm": AUCM(),
    "ce": CrossEntropy(),
    "ce-balanced": CrossEntropy(weights=EqualClasses()),
    "scdro": SCDRO(),
    "ascdro": ASCDRO(),
    "rscdro": RSCDRO(),
    "rascdro": RASCDRO(),
    "recover": RECOVER(),
    "scent": SCENT(),
    "fastdro": FastDRO(),
    "fastdro-mlmc": FastDROMLMC(),
    "dual-sgm": DualSGM(),
    "spd": SPD(),
    "pg-smd2": PGSMD2(),
    "accmda": AccMDA(),
    "gradient": BatchGradient(),
    "gradient-nesterov": BatchGradient(acceleration=Nesterov()),
    "faces": Faces(),
    "bundle": Bundle(),
    "newton": Newton(),
    "composite-newton": CompositeNewton(),
    "row-newton": RowNewton(),
    "smoothed-lbfgs": SmoothedLBFGS(),
}

METHODS = tuple(dict.fromkeys(type(solver) for solver in CATALOGUE.values()))  # the tests' contract runs over them


def refusal(problem: Problem, solver: Any) -> str | None:
    """Why the solver does not apply to the problem, in one sentence; None if it does.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> from xrisk.solvers.catalogue import CATALOGUE, refusal
    >>> rng = np.random.default_rng(0)
    >>> X, groups = rng.standard_normal((300, 3)), rng.integers(0, 5, 300)
    >>> y = np.where(X[:, 0] + groups * X[:, 1] > 0, 1, -1)
    >>> problem = xrisk.group_dro(X, y, groups, divergence="max")
    >>> refusal(problem, CATALOGUE["alexr"]) is None
    True
    >>> refusal(problem, CATALOGUE["alexr-conjugate"])
    'mirror must be Quadratic() for an outer function with a kink, got Conjugate() for CVaRHinge(alpha=0.2)'
    """
    try:
        solver.prepare(problem)
    except (TypeError, ValueError) as error:
        return str(error)
    return None


INTRODUCTION = """# Methods

Generated from the code by `xrisk methods --markdown`. Names are those of `xrisk compare --methods`.

Every iteration samples S of n blocks and B samples of each, unless said otherwise. *Needs* is what a problem must have:
otherwise the method refuses it and says why. *Theory asks for* is what the rate is proved under; the method runs
without. *Source* says how well the update is established: *verified* against a primary text or the authors' code,
*recalled* from the literature, *reconstructed* from its description, or *ours*. Rates are in iterations, constants and
logarithms left out: σ₀² and σ₁² are the variances of a sampled inner value and gradient, δ² is that between the blocks,
μ the strong convexity of the penalty; where a rate has no variances, they are among the constants."""

COLUMNS = ("name", "solver", "needs", "values", "gradients", "rate", "theory asks for", "paper", "source")


def rows(catalogue: dict[str, Any] = CATALOGUE) -> list[tuple[str, ...]]:
    """The table of methods, a row for each, in the order of COLUMNS."""
    return [_row(name, solver) for name, solver in catalogue.items()]


def _row(name: str, solver: Any) -> tuple[str, ...]:
    card = solver.card()
    needs, theory = _joined(card.needs), _joined(card.theory)
    return (name, _as_code(solver), needs, card.values, card.gradients, card.rate, theory, card.paper, card.confidence)


def describe(solver: Any) -> str:
    """All about a method: its box of formulas and notes, what it needs, costs and promises."""
    card = solver.card()
    facts = {
        "needs": _joined(card.needs),
        "per iteration": f"{card.values} values, {card.gradients} gradients",
        "rate": card.rate,
        "theory asks for": _joined(card.theory),
        "paper": card.paper,
        "source": card.confidence,
        "in Python": f"xrisk.solvers.{_as_code(solver)}; {solver}",
    }
    return "\n".join([_about(solver), "", *(f"{name}: {fact}" for name, fact in facts.items())])


def _joined(needs: tuple[Need, ...]) -> str:
    return ", ".join(need.words for need in needs) or "–"


def _about(solver: Any) -> str:
    """The docstring without its parameters and examples."""
    text = inspect.getdoc(type(solver)) or ""
    titles = re.split(r"\n(\w+)\n-{3,}\n", text)
    sections = {"": titles[0], **dict(zip(titles[1::2], titles[2::2], strict=True))}
    parts = [sections.get(title, "").strip() for title in ("", "Notes", "References")]
    return re.sub(r"(?:\.\. )?\[(\d+)\]_?", r"[\1]", "\n\n".join(part for part in parts if part))


def _as_code(solver: Any) -> str:
    """The solver with the fields that are not at their defaults."""
    defaults = type(solver)._field_defaults
    # compared as text: two specs without fields are equal as tuples, whatever their names
    given = [f"{name}={field!r}" for name, field in solver._asdict().items() if repr(field) != repr(defaults[name])]
    return f"{type(solver).__name__}({', '.join(given)})"


def as_markdown() -> str:
    """The page docs/methods.md."""
    lines = [" | ".join(COLUMNS), " | ".join(["---"] * len(COLUMNS)), *(" | ".join(row) for row in rows())]
    table = "\n".join(f"| {line} |" for line in lines)
    first = {type(solver): solver for solver in reversed(CATALOGUE.values())}
    kinds = dict.fromkeys(type(solver) for solver in CATALOGUE.values())
    parts = [f"## {first[kind].card().name}\n\n{_fenced(_about(first[kind]))}" for kind in kinds]
    return "\n\n".join([INTRODUCTION, table, *parts]) + "\n"


def _fenced(text: str) -> str:
    """Literal blocks and literals of a docstring as those of Markdown."""

    def fence(block: re.Match) -> str:
        return f":\n\n```text\n{inspect.cleandoc(block[1])}\n```\n"

    return re.sub(r"::\n\n((?:[ ]+.*\n?|\n)+)", fence, text.replace("``", "`")).strip()
