"""Speed of scores as ratios in one process: exact partial AUC of a million scores over ``numpy.sort`` of them.

Run ``python benchmarks/metrics.py``; contestants take turns, ratios are those of their least times.
"""

import time
from functools import partial

import numpy as np

from xrisk.metrics import partial_auc_interval, partial_auc_score

ROWS, ROUNDS, TARGET = 1_000_000, 7, 3.0
REGIONS = [(0.0, 1.0), (0.0, 0.3), (0.0, 0.01), (0.5, 1.0), (0.5, 0.5), (0.25, 0.75), (0.9, 0.1)]
SCORES = {"continuous": lambda s: s, "tied": lambda s: np.round(s, 2), "float32": lambda s: s.astype(np.float32)}


def least_seconds(contestants):
    """The least time of each, taking turns."""
    seconds = np.empty((ROUNDS, len(contestants)))
    for row in seconds:
        for k, run in enumerate(contestants):
            started = time.perf_counter()
            run()
            row[k] = time.perf_counter() - started
    return seconds.min(axis=0)


def rows(share, n=ROWS):
    """Labels with a share of positives, and scores of AUC 0.76."""
    rng = np.random.default_rng(0)
    y = (rng.random(n) < share).astype(np.int64)
    return y, y + rng.standard_normal(n)


def ratios(share, kind, method, weighted=False):
    """Times of all regions over that of sorting the same scores, which is returned too."""
    y, score = rows(share)
    score, weight = SCORES[kind](score), np.random.default_rng(1).random(ROWS) if weighted else None
    told = {"method": method, "sample_weight": weight}
    runs = [partial(partial_auc_score, y, score, min_tpr=m, max_fpr=f, **told) for m, f in REGIONS]
    sort, *ours = least_seconds([partial(np.sort, score), *runs])
    return np.array(ours) / sort, sort


def main():
    print(f"partial_auc_score of {ROWS:,} scores over numpy.sort of them (target: at most {TARGET:g})")
    print(
        f"{'scores':<12}{'method':<8}{'positives':>10}{'sort':>9}  "
        + "".join(f"{f'{m:g}, {f:g}':>11}" for m, f in REGIONS)
    )
    worst = 0.0
    for kind, method in [("continuous", "area"), ("continuous", "counts"), ("tied", "area"), ("float32", "area")]:
        for share in (0.01, 0.1, 0.5):
            found, sort = ratios(share, kind, method)
            worst = max(worst, found.max())
            print(f"{kind:<12}{method:<8}{share:>10.0%}{sort * 1e3:>6.1f} ms  " + "".join(f"{r:>11.2f}" for r in found))
    found, sort = ratios(0.1, "continuous", "area", weighted=True)  # sorts numbers of rows: no target
    print(f"{'weighted':<12}{'area':<8}{0.1:>10.0%}{sort * 1e3:>6.1f} ms  " + "".join(f"{r:>11.2f}" for r in found))
    print(f"Columns: min_tpr, max_fpr. Largest ratio without weights: {worst:.2f}.")
    y, score = rows(0.1, 100_000)
    (seconds,) = least_seconds([partial(partial_auc_interval, y, score, max_fpr=0.3, n_resamples=100, random_state=0)])
    print(f"partial_auc_interval of 100,000 scores: {seconds * 10:.2f} ms for each resample")


if __name__ == "__main__":
    main()
