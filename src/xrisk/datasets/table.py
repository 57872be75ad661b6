"""What every generator and loader returns."""

from typing import NamedTuple

import numpy as np


class Table(NamedTuple):
    """Rows, labels and groups."""

    X: np.ndarray  # (n, d)
    y: np.ndarray  # (n,), −1 and 1
    groups: np.ndarray  # (n,), positions in group_names
    feature_names: tuple[str, ...]
    group_names: tuple[str, ...]
    description: str
