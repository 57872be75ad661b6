"""A bootstrap of the mean of the largest losses, with the same draws of rows for every model."""

import numpy as np


def resampled_cvar(
    losses: np.ndarray, alpha: float, *, n_resamples: int = 1000, random_state: int | None = None
) -> np.ndarray:
    """The `xrisk.metrics.cvar` (n_resamples, models) of losses (n, models) of the same rows, when rows are resampled.

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk.metrics.tail import resampled_cvar
    >>> losses = np.random.default_rng(0).exponential(size=(500, 1))
    >>> found = resampled_cvar(np.hstack([losses, losses + 1.0]), 0.1, random_state=0)
    >>> np.allclose(found[:, 1] - found[:, 0], 1.0)  # a hard draw is hard for both
    True
    """
    n, models = losses.shape
    mass = alpha * n
    reach = min(n, int(mass + 12.0 * np.sqrt(mass)) + 20)  # 12 standard deviations more rows than a draw needs
    order = np.argsort(-losses, axis=0, kind="stable")[:reach]
    sorted_losses = np.take_along_axis(losses, order, axis=0)
    rng, found = np.random.default_rng(random_state), np.empty((n_resamples, models))
    for b in range(n_resamples):
        counts = np.bincount(rng.integers(0, n, n), minlength=n)[order]
        taken = np.clip(mass - (np.cumsum(counts, axis=0) - counts), 0.0, counts)
        found[b] = (taken * sorted_losses).sum(axis=0) / taken.sum(axis=0)
    return found
