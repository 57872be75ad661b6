"""Groups in every form, worst-group scores, CVaR, reports, and scorers inside scikit-learn's searches."""

import json
import sys
import warnings
from functools import partial

import numpy as np
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, balanced_accuracy_score, log_loss, mean_squared_error, roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from xrisk.data.grouping import encode_groups
from xrisk.datasets import make_spurious
from xrisk.metrics import (
    GroupRow,
    cvar,
    group_report,
    wilson_interval,
    worst_group_score,
    worst_group_scorer,
)


class Frame:
    """As much of a DataFrame as is asked of one."""

    def __init__(self, **columns):
        self._columns = columns
        self.columns = list(columns)

    def __getitem__(self, name):
        return self._columns[name]


class NAType:
    """Like pandas.NA: comparing gives itself, and it has no truth value."""

    def __ne__(self, other):
        return self

    def __bool__(self):
        raise TypeError("boolean value of NA is ambiguous")

    __hash__ = object.__hash__


FORMS = {
    "list of strings": ["b", "a", "b", "c"],
    "array of strings": np.array(["b", "a", "b", "c"]),
    "objects": np.array(["b", "a", "b", "c"], dtype=object),
    "numpy strings": np.array(["b", "a", "b", "c"], dtype=np.dtypes.StringDType()),
    "bytes": [b"b", b"a", b"b", b"c"],
    "integers": [7, 3, 7, 11],
    "floats": [1.5, -2.0, 1.5, np.inf],
    "dates": np.array(["2021", "2020", "2021", "2022"], dtype="M8[D]"),
    "one column": np.array([["b"], ["a"], ["b"], ["c"]]),
    "one column of a frame": Frame(g=["b", "a", "b", "c"]),
    "list of one column": [["b", "a", "b", "c"]],
}


@pytest.mark.parametrize("groups", FORMS.values(), ids=FORMS)
def test_labels_of_any_kind_become_codes_in_their_order(groups):
    np.testing.assert_array_equal(encode_groups(groups, 4).labels, [1, 0, 1, 2])


COLUMNS = {
    "list of columns": [["f", "m", "m", "f"], [1, 2, 1, 1]],
    "list of arrays": [np.array(["f", "m", "m", "f"]), np.array([1, 2, 1, 1])],
    "matrix of objects": np.array([["f", 1], ["m", 2], ["m", 1], ["f", 1]], dtype=object),
    "list of rows": [("f", 1), ("m", 2), ("m", 1), ("f", 1)],
    "frame": Frame(sex=["f", "m", "m", "f"], kind=np.array([1, 2, 1, 1])),
}


@pytest.mark.parametrize("groups", COLUMNS.values(), ids=COLUMNS)
def test_several_columns_are_their_intersections(groups):
    found = encode_groups(groups, 4)
    assert found.names == ("f × 1", "m × 1", "m × 2")
    np.testing.assert_array_equal(found.labels, [0, 2, 1, 0])


MISSING = {
    "None": [1, None, 1, 2],
    "NaN": np.array([1.0, np.nan, 1.0, 2.0]),
    "NaN among strings": ["1", float("nan"), "1", "2"],
    "NA": np.array([1, NAType(), 1, 2], dtype=object),
    "NaT": np.array(["2001", "NaT", "2001", "2002"], dtype="M8[Y]"),
    "masked": np.ma.masked_array([1, 9, 1, 2], mask=[False, True, False, False]),
}


@pytest.mark.parametrize("groups", MISSING.values(), ids=MISSING)
def test_missing_labels_are_a_group_of_their_own_and_counted(groups):
    found = encode_groups(groups, 4)
    np.testing.assert_array_equal(found.labels, [0, 2, 0, 1])
    assert (found.names[-1], found.missing) == ("missing", 1)


def test_a_row_missing_in_two_columns_is_counted_once():
    found = encode_groups([["a", None], [None, None]], 2)
    assert (found.names, found.missing) == (("a × missing", "missing × missing"), 2)


def test_boolean_columns_are_membership_and_may_overlap():
    found = encode_groups(np.array([[True, True], [True, False], [False, True]]), 3)
    assert [rows.tolist() for rows in found.rows()] == [[0, 1], [0, 2]]


def test_membership_takes_its_names_from_a_frame():
    found = encode_groups(Frame(old=np.array([True, False]), poor=np.array([True, True])), 2)
    assert found.names == ("old", "poor")


