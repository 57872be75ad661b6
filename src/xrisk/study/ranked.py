"""What a study of rankings found, and how a score is judged: by the part of its ROC curve that counts."""

from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import roc_auc_score, roc_curve

from xrisk.metrics import RocRegion, partial_auc_interval, partial_auc_score
from xrisk.solvers.base import PROVED_ENDINGS
from xrisk.study.found import about
from xrisk.study.verdict import CONFIDENCE, PairedVerdict, is_done
from xrisk.tables import RankedClasses

METRIC = "partial AUC"
RULE = (
    "the models are judged by the partial AUC in the range that was asked for; recommended is the first, from the "
    "simplest on, that no other beats with confidence 95 %"
)
LEAST = 5  # rows of a class to be judged by
FEW = 10  # rows of a class in the region, below which intervals are too short
RESAMPLES = 1000


class RankingScore(NamedTuple):
    """How well a score ranks some rows."""

    score: float  # partial AUC
    low: float  # bounds of confidence 95 %
    high: float
    auc: float
    caught: float  # share of the positives above the best threshold of false positive rate at most max_fpr
    alarms: float  # the least share of the negatives above a threshold of true positive rate at least min_tpr
    positives: int
    negatives: int


class RankingArm(NamedTuple):
    """One of the models that are compared."""

    key: str
    name: str
    words: str  # what it minimises
    l2: float | None  # None where the model has no such penalty
    model: Any  # the fitted estimator
    train: float  # partial AUC of the training rows
    validation: float  # and of the rows that chose l2
    test: RankingScore  # on the rows of the verdict; the validation rows where l2 was given
    curve: RocRegion  # of the same rows
    seconds: float  # of the fit


class RankingStudy(NamedTuple):
    """What `compare_rankings` found; `xrisk.report.render_ranking` makes a page of it."""

    title: str
    description: str
    ranked: RankedClasses  # what was asked
    arms: tuple[RankingArm, ...]  # logistic, balanced, ranking
    verdict: PairedVerdict
    judged_on: str  # "validation" or "test", the rows of the verdict
    sizes: dict[str, Any]  # rows, features, classes
    settings: dict[str, Any]
    notes: tuple[str, ...]
    versions: dict[str, str]
    seed: int | None

    @property
    def asked(self) -> RankingArm:
        """The model that was asked for."""
        return self.arms[-1]

    @property
    def recommended(self) -> RankingArm | None:
        """The model that the verdict recommends; None where fewer than two fits finished."""
        return None if self.verdict.recommended is None else self.arm(self.verdict.recommended)

    @property
    def is_convex(self) -> bool:
        """Whether the surrogate is convex, so that its optimum can be proved."""
        return self.asked.model.surrogate != "sigmoid"

    @property
    def is_done(self) -> bool:
        """Whether no limit ran out before every fit had ended."""
        return is_done(self.arms)

    @property
    def caution(self) -> str:
        """What must be said where few rows decide; nothing where there are enough."""
        return few_rows(self.asked.test, self.ranked, self.judged_on)

    def arm(self, key: str) -> RankingArm:
        """The model called ``key``."""
        return next(arm for arm in self.arms if arm.key == key)

    def to_dict(self) -> dict[str, Any]:
        """The study as dicts, lists, numbers, strings and None, ready for JSON."""
        model = self.asked.model
        proof = model.certificate_._asdict() if self.is_convex else None
        return {
            "title": self.title,
            "description": self.description,
            "task": "ranking",
            "metric": METRIC,
            "rule": RULE,
            "asked": self.ranked._asdict(),
            "recommended": self.verdict.recommended,
            "verdict": self.verdict.to_dict(),
            "caution": self.caution or None,
            "judged_on": self.judged_on,
            "data": self.sizes,
            "models": [_arm_dict(arm) for arm in self.arms],
            "certificate": proof
            and {key: float(value) if np.isfinite(value) else None for key, value in proof.items()},
            "certified": self.is_convex and model.stop_ in PROVED_ENDINGS,
            "stop": str(model.stop_),
            "start": None if self.is_convex else {"model": model.start_, "train": float(model.start_score_)},
            "anchor": float(model.anchor_) if np.isfinite(model.anchor_) else None,
            "settings": self.settings,
            "notes": list(self.notes),
            "versions": self.versions,
            "seed": self.seed,
        }


def _arm_dict(arm: RankingArm) -> dict[str, Any]:
    return {
        **about(arm),
        "train": arm.train,
        "validation": arm.validation,
        "test": arm.test._asdict(),
    }


def judge_ranking(positive: np.ndarray, scores: np.ndarray, ranked: RankedClasses) -> RankingScore:
    """The partial AUC with its interval, and what stands beside it in a table.

    Parameters
    ----------
    positive : array (n,)
        Whether a row is of the positive class.
    scores : array (n,)
        High for positives.
    ranked : RankedClasses
        The region.

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk.study.ranked import judge_ranking
    >>> from xrisk.tables import RankedClasses
    >>> positive = np.arange(100) % 4 == 0
    >>> found = judge_ranking(positive, positive + np.sin(np.arange(100)), RankedClasses("no", "yes", 0.5, 0.5))
    >>> found.low <= found.score <= found.high <= 1.0
    True
    """
    region, counts = region_options(ranked), class_counts(positive, ranked)
    low, high = partial_auc_interval(positive, scores, **region, **resampling(positive.size))
    fpr, tpr, _ = roc_curve(positive, scores, drop_intermediate=False)
    return RankingScore(
        partial_auc_score(positive, scores, **region),
        low,
        high,
        float(roc_auc_score(positive, scores)),
        float(tpr[fpr <= ranked.max_fpr + 1e-12].max()),
        float(fpr[tpr >= ranked.min_tpr - 1e-12].min()),
        *counts,
    )


def class_counts(positive: np.ndarray, ranked: RankedClasses) -> tuple[int, int]:
    """How many rows are positive and negative; too few of a class to be judged by are refused."""
    counts = int(positive.sum()), int((~positive).sum())
    for name, rows in zip((ranked.positive, ranked.negative), counts, strict=True):
        if rows < LEAST:
            raise ValueError(f"the rows to be judged by must hold at least {LEAST} of class {name!r}, they hold {rows}")
    return counts


def region_options(ranked: RankedClasses) -> dict[str, Any]:
    """The region, as options of the metrics."""
    return {"min_tpr": ranked.min_tpr, "max_fpr": ranked.max_fpr}


def resampling(rows: int) -> dict[str, Any]:
    """How often rows are drawn for an interval: less often where many would take long."""
    return {"confidence": CONFIDENCE, "n_resamples": int(np.clip(3e7 / rows, 300, RESAMPLES)), "random_state": 0}


def few_rows(score: RankingScore, ranked: RankedClasses, judged_on: str) -> str:
    """A warning where few rows of a class decide; nothing where there are enough."""
    inside = {
        ranked.positive: (score.positives, score.positives * (1.0 - ranked.min_tpr)),
        ranked.negative: (score.negatives, score.negatives * ranked.max_fpr),
    }
    name = min(inside, key=lambda each: inside[each][1])
    rows, count = inside[name]
    if count >= FEW:
        return ""
    return (
        f"Few rows decide: of {rows:,} {judged_on} rows of class {name!r} some {max(count, 1.0):.0f} lie in the "
        f"region, fewer than {FEW}. The intervals are too short, and another draw of rows may end otherwise."
    )
