"""Intervals of scores: Wilson's for a share, percentiles of a bootstrap."""

import math
from statistics import NormalDist

import numpy as np

Interval = tuple[float | None, float | None]


def percentiles(sample: list[float], confidence: float) -> Interval:
    """Percentile interval of a bootstrap sample; none where the sample is empty or not finite."""
    if not sample or not np.isfinite(sample).all():
        return None, None
    return middle(np.array(sample), confidence)


def middle(sample: np.ndarray, confidence: float) -> tuple[float, float]:
    """Percentiles (1 ± confidence)/2 of a sample, between which a share ``confidence`` of it lies."""
    low, high = np.quantile(sample, [0.5 - confidence / 2.0, 0.5 + confidence / 2.0])
    return float(low), float(high)


def wilson_interval(share: float, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's interval for a probability observed as ``share`` of ``n`` trials; useful down to n = 1.

    Examples
    --------
    >>> from xrisk.metrics import wilson_interval
    >>> [round(end, 3) for end in wilson_interval(1.0, 10)]
    [0.722, 1.0]
    """
    z = NormalDist().inv_cdf(0.5 + confidence / 2.0)
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    low = 0.0 if share == 0.0 else max(0.0, middle - half)
    high = 1.0 if share == 1.0 else min(1.0, middle + half)
    return low, high