def test_rows_in_no_group_of_a_membership_are_missing_and_empty_groups_are_named():
    found = encode_groups(np.array([[True, False], [False, False]]), 2)
    assert (found.names, found.missing, found.empty) == (("0", "missing"), 1, ("1",))


def test_a_single_boolean_column_is_a_column_of_labels():
    assert encode_groups(np.array([[True], [False]]), 2).names == ("False", "True")


@pytest.mark.parametrize(
    ("groups", "names"),
    [
        ([1, "1"], ("1", "'1'")),
        (["missing", None], ("'missing'", "missing")),
        (["", " a"], ("''", "' a'")),
        (["a\nb", "c"], ("'a\\nb'", "c")),
        (np.array(["2020-01-01", "2021-05-05"], dtype="M8[us]"), ("2020-01-01", "2021-05-05")),
        ([["a × b", "a"], ["c", "b × c"]], ("'a' × 'b × c'", "'a × b' × 'c'")),
    ],
)
def test_names_are_distinct_and_can_be_seen(groups, names):
    assert sorted(encode_groups(groups, 2).names) == sorted(names)


@given(st.lists(st.one_of(st.none(), st.integers(-3, 3), st.text(max_size=2), st.floats()), min_size=1))
def test_any_labels_give_distinct_names_and_groups_that_part_the_rows(labels):
    found = encode_groups(labels, len(labels))
    assert len(set(found.names)) == len(found.names)
    assert sorted(np.concatenate(found.rows()).tolist()) == list(range(len(labels)))


class ArrowTable:
    """What a pyarrow Table has: columns that are no names."""

    def __init__(self, **columns):
        self.held, self.columns, self.column_names = columns, list(columns.values()), list(columns)

    def __getitem__(self, name):
        return self.held[name]


def test_a_table_of_pyarrow_is_its_columns():
    letters, numbers = np.array(["a", "b", "a"]), np.array([1, 2, 1])
    assert encode_groups(ArrowTable(letter=letters, number=numbers), 3).names == ("a × 1", "b × 2")


def test_a_real_table_of_pyarrow_is_its_columns():
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    found = encode_groups(arrow.table({"letter": ["a", "b", None], "number": [1, 2, 1]}), 3)
    assert (found.names, found.missing) == (("a × 1", "b × 2", "missing × 1"), 1)


HOSTILE = {
    "nothing": (None, "groups must be labels, one for each of the 3 rows, got a NoneType"),
    "a dict": ({"a": 1}, "got a dict"),
    "a word": ("abc", "got a str"),
    "too short": ([1, 2], r"one label for each of the 3 rows, got shape \(2,\)"),
    "three axes": (np.zeros((3, 2, 2)), "one label for each of the 3 rows"),
    "no columns": (np.zeros((3, 0)), "at least one column"),
    "a dict as label": ([{}, 1, 2], "got a dict as a label"),
    "an array as label": ([np.zeros(2), 1, 2], "got a ndarray as a label"),
    "lists of unequal lengths": ([[1], [1, 2], [3]], "got a list as a label"),
}


