"""The Kenneth French data library: returns of portfolios of American stocks."""

import csv
import gzip
from typing import NamedTuple

import numpy as np

from xrisk.datasets import finding

FILES = {
    "25-monthly": "ff25_size_bm_monthly_vw.csv.gz",
    "25-monthly-equal": "ff25_size_bm_monthly_ew.csv.gz",
    "25-daily": "ff25_size_bm_daily_vw.csv.gz",
    "100-monthly": "ff100_size_bm_monthly_vw.csv.gz",
    "industry10-monthly": "ff_industry10_monthly_vw.csv.gz",
    "industry10-daily": "ff_industry10_daily_vw.csv.gz",
    "industry17-monthly": "ff_industry17_monthly_vw.csv.gz",
    "industry30-monthly": "ff_industry30_monthly_vw.csv.gz",
    "industry30-daily": "ff_industry30_daily_vw.csv.gz",
    "industry49-monthly": "ff_industry49_monthly_vw.csv.gz",
    "factors-monthly": "ff3_factors_monthly.csv.gz",
}


class Returns(NamedTuple):
    """Returns of assets over periods."""

    returns: np.ndarray  # (periods, assets) float64, NaN where missing
    dates: np.ndarray  # (periods,) as yyyymm or yyyymmdd
    names: tuple[str, ...]  # of the assets


def load_french(name: str = "25-monthly") -> Returns:
    """Returns of the Kenneth French data library [1]_, in percent per period.

    Parameters
    ----------
    name : str
        "25-monthly", "25-monthly-equal", "25-daily" and "100-monthly": portfolios by size and book-to-market;
        "industry10-monthly", "industry10-daily", "industry17-monthly", "industry30-monthly", "industry30-daily",
        "industry49-monthly": by industry; "factors-monthly". Weighted by value, except "equal".

    Returns
    -------
    Returns
        Missing returns are NaN.

    References
    ----------
    .. [1] Kenneth R. French, data library, Tuck School of Business at Dartmouth.
    """
    if name not in FILES:
        raise ValueError(f"name must be one of {', '.join(FILES)}, got {name!r}")
    path = finding.find_file(FILES[name])
    if path is None:
        raise OSError(
            f"{FILES[name]} is neither in the folder named by XRISK_DATA nor in ../shared/data; it is not downloaded"
        )
    with gzip.open(path, "rt", newline="") as file:
        header, *lines = csv.reader(file)
    table = np.array([[float(cell) if cell else np.nan for cell in line[1:]] for line in lines])
    return Returns(table, np.array([int(line[0]) for line in lines]), tuple(header[1:]))
