"""Partial AUC against its definitions in fractions, scikit-learn, replicated rows and a model's tied scores."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from tests.reference import partial_auc as reference
from xrisk.datasets import find_file
from xrisk.metrics import partial_auc_score, roc_region

LOGITS = find_file("nih_cxr14_logits.npz")
REGIONS = [(0.0, 1.0), (0.5, 0.5), (0.3, 0.7), (0.0, 0.3), (0.7, 1.0), (0.85, 0.05)]
A, B = [0.9, 0.4, 0.6, 0.2, 0.8], [0.1, 0.7, 0.3, 0.5, 0.2, 0.05]


def labelled(pos, neg):
    return [1] * len(pos) + [0] * len(neg), [*pos, *neg]


def tied_rows(seed, n_most=14):
    """A few rows with many ties, both classes among them, and a region; every third border falls on a whole number."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, n_most))
    y = rng.random(n) < rng.random()
    y[:2] = [True, False]
    score = rng.integers(0, rng.integers(1, 12), n).astype(float)
    min_tpr, max_fpr = rng.choice([0.0, 0.25, 0.5, rng.random()]), rng.choice([1.0, 0.25, 0.5, 1.0 - rng.random()])
    return y, score, float(min_tpr), float(max_fpr)


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    y = (rng.random(300) < 0.3).astype(int)
    return y, np.round(y + rng.standard_normal(300), 1)


def enclosed(polygon):
    x, t = polygon.T
    return abs(np.sum(x * np.roll(t, -1) - np.roll(x, -1) * t)) / 2.0


VECTORS = [
    (0.4, 0.5, 1 / 6),
    (0.8, 2 / 3, 0.59375),
    (1.0, 0.5, 0.6),
    (0.6, 1.0, 23 / 36),
]  # 1 − min_tpr, max_fpr, value


@pytest.mark.parametrize(("theta0", "max_fpr", "value"), VECTORS)
def test_counts_have_the_values_worked_out_by_hand(theta0, max_fpr, value):
    y, score = labelled(A, B)
    found = partial_auc_score(y, score, min_tpr=1 - theta0, max_fpr=max_fpr, method="counts")
    assert found == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize("chunk", range(10))
def test_the_area_is_that_of_the_definition(chunk):
    for seed in range(300 * chunk, 300 * (chunk + 1)):
        y, score, min_tpr, max_fpr = tied_rows(seed)
        found = partial_auc_score(y, score, min_tpr=min_tpr, max_fpr=max_fpr)
        assert found == pytest.approx(reference.area(score[y], score[~y], min_tpr, max_fpr), abs=1e-13), seed


def test_counts_are_those_of_the_definition():
    for seed in range(2000):
        y, score, *_ = tied_rows(seed)
        rng = np.random.default_rng(seed)
        k1, k2 = int(rng.integers(1, y.sum() + 1)), int(rng.integers(1, (~y).sum() + 1))
        region = {"min_tpr": 1 - k1 / y.sum(), "max_fpr": k2 / (~y).sum()}
        found = partial_auc_score(y, score, **region, method="counts")
        assert found == pytest.approx(reference.counts(score[y], score[~y], k1, k2), abs=1e-13), seed


def test_area_and_counts_agree_at_whole_numbers_without_ties():
    rng = np.random.default_rng(0)
    y, score = np.arange(50) % 5 == 0, rng.standard_normal(50)
    regions = [(k1 / 10, k2 / 40) for k1 in range(10) for k2 in range(1, 41)]
    area = [partial_auc_score(y, score, min_tpr=m, max_fpr=f) for m, f in regions]
    counts = [partial_auc_score(y, score, min_tpr=m, max_fpr=f, method="counts") for m, f in regions]
    np.testing.assert_allclose(area, counts, atol=1e-13)


def test_whole_weights_are_repeated_rows():
    for seed in range(1000):
        y, score, min_tpr, max_fpr = tied_rows(seed)
        weight = np.random.default_rng(seed).integers(0, 4, len(y))
        weight[:2] += 1
        again = np.repeat(np.arange(len(y)), weight)
        weighted = partial_auc_score(y, score, min_tpr=min_tpr, max_fpr=max_fpr, sample_weight=weight)
        repeated = partial_auc_score(y[again], score[again], min_tpr=min_tpr, max_fpr=max_fpr)
        assert weighted == pytest.approx(repeated, abs=1e-13), seed


