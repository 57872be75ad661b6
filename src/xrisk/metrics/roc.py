"""ROC curves: labels and scores, blocks of equal scores, and the part of a curve inside a region."""

from typing import Any, NamedTuple

import numpy as np

from xrisk.annotations import Vector
from xrisk.metrics.arguments import array_of_numbers, is_number, weights_of
from xrisk.metrics.counting import block_sums

POINTS = 2000  # more than a picture shows


class RankedRows(NamedTuple):
    """Scores, which rows are positive, and their weights; rows of weight zero are left out."""

    scores: np.ndarray  # (n,)
    positive: np.ndarray  # (n,) bool
    weight: np.ndarray | None  # (n,) positive; None where all are 1


class RocRegion(NamedTuple):
    """A curve, the part of the plane under it that a partial AUC is the share of, and that share."""

    fpr: np.ndarray  # (k,) from 0 to 1
    tpr: np.ndarray  # (k,) from 0 to 1
    polygon: np.ndarray  # (l, 2) corners (fpr, tpr), empty where nothing is inside
    score: float  # as of `partial_auc_score`


def roc_region(
    y_true: Vector,
    y_score: Vector,
    *,
    min_tpr: float = 0.0,
    max_fpr: float = 1.0,
    sample_weight: Vector = None,
    pos_label: Any = None,
) -> RocRegion:
    """The ROC curve, and the polygon {(f, t): min_tpr ≤ t ≤ TPR(f), f ≤ max_fpr} under it, for pictures.

    Parameters
    ----------
    y_true, y_score, min_tpr, max_fpr, sample_weight, pos_label
        As for `partial_auc_score`.

    Returns
    -------
    RocRegion
        At most some 2,000 points, whatever the number of rows; ``score`` is that of the whole curve.

    Notes
    -----
    A longer curve is cut into some 670 arcs of about one length in f + t, and at the borders of the region. An arc from
    (f₀, t₀) to (f₁, t₁) with area A above t₀ becomes two lines that meet in (f₀ + s(f₁ − f₀), t₁ − s(t₁ − t₀)),
    s = 1 − A/((f₁ − f₀)(t₁ − t₀)): then the area is kept, and no point moves by more than 1/100.

    Examples
    --------
    >>> from xrisk.metrics import roc_region
    >>> region = roc_region([1, 0, 1, 0], [0.9, 0.8, 0.7, 0.1], min_tpr=0.5, max_fpr=0.75)
    >>> region.fpr.tolist(), region.tpr.tolist()
    ([0.0, 0.0, 0.5, 0.5, 1.0], [0.0, 0.5, 0.5, 1.0, 1.0])
    >>> region.polygon.tolist()
    [[0.5, 0.5], [0.5, 1.0], [0.75, 1.0], [0.75, 0.5]]
    >>> round(region.score, 6)
    0.333333
    """
    min_tpr, max_fpr = region_of(min_tpr, max_fpr)
    fpr, tpr = corners(*roc_curve_of(*block_weights(ranked_rows(y_true, y_score, sample_weight, pos_label))))
    score = area_share(fpr, tpr, min_tpr, max_fpr)
    if len(fpr) > POINTS:
        fpr, tpr = with_point_at(fpr, tpr, max_fpr)
        tpr, fpr = with_point_at(tpr, fpr, min_tpr)
        fpr, tpr = thinned(fpr, tpr, [np.searchsorted(fpr, max_fpr), np.searchsorted(tpr, min_tpr)])
    x, t = inside(fpr, tpr, min_tpr, max_fpr)
    polygon = np.column_stack([np.append(x, max_fpr), np.append(t, min_tpr)]) if score > 0.0 else np.empty((0, 2))
    return RocRegion(fpr, tpr, polygon, score)


