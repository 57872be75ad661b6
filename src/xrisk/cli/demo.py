"""Three short problems on built-in data."""

from typing import Any

import numpy as np
from sklearn.datasets import load_diabetes, load_digits

from xrisk.datasets import make_spurious
from xrisk.estimators import GroupDROClassifier, GroupDRORegressor
from xrisk.tables import Part, parts

Problem = tuple[Any, tuple[Part, Part], dict[str, Any]]  # model, training and validation rows, words


def problems(seed: int) -> list[Problem]:
    """A generated table with a shortcut, handwritten digits, and the course of diabetes."""
    return [_shortcut(seed), _digits(seed), _diabetes(seed)]


def _shortcut(seed: int) -> Problem:
    table = make_spurious(20_000, random_state=seed)
    groups = np.array(table.group_names)[table.groups]
    model, rows = GroupDROClassifier(alpha=0.5, random_state=seed), parts(table.X, table.y, groups, seed=seed)
    return model, rows, {"title": "A misleading shortcut", "description": table.description}


def _digits(seed: int) -> Problem:
    images, digit = load_digits(return_X_y=True)
    y = np.where(digit % 2 == 0, "even", "odd")
    groups = [f"digit {label}" for label in digit]
    model = GroupDROClassifier(alpha=0.2, l2=1e-2, random_state=seed)
    about = "1,797 handwritten digits of 8 × 8 pixels: is the digit even? Each digit is a group."
    rows = parts(images / 16.0, y, groups, validation=0.4, seed=seed)
    return model, rows, {"title": "Even or odd, by digit", "description": about}


def _diabetes(seed: int) -> Problem:
    X, y = load_diabetes(return_X_y=True, scaled=False)
    sex = [f"sex {code:g}" for code in X[:, 1]]
    bins = np.array(["age up to 40", "age 41 to 55", "age above 55"])
    age = bins[np.searchsorted([40.0, 55.0], X[:, 0])]
    about = (
        "442 patients, ten measurements each: the progress of the disease after a year. "
        "Most of the six groups have too few rows to be judged."
    )
    model = GroupDRORegressor(alpha=0.34, l2=1e-2, random_state=seed)
    rows = parts((X - X.mean(axis=0)) / X.std(axis=0), y, [sex, age], validation=0.4, seed=seed)
    return model, rows, {"title": "The course of diabetes, by sex and age", "description": about}
