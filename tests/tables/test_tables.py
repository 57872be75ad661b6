"""Columns are read and encoded, rows are split; pandas is needed for files only."""

import numpy as np
import pytest

from xrisk.datasets import make_groups
from xrisk.tables import learn_encoding, learn_groups
from xrisk.tables.columns import column
from xrisk.tables.encoding import guess_task
from xrisk.tables.rows import group_names, split


def test_rows_are_split_by_group_and_class_and_none_is_lost():
    table = make_groups(6, n=600, random_state=0)
    names = group_names(table.groups, 600)
    train, held_out = split(names, table.y, validation=0.25, seed=0)
    assert np.array_equal(np.sort(np.concatenate([train, held_out])), np.arange(600))
    sizes, held = np.bincount(table.groups), np.bincount(table.groups[held_out], minlength=6)
    assert (np.abs(held - 0.25 * sizes) <= 2).all()


def test_the_same_seed_splits_alike():
    names, y = np.repeat(["a", "b"], 50), np.tile([0, 1], 50)
    first, again, other = (split(names, y, validation=0.5, seed=seed)[1] for seed in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_group_of_one_row_is_trained_on():
    names, y = np.array(["alone"] + ["b"] * 20), np.tile([0, 1], 11)[:21]
    assert 0 in split(names, y, validation=0.5, seed=0)[0]


@pytest.mark.parametrize("validation", [0.0, 1.0, -0.5, np.nan])
def test_a_split_that_is_none_is_refused(validation):
    with pytest.raises(ValueError, match="validation must be between 0 and 1"):
        split(np.array(["a", "b"]), np.array([0, 1]), validation=validation)


def test_groups_that_overlap_are_refused():
    with pytest.raises(ValueError, match="must not overlap"):
        group_names(np.array([[True, True], [False, True]]), 2)


def test_columns_are_numbers_or_text():
    assert column([1, 2.5]).is_number
    assert not column([True, False]).is_number
    pd = pytest.importorskip("pandas")
    assert column(pd.array([1, None], dtype="Int64")).values.tolist()[0] == 1.0
    assert column(["a", None, np.nan]).missing.tolist() == [False, True, True]


@pytest.mark.parametrize(
    ("values", "task"),
    [
        ([0, 1, 1], "classification"),
        (["a", "b"], "classification"),
        ([0.5, 1.5], "regression"),
        (list(range(50)), "regression"),
        ([True, False], "classification"),
    ],
)
def test_the_task_is_guessed(values, task):
    assert guess_task(values) == task


def test_an_encoding_is_learnt_from_training_rows_only():
    train = {"x": [0.0, 2.0, 4.0], "c": ["a", "b", "a"], "y": [0, 1, 0]}
    encoding = learn_encoding(train, target="y")
    np.testing.assert_allclose(encoding.encode({"x": [2.0, None], "c": ["b", "z"]})[0], [0.0, 0.0, 1.0])
    assert encoding.encode({"x": [None], "c": [None]}).tolist() == [[0.0, 0.0, 0.0]]


def test_bins_hold_about_as_many_rows_each():
    values = np.arange(100.0)
    (group,) = learn_groups({"age": values}, ["age"], target="y", bins=4)
    _, counts = np.unique(group.labels(values), return_counts=True)
    assert counts.tolist() == [25, 25, 25, 25]
    assert group.labels([None]).tolist() == [None]