def roc_curve_of(p: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """FPR and TPR from (0, 0) on, after each block; p, q (blocks,) are its weights of positives and of negatives."""
    up, along = np.cumsum(p), np.cumsum(q)
    fpr, tpr = np.zeros(len(q) + 1), np.zeros(len(p) + 1)
    np.divide(along, along[-1], out=fpr[1:])
    np.divide(up, up[-1], out=tpr[1:])
    return fpr, tpr


def inside(fpr: np.ndarray, tpr: np.ndarray, min_tpr: float, max_fpr: float) -> tuple[np.ndarray, np.ndarray]:
    """The part of a rising polyline with f ≤ max_fpr and t ≥ min_tpr, cut at both borders; empty if there is none."""
    end = int(np.searchsorted(fpr, max_fpr, side="right"))
    x, t = fpr[:end], tpr[:end]
    if 0 < end < len(fpr) and x[-1] < max_fpr:
        x = np.append(x, max_fpr)
        t = np.append(t, _between(fpr[end - 1 : end + 1], tpr[end - 1 : end + 1], max_fpr))
    begin = int(np.searchsorted(t, min_tpr, side="right"))
    if 0 < begin < len(t):
        crossing = _between(t[begin - 1 : begin + 1], x[begin - 1 : begin + 1], min_tpr)
        return np.append(crossing, x[begin:]), np.append(min_tpr, t[begin:])
    return x[begin:], t[begin:]


def area_inside(fpr: np.ndarray, tpr: np.ndarray, min_tpr: float, max_fpr: float) -> float:
    """∫ [t(f) − min_tpr]₊ df over f ≤ max_fpr, along a rising polyline."""
    x, t = inside(fpr, tpr, min_tpr, max_fpr)
    return float(np.trapezoid(t - min_tpr, x))


def area_share(fpr: np.ndarray, tpr: np.ndarray, min_tpr: float, max_fpr: float) -> float:
    """The area inside the region as a share of the region; of a curve through (0, 1) that is 1 to the last digit."""
    if fpr[np.searchsorted(tpr, tpr[-1])] == 0.0:
        return 1.0
    return share_of(area_inside(fpr, tpr, min_tpr, max_fpr), min_tpr, max_fpr)


def share_of(area: float, min_tpr: float, max_fpr: float) -> float:
    """An area as a share of (1 − min_tpr) max_fpr; rounding leaves it in [0, 1]."""
    return min(1.0, max(0.0, area / (1.0 - min_tpr) / max_fpr))  # the product may be too small for a number


def _between(x: np.ndarray, y: np.ndarray, at: float) -> float:
    """The height at ``at`` of the line between two points, x[0] < x[1]."""
    return float(y[0] + (at - x[0]) / (x[1] - x[0]) * (y[1] - y[0]))


def corners(fpr: np.ndarray, tpr: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A curve without the points in the middle of horizontal and of vertical runs."""
    flat, steep = np.diff(tpr) == 0.0, np.diff(fpr) == 0.0
    kept = np.ones(len(fpr), dtype=bool)
    kept[1:-1] = ~((flat[1:] & flat[:-1]) | (steep[1:] & steep[:-1]))
    return fpr[kept], tpr[kept]


def with_point_at(x: np.ndarray, y: np.ndarray, at: float) -> tuple[np.ndarray, np.ndarray]:
    """A rising polyline with a point at x = ``at``."""
    k = int(np.searchsorted(x, at, side="right"))
    if k in (0, len(x)) or x[k - 1] == at:
        return x, y
    return np.insert(x, k, at), np.insert(y, k, _between(x[k - 1 : k + 1], y[k - 1 : k + 1], at))


def thinned(fpr: np.ndarray, tpr: np.ndarray, kept: Any) -> tuple[np.ndarray, np.ndarray]:
    """A curve of at most some 2,000 points, with the same area between the points ``kept`` (see `roc_region`)."""
    length = fpr + tpr
    grid = np.linspace(0.0, length[-1], POINTS // 3 + 1)
    long = np.flatnonzero(np.diff(length) > grid[1])  # separate lines: no arc crosses their ends
    ends = np.unique(np.concatenate([[0], np.searchsorted(length, grid), long, long + 1, kept, [len(fpr) - 1]]))
    under = np.append(0.0, np.cumsum(np.diff(fpr) * (tpr[1:] + tpr[:-1]) / 2.0))
    width, height, arc = np.diff(fpr[ends]), np.diff(tpr[ends]), np.diff(ends) > 1
    area = np.diff(under[ends]) - width * tpr[ends[:-1]]
    arc &= width * height > 0.0
    s = 1.0 - np.clip(area[arc] / (width * height)[arc], 0.0, 1.0)
    place = np.flatnonzero(arc) + 1
    x = np.insert(fpr[ends], place, fpr[ends[:-1]][arc] + s * width[arc])
    t = np.insert(tpr[ends], place, tpr[ends[1:]][arc] - s * height[arc])
    return corners(x, t)


def block_weights(rows: RankedRows) -> tuple[np.ndarray, np.ndarray]:
    """The weights of positives and of negatives at each distinct score, the highest score first."""
    weight = np.ones(len(rows.scores)) if rows.weight is None else rows.weight
    return block_sums(rows.scores, rows.positive, weight, np.argsort(rows.scores))


def blocks_of(scores: np.ndarray) -> tuple[np.ndarray, int]:
    """For each row the number of distinct scores above its own, and how many distinct scores there are."""
    order = np.argsort(scores)
    ordered = scores[order]
    number = np.append(0, np.cumsum(ordered[1:] != ordered[:-1]))
    block = np.empty(len(scores), dtype=np.intp)
    block[order] = number[-1] - number
    return block, int(number[-1]) + 1


def ranked_rows(
    y_true: Vector, y_score: Vector, sample_weight: Vector, pos_label: Any, *, name: str = "y_score"
) -> RankedRows:
    """The arguments of a score of rankings, checked; ``name`` is what the scores are called."""
    scores, positive = scores_of(name, y_score), _positives(_column("y_true", y_true), pos_label)
    if len(scores) != len(positive):
        raise ValueError(f"y_true and {name} must be of one length, got {len(positive)} and {len(scores)} rows")
    if sample_weight is None:
        return RankedRows(scores, positive, None)
    weight = weights_of(sample_weight, len(scores))
    some = weight > 0.0
    if positive[some].all() or not positive[some].any():
        raise ValueError("sample_weight must be positive somewhere in both classes, in one it is zero everywhere")
    return RankedRows(scores[some], positive[some], weight[some])


def scores_of(name: str, values: Any) -> np.ndarray:
    """Scores as numbers of their own type: only their order counts, so they may be infinite, but not NaN."""
    scores = _column(name, values)
    if scores.dtype.kind not in "fiub":
        if scores.dtype.kind != "O":
            raise ValueError(f"{name} must be numbers, got dtype {scores.dtype}")
        scores = array_of_numbers(name, scores)
    if scores.dtype.kind == "f" and np.isnan(scores).any():
        raise ValueError(f"{name} must hold no NaN, got {np.isnan(scores).sum()} of them")
    return sortable(scores)


def sortable(scores: np.ndarray) -> np.ndarray:
    """The scores, or others in the same order, of a type that is sorted fast and that kernels are compiled for."""
    if scores.dtype.itemsize > 8:
        return np.unique(scores, return_inverse=True)[1]
    kind, wide = scores.dtype.kind, scores.dtype.itemsize == 8
    chosen = {"f": np.float64 if wide else np.float32, "u": np.uint64 if wide else np.int64}.get(kind, np.int64)
    return np.ascontiguousarray(scores, dtype=chosen)


def _column(name: str, values: Any) -> np.ndarray:
    """One value for each row; a matrix of one column is one too."""
    if np.ma.is_masked(values):
        raise ValueError(f"{name} must have a value in every row, some are missing")
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name} must have one value for each row, got rows of several lengths") from error
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        hint = "; of two columns of probabilities pass that of the positive class" if array.ndim == 2 else ""
        raise ValueError(f"{name} must have one value for each row, got shape {array.shape}{hint}")
    if len(array) == 0:
        raise ValueError(f"{name} must have at least one row of each class, got no rows")
    return array


def _positives(y_true: np.ndarray, pos_label: Any) -> np.ndarray:
    """Which rows are of the positive class: that of ``pos_label``, else the greater of the two."""
    low, high = _two_classes(y_true)
    if pos_label is not None and pos_label not in (low, high):
        raise ValueError(f"pos_label must be one of the classes {low!r} and {high!r} of y_true, got {pos_label!r}")
    return y_true == (high if pos_label is None else pos_label)


def _two_classes(y_true: np.ndarray) -> list[Any]:
    if y_true.dtype.kind == "f" and np.isnan(y_true).any():
        raise ValueError(f"y_true must hold no NaN, got {np.isnan(y_true).sum()} of them")
    if y_true.dtype.kind in "biuf":  # without sorting them
        classes = np.array([y_true.min(), y_true.max()])
        two = classes[0] != classes[1] and sum(np.count_nonzero(y_true == k) for k in classes) == len(y_true)
    else:
        classes, two = _sorted_labels(y_true), True
    if not two or len(classes) != 2:
        classes = np.unique(y_true)
        raise ValueError(f"y_true must have exactly two classes, got {_listed(classes.tolist())}")
    return classes.tolist()


def _sorted_labels(y_true: np.ndarray) -> np.ndarray:
    try:
        return np.unique(y_true)
    except TypeError as error:
        raise ValueError("y_true must have labels of one kind, some cannot be compared") from error


def _listed(classes: list[Any], most: int = 5) -> str:
    shown = ", ".join(repr(name) for name in classes[:most])
    return f"{shown} alone" if len(classes) == 1 else f"{shown}, …" if len(classes) > most else shown


def region_of(min_tpr: Any, max_fpr: Any) -> tuple[float, float]:
    """The borders of a region in double precision, whatever numbers they are; one without area is refused."""
    if not is_number(min_tpr, 0.0, 1.0) or min_tpr == 1:
        raise ValueError(f"min_tpr must be in [0, 1), got {min_tpr!r}")
    if not is_number(max_fpr, 0.0, 1.0) or max_fpr == 0:
        raise ValueError(f"max_fpr must be in (0, 1], got {max_fpr!r}")
    return float(min_tpr), float(max_fpr)
