"""UCI Covertype: the patches of forest by wilderness area."""

import numpy as np
from sklearn.datasets import fetch_covtype

from xrisk.datasets import finding
from xrisk.datasets.table import Table

AREAS = ("Rawah", "Neota", "Comanche Peak", "Cache la Poudre")
NUMBERS = (
    "elevation",
    "aspect",
    "slope",
    "horizontal distance to hydrology",
    "vertical distance to hydrology",
    "horizontal distance to roadways",
    "hillshade 9am",
    "hillshade noon",
    "hillshade 3pm",
    "horizontal distance to fire points",
)


def load_covtype() -> Table:
    """UCI Covertype [1]_: is a patch of forest lodgepole pine (class 2)? 581,012 rows, 54 columns, 4 wilderness areas.

    Returns
    -------
    Table
        ``X`` float32 (581,012, 54) as published, not scaled: scale it first. ``groups`` are the wilderness areas.

    References
    ----------
    .. [1] J. Blackard, Covertype, UCI Machine Learning Repository, 1998.
    """
    path = finding.find_file("covtype.npz")
    if path is not None:
        with np.load(path, allow_pickle=False) as file:
            numbers, area, soil, kind = file["num"], file["wilderness"], file["soil"], file["y"]
        X = np.zeros((kind.size, 54), dtype=np.float32)
        X[:, :10] = numbers
        X[np.arange(kind.size), 10 + area.astype(np.int64)] = 1.0
        X[np.arange(kind.size), 14 + soil.astype(np.int64)] = 1.0
    else:
        X, kind = finding.download("Covertype", lambda: fetch_covtype(return_X_y=True, n_retries=1, delay=0.1))
        X = np.asarray(X, dtype=np.float32)
        area = X[:, 10:14].argmax(axis=1)
    return Table(
        X,
        np.where(kind == 2, 1, -1),
        area.astype(np.int64),
        (*NUMBERS, *(f"wilderness {name}" for name in AREAS), *(f"soil type {j}" for j in range(1, 41))),
        AREAS,
        f"UCI Covertype: {kind.size} rows, class 2 (lodgepole pine) against the rest, grouped by wilderness area.",
    )