def test_weights_have_the_area_of_the_definition():
    for seed in range(500):
        y, score, min_tpr, max_fpr = tied_rows(seed)
        weight = np.random.default_rng(seed).random(len(y))
        found = partial_auc_score(y, score, min_tpr=min_tpr, max_fpr=max_fpr, sample_weight=weight)
        exact = reference.area(score[y], score[~y], min_tpr, max_fpr, list(weight[y]), list(weight[~y]))
        assert found == pytest.approx(exact, abs=1e-12), seed


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_the_scale_of_weights_does_not_matter(table, scale):
    weight = np.random.default_rng(0).random(300)
    region = {"min_tpr": 0.3, "max_fpr": 0.4}
    same = partial_auc_score(*table, **region, sample_weight=weight)
    assert partial_auc_score(*table, **region, sample_weight=weight * scale) == pytest.approx(same, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
def test_mcclish_is_what_scikit_learn_gives(weighted):
    for seed in range(300):
        y, score, _, max_fpr = tied_rows(seed, 40)
        weight = np.random.default_rng(seed).random(len(y)) if weighted else None
        ours = partial_auc_score(y, score, max_fpr=max_fpr, method="mcclish", sample_weight=weight)
        theirs = roc_auc_score(y, score, max_fpr=max_fpr, sample_weight=weight)
        assert ours == pytest.approx(theirs, abs=1e-12), seed


@pytest.mark.parametrize("method", ["area", "counts", "mcclish"])
def test_the_whole_plane_gives_the_auc(table, method):
    assert partial_auc_score(*table, method=method) == pytest.approx(roc_auc_score(*table), abs=1e-13)


@pytest.mark.parametrize(("min_tpr", "max_fpr"), REGIONS)
def test_perfect_is_one_and_reversed_is_zero(min_tpr, max_fpr):
    y = np.arange(40) >= 20
    region = {"min_tpr": min_tpr, "max_fpr": max_fpr}
    assert partial_auc_score(y, np.arange(40), **region) == 1.0
    assert partial_auc_score(y, -np.arange(40), **region) == 0.0


def test_one_score_for_all_has_the_area_under_the_diagonal():
    found = partial_auc_score([1, 0, 0], [2, 2, 2], min_tpr=0.2, max_fpr=0.6)  # a triangle of side 0.4
    assert found == pytest.approx(0.08 / (0.8 * 0.6))


def test_a_tie_across_both_borders_is_cut_by_both():
    y, score = [1, 1, 0, 0, 1, 0], [3, 2, 2, 2, 2, 1]  # a line from (0, 1/3) to (2/3, 1)
    found = partial_auc_score(y, score, min_tpr=0.5, max_fpr=0.5)  # from (1/6, 1/2) to (1/2, 5/6)
    assert found == pytest.approx((1 / 3) ** 2 / 2 / 0.25)


@given(st.floats(0.0, 0.99), st.floats(0.01, 1.0), st.floats(0.0, 1e-9))
def test_the_area_is_continuous_in_its_borders(min_tpr, max_fpr, shift):
    y, score = np.arange(30) % 3 == 0, np.random.default_rng(0).integers(0, 6, 30)
    here = partial_auc_score(y, score, min_tpr=min_tpr, max_fpr=max_fpr)
    there = partial_auc_score(y, score, min_tpr=max(0.0, min_tpr - shift), max_fpr=max(0.01, max_fpr - shift))
    assert there == pytest.approx(here, abs=1e-5)


@pytest.mark.parametrize(
    ("min_tpr", "max_fpr"), [(np.nextafter(1.0, 0.0), 1.0), (0.0, 5e-324), (np.nextafter(1.0, 0.0), 5e-324)]
)
def test_a_sliver_has_a_score_in_the_unit_interval(table, min_tpr, max_fpr):
    assert 0.0 <= partial_auc_score(*table, min_tpr=min_tpr, max_fpr=max_fpr) <= 1.0
    assert 0.0 <= partial_auc_score(*table, min_tpr=min_tpr, max_fpr=max_fpr, sample_weight=np.ones(300)) <= 1.0


@pytest.mark.parametrize(("min_tpr", "max_fpr"), REGIONS)
def test_only_the_order_of_scores_counts(table, min_tpr, max_fpr):
    y, score = table
    region = {"min_tpr": min_tpr, "max_fpr": max_fpr}
    assert partial_auc_score(y, np.exp(score), **region) == partial_auc_score(y, score, **region)


def test_turning_classes_and_scores_round_turns_the_borders_round(table):
    y, score = table
    turned = partial_auc_score(y, -score, min_tpr=0.6, max_fpr=0.7, pos_label=0)
    assert turned == pytest.approx(partial_auc_score(y, score, min_tpr=0.3, max_fpr=0.4), abs=1e-13)


@pytest.mark.skipif(LOGITS is None, reason="no nih_cxr14_logits.npz in XRISK_DATA or ../shared/data")
@pytest.mark.parametrize("label", [0, 6, 13])
def test_tied_scores_of_a_real_model(label):
    stored = np.load(LOGITS)
    y, score = stored["labels"][:, label], stored["logits"][:, 0, label]  # half precision: thousands of ties
    wide = score.astype(np.float64)
    assert len(np.unique(score)) < len(score) / 2
    mcclish = partial_auc_score(y, score, max_fpr=0.1, method="mcclish")
    assert mcclish == pytest.approx(roc_auc_score(y, wide, max_fpr=0.1), abs=1e-12)
    for min_tpr, max_fpr in REGIONS:
        area = partial_auc_score(y, score, min_tpr=min_tpr, max_fpr=max_fpr)
        assert area == pytest.approx(roc_region(y, score, min_tpr=min_tpr, max_fpr=max_fpr).score, abs=1e-12)
        counts = partial_auc_score(y, score, min_tpr=min_tpr, max_fpr=max_fpr, method="counts")
        assert counts == pytest.approx(area, abs=0.01)


FORMS = {
    "lists": lambda y, s: (y.tolist(), s.tolist()),
    "−1 and 1": lambda y, s: (2 * y - 1, s),
    "booleans": lambda y, s: (y == 1, s),
    "strings": lambda y, s: (np.where(y == 1, "sick", "healthy"), s),
    "objects": lambda y, s: (np.where(y == 1, "sick", "healthy").astype(object), s.astype(object)),
    "columns": lambda y, s: (y[:, None], s[:, None]),
    "pandas": lambda y, s: (pd.Series(y), pd.DataFrame({"s": s})),
    "whole numbers": lambda y, s: (y, np.round(s * 10).astype(int)),
    "unsigned": lambda y, s: (y, np.round(s * 10 + 100).astype(np.uint8)),
    "half precision": lambda y, s: (y, s.astype(np.float16)),
    "single precision": lambda y, s: (y, s.astype(np.float32)),
    "extended precision": lambda y, s: (y, s.astype(np.longdouble)),
    "the other byte order": lambda y, s: (y, s.astype(s.dtype.newbyteorder())),
    "every other of a longer array": lambda y, s: (np.repeat(y, 2)[::2], np.repeat(s, 2)[::2]),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_labels_and_scores_come_in_many_forms(table, form):
    found = partial_auc_score(*form(*table), min_tpr=0.3, max_fpr=0.4)
    assert found == partial_auc_score(*table, min_tpr=0.3, max_fpr=0.4)


def test_arguments_stay_as_they_are(table):
    y, score, weight = *table, np.ones(300)
    for array in (y, score, weight):
        array.flags.writeable = False
    for region in ({"min_tpr": 0.3}, {"max_fpr": 0.3}, {"method": "counts"}, {"sample_weight": weight}):
        assert 0.0 < partial_auc_score(y, score, **region) < 1.0


def test_whole_numbers_too_long_for_floats_are_told_apart():
    assert partial_auc_score([1, 0], [2**53 + 1, 2**53]) == 1.0


@pytest.mark.parametrize("number", [np.float32, np.float64, Fraction])
def test_borders_may_be_numbers_of_any_kind(table, number):
    found = partial_auc_score(*table, min_tpr=number(0.25), max_fpr=number(0.375))
    assert found == partial_auc_score(*table, min_tpr=0.25, max_fpr=0.375)
    assert type(found) is float


def test_infinite_scores_are_the_first_and_the_last():
    y, score = [1, 0, 1, 0], [np.inf, 1.0, -np.inf, -np.inf]
    assert partial_auc_score(y, score) == partial_auc_score(y, [3, 2, 1, 1])
    assert partial_auc_score(y, score, min_tpr=0.6, max_fpr=0.9) == partial_auc_score(
        y, [3, 2, 1, 1], min_tpr=0.6, max_fpr=0.9
    )


def test_the_label_of_positives_can_be_named():
    assert partial_auc_score(["good", "ill"], [1.0, 0.0], pos_label="good") == 1.0


WRONG = {
    "y_score must hold no NaN, got 1 of them": dict(y_score=[0.1, np.nan, 0.3, 0.2]),
    "y_score must be numbers, got dtype": dict(y_score=["a", "b", "c", "d"]),
    "y_score must be numbers, got dtype complex": dict(y_score=[1j, 2, 3, 4]),
    "y_score must be numbers, got array": dict(y_score=np.array([1, None, "x", 2], dtype=object)),
    "y_score must have one value for each row, got shape .* pass that of the positive": dict(y_score=np.ones((4, 2))),
    "y_score must have one value for each row, got shape \\(\\)": dict(y_score=3.0),
    "y_score must have one value for each row, got rows of several lengths": dict(y_score=[[1], [1, 2], [1], [1]]),
    "y_score must have a value in every row": dict(y_score=np.ma.masked_array([1.0, 2, 3, 4], mask=[1, 0, 0, 0])),
    "must be of one length, got 4 and 3 rows": dict(y_score=[1, 2, 3]),
    "at least one row of each class, got no rows": dict(y_true=[], y_score=[]),
    "y_true must have exactly two classes, got 1 alone": dict(y_true=[1, 1, 1, 1]),
    "y_true must have exactly two classes, got 0, 1, 2": dict(y_true=[0, 1, 2, 1]),
    "y_true must have exactly two classes, got 'a', 'b', 'c'": dict(y_true=["a", "b", "c", "a"]),
    "y_true must hold no NaN": dict(y_true=[0, 1, np.nan, 1]),
    "y_true must have labels of one kind": dict(y_true=np.array([0, "a", 0, "a"], dtype=object)),
    "pos_label must be one of the classes 0 and 1 of y_true, got 2": dict(pos_label=2),
    "min_tpr must be in \\[0, 1\\), got 1.0": dict(min_tpr=1.0),
    "min_tpr must be in \\[0, 1\\), got -0.1": dict(min_tpr=-0.1),
    "min_tpr must be in \\[0, 1\\), got nan": dict(min_tpr=np.nan),
    "max_fpr must be in \\(0, 1\\], got 0": dict(max_fpr=0),
    "max_fpr must be in \\(0, 1\\], got 1.5": dict(max_fpr=1.5),
    "max_fpr must be in \\(0, 1\\], got '0.5'": dict(max_fpr="0.5"),
    "method must be one of area, counts, mcclish, got 'trapezoid'": dict(method="trapezoid"),
    "min_tpr must be 0 for method='mcclish'": dict(method="mcclish", min_tpr=0.5),
    "min_tpr must leave a positive below it for method='counts', got 0.9": dict(method="counts", min_tpr=0.9),
    "max_fpr must leave a negative below it for method='counts', got 0.1": dict(method="counts", max_fpr=0.1),
    "sample_weight must be None for method='counts'": dict(method="counts", sample_weight=[1, 1, 1, 1]),
    "sample_weight must be positive somewhere in both classes": dict(sample_weight=[0, 1, 0, 1]),
    "sample_weight must be finite and non-negative": dict(sample_weight=[1, -1, 1, 1]),
}


@pytest.mark.parametrize("message", WRONG)
def test_what_is_wrong_is_said_in_a_sentence(message):
    arguments = {"y_true": [0, 1, 0, 1], "y_score": [0.1, 0.4, 0.3, 0.2]} | WRONG[message]
    with pytest.raises(ValueError, match=message):
        partial_auc_score(**arguments)


@pytest.mark.parametrize(("min_tpr", "max_fpr"), REGIONS)
@pytest.mark.parametrize("decimals", [1, 12])
def test_the_polygon_encloses_the_score(min_tpr, max_fpr, decimals):
    rng = np.random.default_rng(0)
    y = rng.random(40_000) < 0.2
    score = np.round(1.5 * y + rng.standard_normal(40_000), decimals)
    region = roc_region(y, score, min_tpr=min_tpr, max_fpr=max_fpr)
    assert region.score == pytest.approx(partial_auc_score(y, score, min_tpr=min_tpr, max_fpr=max_fpr), abs=1e-12)
    assert enclosed(region.polygon) / ((1 - min_tpr) * max_fpr) == pytest.approx(region.score, abs=1e-11)
    assert np.trapezoid(region.tpr, region.fpr) == pytest.approx(roc_auc_score(y, score), abs=1e-12)


def test_a_long_curve_is_thinned_and_still_rises():
    rng = np.random.default_rng(0)
    y = rng.random(40_000) < 0.5
    score = np.where(rng.random(40_000) < 0.3, 0.5, y + rng.standard_normal(40_000))  # one long line among short ones
    region, full = roc_region(y, score), roc_region(y, np.round(score, 2))
    assert len(full.fpr) < len(region.fpr) < 2010
    assert min(np.diff(region.fpr).min(), np.diff(region.tpr).min()) >= 0.0
    assert [*region.fpr[[0, -1]], *region.tpr[[0, -1]]] == [0.0, 1.0, 0.0, 1.0]
    np.testing.assert_allclose(np.interp(full.fpr[::7], region.fpr, region.tpr), full.tpr[::7], atol=0.01)


def test_a_curve_that_misses_the_region_has_no_polygon():
    region = roc_region([0, 0, 1, 1], [4, 3, 2, 1], min_tpr=0.5, max_fpr=0.5)
    assert (region.score, region.polygon.shape) == (0.0, (0, 2))


def test_a_region_takes_weights(table):
    weight = np.random.default_rng(0).integers(0, 3, 300)
    again = np.repeat(np.arange(300), weight)
    weighted = roc_region(*table, min_tpr=0.2, max_fpr=0.4, sample_weight=weight)
    repeated = roc_region(table[0][again], table[1][again], min_tpr=0.2, max_fpr=0.4)
    np.testing.assert_allclose(weighted.polygon, repeated.polygon, atol=1e-13)