@pytest.mark.parametrize(("groups", "sentence"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_groups_get_one_sentence(groups, sentence):
    with pytest.raises(ValueError, match=sentence):
        encode_groups(groups, 3)


def test_no_rows_are_refused():
    with pytest.raises(ValueError, match="at least one row"):
        encode_groups([], 0)


score_all = partial(worst_group_score, min_group_size=1)
report_all = partial(group_report, min_group_size=1)
TRUTH = np.array([1, 1, 0, 0, 1, 0])
GUESS = np.array([1, 1, 0, 1, 0, 1])
GROUP = np.array(["a", "a", "a", "b", "b", "b"])


def test_the_worst_group_is_found():
    assert score_all(TRUTH, GUESS, groups=GROUP) == 0.0


def test_string_labels_are_scored():
    assert score_all(["x", "y"], ["x", "x"], groups=[1, 1]) == 0.5


def test_weights_weigh_within_groups():
    found = score_all(TRUTH[:3], [1, 0, 0], groups=["a", "a", "b"], sample_weight=[3.0, 1.0, 1.0])
    assert found == 0.75


def test_a_group_without_weight_is_left_out():
    assert score_all(TRUTH, GUESS, groups=GROUP, sample_weight=[1, 1, 1, 0, 0, 0]) == 1.0


def test_of_a_loss_the_largest_is_the_worst():
    y, guess = np.array([0.0, 0.0]), np.array([1.0, 3.0])
    found = score_all(y, guess, groups=[0, 1], metric=mean_squared_error, greater_is_better=False)
    assert found == -score_all(y, guess, groups=[0, 1], metric="neg_mean_squared_error") == 9.0


def test_a_group_of_few_rows_is_not_the_worst():
    y, group = np.ones(33), np.repeat(["many", "few"], [30, 3])
    guess = np.where(group == "few", 0.0, y)
    assert worst_group_score(y, guess, groups=group) == 1.0
    assert worst_group_score(y, guess, groups=group, min_group_size=3) == 0.0


def test_rows_without_weight_make_no_group_large():
    weight = [1, 1, 1, 1, 1, 0]
    assert worst_group_score(TRUTH, GUESS, groups=GROUP, sample_weight=weight, min_group_size=3) == 1.0


def test_the_named_log_loss_is_scikit_learns_even_where_a_group_lacks_a_class():
    p, label = np.array([0.9, 0.8, 0.2, 0.4]), np.array([1, 1, 0, 0])
    known = max(log_loss(label[rows], p[rows], labels=[0, 1]) for rows in ([0, 1], [2, 3]))
    assert score_all(label, p, groups=label, metric="neg_log_loss") == pytest.approx(-known)
    both = np.column_stack([1 - p, p])
    assert score_all(label, both, groups=label, metric="neg_log_loss") == pytest.approx(-known)


def test_a_probability_of_zero_for_the_truth_has_a_finite_loss():
    assert score_all([0, 1], [1.0, 1.0], groups=["a", "a"], metric="neg_log_loss") == pytest.approx(-18.02, abs=0.01)


@pytest.mark.parametrize("weight", [None, [1.0, 2.0, 3.0, 1.0, 2.0, 0.5]], ids=["alike", "weighted"])
def test_the_named_balanced_accuracy_is_scikit_learns(weight):
    found = score_all(TRUTH, GUESS, groups=np.zeros(6), metric="balanced_accuracy", sample_weight=weight)
    assert found == pytest.approx(balanced_accuracy_score(TRUTH, GUESS, sample_weight=weight))


def test_absolute_errors_have_a_word():
    assert score_all([0.0, 0.0], [1.0, 3.0], groups=[0, 1], metric="neg_mean_absolute_error") == -3.0


def test_root_mean_squared_errors_have_a_word():
    assert score_all([0.0, 0.0], [1.0, 3.0], groups=[0, 0], metric="neg_root_mean_squared_error") == -np.sqrt(5.0)


def test_a_row_in_two_groups_counts_in_both():
    member = np.array([[True, True], [True, False], [False, True]])
    assert score_all([1, 1, 1], [0, 1, 1], groups=member) == 0.5


def constant_nan(y_true, y_pred):
    return float("nan")


WRONG = {
    "no size": ({"min_group_size": 0}, "min_group_size must be a number of rows, at least 1, got 0"),
    "a size of truth": ({"min_group_size": True}, "min_group_size must be a number of rows"),
    "a size in words": ({"min_group_size": "a"}, "min_group_size must be a number of rows, at least 1, got 'a'"),
    "no size at all": ({"min_group_size": None}, "min_group_size must be a number of rows, at least 1, got None"),
    "NaN for a size": ({"min_group_size": np.nan}, "min_group_size must be a number of rows, at least 1, got nan"),
    "weights in words": ({"sample_weight": ["a"] * 6}, "sample_weight must be numbers, got"),
    "too large a size": ({"min_group_size": 4}, "got 4: of 2 groups the largest has 3 rows"),
    "labels for probabilities": ({"metric": "neg_log_loss", "y_pred": list("aabbab")}, "probabilities .* got labels"),
    "no probabilities": ({"metric": "neg_log_loss", "y_pred": 2 * GUESS}, "some are not between 0 and 1"),
    "NaN for a probability": ({"metric": "neg_log_loss", "y_pred": np.nan * GUESS}, "y_pred must hold no NaN"),
    "NaN for a class": ({"metric": "balanced_accuracy", "y_pred": np.nan * GUESS}, "y_pred must hold no NaN .* got 6"),
    "NaN for a number": ({"metric": "neg_mean_squared_error", "y_true": np.nan * TRUTH}, "y_true must hold no NaN"),
    "too many classes": (
        {"metric": "neg_log_loss", "y_pred": np.full((6, 3), 1 / 3)},
        r"rows of shape \(3,\) for 2 in y_true",
    ),
    "an unknown word": ({"metric": "auc"}, "metric must be one of accuracy, .* got 'auc'"),
    "a word as a loss": ({"greater_is_better": False}, "greater_is_better must be True for metric='accuracy'"),
    "NaN": ({"metric": constant_nan}, "it is NaN in group 'a' of 3 rows"),
    "short weights": ({"sample_weight": [1.0]}, "sample_weight must be finite and non-negative, one for each of the 6"),
    "negative weights": ({"sample_weight": [-1.0] * 6}, "sample_weight must be finite and non-negative"),
    "no weight": ({"sample_weight": [0.0] * 6}, "sample_weight must be positive somewhere"),
}


@pytest.mark.parametrize(("options", "sentence"), WRONG.values(), ids=WRONG)
def test_wrong_arguments_of_the_score_are_named(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        score_all(**{"y_true": TRUTH, "y_pred": GUESS, "groups": GROUP, **options})


def test_a_metric_that_is_no_function_is_refused():
    with pytest.raises(TypeError, match="or a callable, got 3"):
        score_all(TRUTH, GUESS, groups=GROUP, metric=3)


def test_truth_and_guess_must_be_of_one_length():
    with pytest.raises(ValueError, match=r"of one length, got shapes \(6,\) and \(5,\)"):
        score_all(TRUTH, GUESS[:5], groups=GROUP)


@given(
    st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=20),
    st.floats(0.01, 1.0),
)
def test_cvar_is_the_least_value_of_its_variational_form(values, alpha):
    u = np.array(values)
    least = min(c + np.maximum(u - c, 0.0).mean() / alpha for c in u)
    assert cvar(u, alpha) == pytest.approx(least, rel=1e-9, abs=1e-9)


@given(st.lists(st.tuples(st.floats(-5.0, 5.0), st.integers(0, 4)), min_size=1, max_size=8), st.floats(0.05, 1.0))
def test_a_weight_is_a_number_of_copies(pairs, alpha):
    values, weight = [np.array(part) for part in zip((0.0, 1), *pairs, strict=True)]
    repeated = np.repeat(values, weight.astype(int))
    assert cvar(values, alpha, weight) == pytest.approx(cvar(repeated, alpha), abs=1e-9)


def test_cvar_at_one_is_the_mean_and_near_zero_the_maximum():
    values = np.array([3.0, -1.0, 7.0])
    assert (cvar(values, 1.0), cvar(values, 1e-300)) == (3.0, 7.0)


def test_an_infinite_loss_outside_the_tail_does_no_harm():
    assert cvar([-np.inf, 1.0, 2.0], 1.0 / 3.0) == 2.0


def test_huge_losses_and_weights_do_not_overflow():
    assert cvar([1e308, 1e308], 1.0, [1e308, 1e308]) == 1e308


@pytest.mark.parametrize(
    ("values", "alpha", "sentence"),
    [
        ([1.0], 0.0, r"alpha must be in \(0, 1\], got 0.0"),
        ([1.0], float("nan"), "alpha must be in"),
        ([1.0], "0.5", r"alpha must be in \(0, 1\], got '0.5'"),
        ([1.0], None, "alpha must be in .* got None"),
        (["a"], 0.5, r"values must be numbers, got \['a'\]"),
        ([np.inf, -np.inf], 1.0, "values must not be infinite both ways"),
        ([], 0.5, "at least one"),
        ([float("nan")], 0.5, "some are NaN"),
    ],
)
def test_wrong_arguments_of_cvar_are_named(values, alpha, sentence):
    with pytest.raises(ValueError, match=sentence):
        cvar(values, alpha)


def test_wilson_interval_is_the_published_one():
    assert wilson_interval(0.5, 10) == pytest.approx((0.23659, 0.76341), abs=1e-5)


def test_wilson_interval_covers_as_often_as_it_says():
    hits = np.random.default_rng(0).binomial(40, 0.9, 2000)
    ends = [wilson_interval(k / 40, 40, 0.9) for k in hits]
    assert 0.87 < np.mean([low <= 0.9 <= high for low, high in ends]) < 0.95


def test_the_report_has_the_worst_group_first():
    report = report_all(TRUTH, GUESS, groups=GROUP)
    assert [(row.name, row.n, row.share, row.score) for row in report] == [("b", 3, 0.5, 0.0), ("a", 3, 0.5, 1.0)]


def test_the_report_is_sorted_by_risk_where_losses_are_given():
    report = report_all(TRUTH, GUESS, groups=GROUP, losses=[9, 9, 9, 1, 1, 1])
    assert [(row.name, row.risk) for row in report] == [("a", 9.0), ("b", 1.0)]


def test_the_report_of_a_loss_has_its_largest_first():
    report = report_all([0.0, 0.0], [1.0, 3.0], groups=[0, 1], metric=mean_squared_error, greater_is_better=False)
    assert ([row.name for row in report], report.metric) == (["1", "0"], "mean_squared_error")


def test_a_score_that_is_not_a_number_is_none_and_last():
    def first(y_true, y_pred):
        return float("nan") if y_true[0] == 1 else 1.0

    report = report_all([1, 0], [1, 0], groups=["a", "b"], metric=first)
    assert [row.score for row in report] == [1.0, None]
    assert "No number for first in a." in str(report)


def test_a_group_of_few_rows_is_shown_last_and_said():
    report = group_report(np.ones(33), np.repeat([1, 0], [30, 3]), groups=np.repeat(["many", "few"], [30, 3]))
    assert [row.name for row in report] == ["many", "few"]
    assert ([row.name for row in report.small], report.worst.name) == (["few"], "many")
    assert "1 group has fewer than 30 rows: listed last, never the worst." in str(report)
    assert report.to_dict()["min_group_size"] == 30


def test_where_no_group_has_enough_rows_none_is_the_worst():
    report = group_report(TRUTH, GUESS, groups=GROUP)
    assert report.worst is None
    assert report.to_dict()["worst"] is None


def test_rows_are_found_by_name_and_counted():
    report = report_all(TRUTH, GUESS, groups=GROUP)
    assert (report["a"].score, len(report)) == (1.0, 2)


def test_an_unknown_name_is_a_key_error():
    with pytest.raises(KeyError, match="z"):
        report_all(TRUTH, GUESS, groups=GROUP)["z"]


def test_bootstrap_intervals_hold_the_risk_and_depend_on_the_seed_alone():
    losses = np.random.default_rng(0).exponential(size=6)
    first, again = [
        report_all(TRUTH, GUESS, groups=GROUP, losses=losses, bootstrap=200, random_state=3) for _ in range(2)
    ]
    assert first.rows == again.rows
    assert all(row.risk_low < row.risk < row.risk_high for row in first)


def test_bootstrap_interval_agrees_with_the_normal_one_on_many_rows():
    losses = np.random.default_rng(1).standard_normal(2000)
    y = np.zeros(2000, int)
    (row,) = report_all(y, y, groups=y, losses=losses, bootstrap=300, random_state=0)
    assert row.risk_high - row.risk_low == pytest.approx(2 * 1.96 / np.sqrt(2000), rel=0.2)


def test_other_scores_than_accuracy_get_bootstrap_intervals():
    report = report_all(
        [0.0, 1.0, 2.0],
        [0.5, 1.0, 4.0],
        groups=[0, 0, 0],
        metric="neg_mean_squared_error",
        bootstrap=50,
        random_state=0,
    )
    assert report.rows[0].score_low < report.rows[0].score < report.rows[0].score_high


def test_a_group_of_one_row_gets_no_bootstrap_interval():
    report = report_all(TRUTH[:1], GUESS[:1], groups=["a"], losses=[1.0], bootstrap=10)
    assert (report["a"].risk_low, report["a"].risk_high) == (None, None)


@pytest.mark.parametrize("weights", [{"a": 0.25, "b": 0.75}, [0.25, 0.75]], ids=["by name", "in order"])
def test_worst_case_weights_are_shown(weights):
    report = report_all(TRUTH, GUESS, groups=GROUP, weights=weights)
    assert (report["a"].weight, report["b"].weight) == (0.25, 0.75)


def test_the_report_prints_as_an_aligned_table():
    report = report_all(TRUTH, GUESS, groups=["a", "a", "a", "bb", "bb", None], losses=[0, 0, 0, 1, 1, 2e6])
    assert str(report).splitlines() == [
        "group    n   share  accuracy                         risk",
        "missing  1   16.7%    0.0000  [0.0000, 0.7935]      2e+06",
        "bb       2   33.3%    0.0000  [0.0000, 0.6576]     1.0000",
        "a        3   50.0%    1.0000  [0.4385, 1.0000]     0.0000",
        "all      6  100.0%    0.5000  [0.1876, 0.8124]  3.333e+05",
        "In brackets: 95% confidence intervals, each for one group by itself.",
        "Rows without a group: 1.",
    ]


def test_long_names_are_cut_in_the_table_only():
    report = report_all([1], [1], groups=["x" * 500])
    assert (max(map(len, str(report).splitlines())) < 120, len(report.rows[0].name)) == (True, 500)


def test_the_report_survives_json():
    report = report_all(TRUTH, GUESS, groups=GROUP, losses=np.ones(6, np.float32), bootstrap=5, random_state=0)
    back = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert tuple(GroupRow(**row) for row in back["groups"]) == report.rows


def test_the_report_becomes_a_frame():
    pytest.importorskip("pandas", reason="pandas is not installed")
    frame = report_all(TRUTH, GUESS, groups=GROUP).to_frame()
    assert (frame["name"].tolist(), frame["risk"].isna().all()) == (["b", "a"], True)


def test_without_pandas_a_frame_says_what_is_needed(monkeypatch):
    report = report_all(TRUTH, GUESS, groups=GROUP)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="to_frame needs pandas"):
        report.to_frame()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"confidence": 1.0}, "confidence must be between 0 and 1, got 1.0"),
        ({"confidence": "0.9"}, "confidence must be between 0 and 1, got '0.9'"),
        ({"bootstrap": -1}, "bootstrap must be a number of resamples"),
        ({"bootstrap": np.nan}, "bootstrap must be a number of resamples"),
        ({"bootstrap": None}, "bootstrap must be a number of resamples, 0 for none, got None"),
        ({"losses": ["a"] * 6}, r"losses must be numbers, got \['a', .*"),
        ({"weights": ["a", "b"]}, r"weights must be numbers, got \['a', 'b'\]"),
        ({"losses": [1.0]}, r"losses must have one number for each of the 6 rows, got shape \(1,\)"),
        ({"losses": [np.inf] * 6}, "losses must be finite"),
        ({"weights": [1.0]}, "weights must have one number for each of the 2 groups"),
    ],
)
def test_wrong_arguments_of_the_report_are_named(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        report_all(TRUTH, GUESS, groups=GROUP, **options)


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


SPURIOUS = make_spurious(1000, random_state=0)


def searched(scoring, groups, **grid):
    model = make_pipeline(StandardScaler(), LogisticRegression())
    grid = {f"logisticregression__{name}": values for name, values in grid.items()}
    params = {} if groups is None else {"groups": groups}
    return GridSearchCV(model, grid, scoring=scoring, cv=3, error_score="raise").fit(SPURIOUS.X, SPURIOUS.y, **params)


@pytest.fixture(scope="module")
def plain_search():
    with sklearn.config_context(enable_metadata_routing=True):
        return searched(worst_group_scorer(), SPURIOUS.groups, C=[1.0]).best_score_


def test_the_scorer_chooses_by_the_worst_group_inside_a_pipeline_and_a_search(routing):
    search = searched(worst_group_scorer(min_group_size=1), SPURIOUS.groups, C=[0.001, 1.0])
    by_average = searched("accuracy", None, C=[0.001, 1.0])
    assert (search.best_params_, by_average.best_params_) == (
        {"logisticregression__C": 0.001},
        {"logisticregression__C": 1.0},
    )


def test_the_scorer_gives_the_score_of_the_fold(routing):
    model = LogisticRegression().fit(SPURIOUS.X, SPURIOUS.y)
    found = worst_group_scorer()(model, SPURIOUS.X, SPURIOUS.y, groups=SPURIOUS.groups)
    assert found == worst_group_score(SPURIOUS.y, model.predict(SPURIOUS.X), groups=SPURIOUS.groups)


@pytest.mark.parametrize(
    "groups",
    [
        SPURIOUS.groups.astype(str),
        np.column_stack([SPURIOUS.y, SPURIOUS.groups % 2]),
        SPURIOUS.groups[:, None] == np.arange(4),
    ],
    ids=["strings", "two columns", "membership"],
)
def test_every_form_of_groups_is_routed(routing, groups, plain_search):
    assert searched(worst_group_scorer(), groups, C=[1.0]).best_score_ == pytest.approx(plain_search)


def test_a_loss_of_probabilities_is_scored_by_its_negative(routing):
    loss = partial(log_loss, labels=[-1, 1])
    scorer = worst_group_scorer(loss, response="predict_proba", greater_is_better=False, min_group_size=1)
    assert searched(scorer, SPURIOUS.groups, C=[1.0]).best_score_ < -0.5


def test_the_scorer_of_the_named_log_loss_takes_probabilities(routing):
    model = LogisticRegression().fit(SPURIOUS.X, SPURIOUS.y)
    found = worst_group_scorer("neg_log_loss")(model, SPURIOUS.X, SPURIOUS.y, groups=SPURIOUS.groups)
    p = model.predict_proba(SPURIOUS.X)
    assert found == worst_group_score(SPURIOUS.y, p, groups=SPURIOUS.groups, metric="neg_log_loss")


def test_the_scorer_leaves_small_groups_out(routing):
    model = LogisticRegression().fit(SPURIOUS.X, SPURIOUS.y)
    group = np.where(SPURIOUS.y == model.predict(SPURIOUS.X), "right", "wrong")
    group[np.flatnonzero(group == "wrong")[10:]] = "rest"
    assert worst_group_scorer()(model, SPURIOUS.X, SPURIOUS.y, groups=np.where(group == "wrong", "wrong", "rest")) > 0.5
    small = worst_group_scorer(min_group_size=10)
    assert small(model, SPURIOUS.X, SPURIOUS.y, groups=np.where(group == "wrong", "wrong", "rest")) == 0.0


def test_a_metric_that_is_no_number_in_a_fold_is_never_silent(routing):
    def undefined(y_true, y_pred):
        return float("nan")

    model = GridSearchCV(LogisticRegression(), {"C": [1.0]}, scoring=worst_group_scorer(undefined), cv=3)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.fit(SPURIOUS.X, SPURIOUS.y, groups=SPURIOUS.groups)
    assert any("it is NaN in group" in str(warning.message) for warning in told)


def test_weights_can_be_requested_too(routing):
    scorer = worst_group_scorer().set_score_request(groups=True, sample_weight=True)
    weight = np.ones(SPURIOUS.y.size)
    model = LogisticRegression().set_fit_request(sample_weight=False)
    params = {"groups": SPURIOUS.groups, "sample_weight": weight}
    found = cross_validate(model, SPURIOUS.X, SPURIOUS.y, scoring=scorer, params=params, cv=3)
    plain = cross_validate(
        model, SPURIOUS.X, SPURIOUS.y, scoring=worst_group_scorer(), params={"groups": SPURIOUS.groups}, cv=3
    )
    np.testing.assert_allclose(found["test_score"], plain["test_score"])


def test_scores_of_the_decision_function_are_ranked_within_groups(routing):
    def auc(y_true, scores):
        return roc_auc_score(y_true, scores)

    model = LogisticRegression().fit(SPURIOUS.X, SPURIOUS.y)
    attribute = SPURIOUS.groups % 2
    scorer = worst_group_scorer(auc, response="decision_function")
    assert 0.5 < scorer(model, SPURIOUS.X, SPURIOUS.y, groups=attribute) < 1.0


def test_an_unknown_metric_is_refused_when_the_scorer_is_made(routing):
    with pytest.raises(ValueError, match="metric must be one of"):
        worst_group_scorer("auc")


def test_without_routing_scikit_learn_says_how_to_switch_it_on():
    with pytest.raises(RuntimeError, match="enable_metadata_routing"):
        worst_group_scorer()


def test_the_named_accuracy_is_scikit_learns():
    assert score_all(TRUTH, GUESS, groups=np.zeros(6)) == accuracy_score(TRUTH, GUESS)


def test_a_score_of_rankings_in_groups_of_one_class_is_refused_in_one_sentence():
    y, scores = np.arange(40) % 2, np.arange(40.0)
    with pytest.raises(
        ValueError, match="it is NaN in group '0' of 20 rows; all are of one class, and a ranking needs"
    ):
        worst_group_score(y, scores, groups=y, metric=roc_auc_score, min_group_size=5)
