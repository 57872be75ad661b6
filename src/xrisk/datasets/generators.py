"""Generated tables: a misleading shortcut, many groups of uneven size, returns of a factor model."""

import numpy as np

from xrisk.data.grouping import BETWEEN
from xrisk.datasets.french import Returns
from xrisk.datasets.table import Table
from xrisk.functions.parameters import whole_from


def make_spurious(
    n: int = 2000,
    *,
    agreement: float = 0.95,
    core: float = 0.4,
    spurious: float = 2.0,
    n_core: int = 6,
    n_noise: int = 4,
    random_state: int | np.random.Generator | None = None,
) -> Table:
    """A table with a shortcut: an attribute that agrees with the label on most rows and is easier to learn.

    The label y and the attribute a are ±1 and agree on the fraction ``agreement`` of the rows of either label. The
    columns are ``n_core`` noisy views of y, one clear view of a, and noise. The groups are the four pairs (y, a). A
    model that minimises the average loss relies on a and fails where it misleads; a model of the core columns does not.

    Parameters
    ----------
    n : int
        Rows, at least 8.
    agreement : float in (0, 1)
        Each of the four groups gets at least one row.
    core, spurious : float
        Distance of the means of the two values from 0, in standard deviations, in a core column and in the column of a.
    n_core, n_noise : int
        Columns that show y, columns that show nothing.
    random_state : int or Generator, optional
        The seed.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from xrisk.datasets import make_spurious
    >>> from xrisk.metrics import group_report
    >>> table = make_spurious(random_state=0)
    >>> guess = LogisticRegression().fit(table.X, table.y).predict(table.X)
    >>> worst = next(iter(group_report(table.y, guess, groups=table.groups)))
    >>> table.group_names[int(worst.name)], worst.n, worst.score < 0.5
    ('y=-1 × a=1', 50, True)
    """
    whole_from(8)("n", n)
    whole_from(1)("n_core", n_core)
    whole_from(0)("n_noise", n_noise)
    if not 0.0 < agreement < 1.0:
        raise ValueError(f"agreement must be between 0 and 1, got {agreement!r}")
    rng = np.random.default_rng(random_state)
    y = np.where(np.arange(n) % 2 == 0, 1, -1)
    a = y.copy()
    for label in (-1, 1):
        rows = rng.permutation(np.flatnonzero(y == label))
        against = min(max(round((1.0 - agreement) * rows.size), 1), rows.size - 1)
        a[rows[:against]] = -label
    order = rng.permutation(n)
    y, a = y[order], a[order]
    X = rng.standard_normal((n, n_core + 1 + n_noise))
    X[:, :n_core] += core * y[:, None]
    X[:, n_core] += spurious * a
    return Table(
        X,
        y,
        y + 1 + (a + 1) // 2,
        (*(f"core{j}" for j in range(n_core)), "spurious", *(f"noise{j}" for j in range(n_noise))),
        tuple(f"y={label}{BETWEEN}a={attribute}" for label in (-1, 1) for attribute in (-1, 1)),
        f"{n:,} generated rows; an attribute agrees with the label on {100 * agreement:g}% of them and misleads on the "
        "others.",
    )


def make_groups(
    n_groups: int = 20,
    *,
    n: int = 5000,
    n_features: int = 10,
    decay: float = 1.0,
    shift: float = 1.0,
    noise: float = 0.5,
    random_state: int | np.random.Generator | None = None,
) -> Table:
    """Many groups of uneven size, each with its own linear rule near a common one.

    The number of rows of the i-th group is proportional to i^−decay, at least two, with both labels. The labels are
    y = sign(⟨w + shift · vᵢ, x⟩ + noise · ε) with standard normal w, vᵢ, x and ε.

    Parameters
    ----------
    n_groups, n, n_features : int
        Groups, rows (at least two for each group), columns.
    decay : float
        0 for groups of one size; the larger, the more uneven.
    shift : float
        How different the rules of the groups are; 0 for one rule.
    noise : float
        Of the labels.
    random_state : int or Generator, optional
        The seed.

    Returns
    -------
    Table
        Rows in random order.

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk.datasets import make_groups
    >>> np.bincount(make_groups(4, n=100, random_state=0).groups).tolist()
    [46, 24, 17, 13]
    """
    whole_from(1)("n_groups", n_groups)
    whole_from(2 * n_groups)("n", n)
    whole_from(1)("n_features", n_features)
    for name, value in (("decay", decay), ("shift", shift), ("noise", noise)):
        if not 0.0 <= value < np.inf:
            raise ValueError(f"{name} must be finite and not negative, got {value!r}")
    rng = np.random.default_rng(random_state)
    groups = rng.permutation(np.repeat(np.arange(n_groups), _uneven_sizes(n, n_groups, decay)))
    w = rng.standard_normal(n_features) + shift * rng.standard_normal((n_groups, n_features))
    X = rng.standard_normal((n, n_features))
    scores = np.einsum("ij,ij->i", X, w[groups]) + noise * rng.standard_normal(n)
    y = np.where(scores > 0, 1, -1)
    for i in range(n_groups):
        rows = np.flatnonzero(groups == i)
        if abs(y[rows].sum()) == rows.size:  # one label only: the least certain row gets the other
            y[rows[np.argmin(np.abs(scores[rows]))]] *= -1
    return Table(
        X,
        y,
        groups,
        tuple(f"x{j}" for j in range(n_features)),
        tuple(f"group {i}" for i in range(n_groups)),
        f"{n:,} generated rows in {n_groups} groups of uneven size, each with a linear rule of its own.",
    )


def make_returns(
    n_periods: int = 500,
    n_assets: int = 20,
    *,
    n_factors: int = 3,
    random_state: int | np.random.Generator | None = None,
) -> Returns:
    """Returns of a factor model: rᵢ = mean + loadings·factorsᵢ + noise, with the sizes of monthly stock returns.

    Parameters
    ----------
    n_periods, n_assets, n_factors : int
        The first factor moves all assets alike, as a market does.
    random_state : int or Generator, optional
        The seed.

    Returns
    -------
    Returns
        As fractions: 0.01 is one percent.

    Examples
    --------
    >>> from xrisk.datasets import make_returns
    >>> make_returns(100, 5, random_state=0).returns.shape
    (100, 5)
    """
    for name, value in (("n_periods", n_periods), ("n_assets", n_assets), ("n_factors", n_factors)):
        whole_from(1)(name, value)
    rng = np.random.default_rng(random_state)
    loadings = 0.4 * rng.standard_normal((n_assets, n_factors))
    loadings[:, 0] = 1.0 + 0.3 * rng.standard_normal(n_assets)
    factors = rng.standard_normal((n_periods, n_factors)) * 0.04 / np.arange(1, n_factors + 1)
    noise = rng.standard_normal((n_periods, n_assets)) * rng.uniform(0.02, 0.06, n_assets)
    returns = 0.006 * loadings[:, 0] + 0.003 * rng.standard_normal(n_assets) + factors @ loadings.T + noise
    return Returns(returns, np.arange(n_periods), tuple(f"asset {j}" for j in range(n_assets)))


def _uneven_sizes(n: int, n_groups: int, decay: float) -> np.ndarray:
    """Sizes proportional to i^−decay, at least two, by largest remainders."""
    share = np.arange(1.0, n_groups + 1.0) ** -decay
    ideal = 2 + (n - 2 * n_groups) * share / share.sum()
    sizes = np.floor(ideal).astype(np.int64)
    short = n - int(sizes.sum())
    sizes[np.argsort(sizes - ideal, kind="stable")[:short]] += 1
    return sizes
