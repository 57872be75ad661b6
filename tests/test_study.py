"""Three models on one table, trained alike and judged by one rule."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import xrisk
from xrisk.datasets import make_spurious
from xrisk.study import compare
from xrisk.tables import parts


@pytest.fixture(scope="module")
def rows():
    table = make_spurious(600, random_state=0)
    return parts(table.X, table.y, table.groups)


@pytest.fixture(scope="module")
def study(rows):
    return compare(xrisk.GroupDROClassifier(alpha=0.5, l2=1e-2, random_state=0), *rows)


def test_the_plain_model_is_logistic_regression(study, rows):
    train, _ = rows
    known = LogisticRegression(C=1.0 / (1e-2 * train.y.size), tol=1e-8).fit(train.X, train.y)
    np.testing.assert_allclose(study.arms[0].model.coef_, known.coef_, atol=0.02)


def test_the_reweighted_model_is_logistic_regression_with_the_groups_weighted_alike(study, rows):
    train, _ = rows
    _, codes, counts = np.unique(train.groups, return_inverse=True, return_counts=True)
    weight = 1.0 / counts[codes]
    known = LogisticRegression(C=1.0 / (1e-2 * weight.sum()), tol=1e-8).fit(train.X, train.y, sample_weight=weight)
    np.testing.assert_allclose(study.arms[1].model.coef_, known.coef_, atol=0.05)


def test_the_worst_group_fares_better_under_the_robust_model(study):
    assert study.robust.worst.score > study.arms[0].worst.score + 0.1


def test_the_bounds_enclose_the_certified_optimum(study):
    proof = study.robust.model.certificate_
    assert all(point.bound <= proof.primal and point.value >= proof.dual for point in study.bounds)
    assert np.all(np.diff([point.seconds for point in study.bounds]) >= 0)


def test_of_several_strengths_each_model_gets_the_best_on_its_worst_group():
    table = make_spurious(600, random_state=0)
    rows = parts(table.X, table.y, table.groups)
    model = xrisk.GroupDROClassifier(alpha=0.5, random_state=0)
    chosen = compare(model, *rows, l2=(1e-3, 10.0))
    alone = [compare(model, *rows, l2=(l2,)) for l2 in (1e-3, 10.0)]
    for k in range(3):
        assert chosen.arms[k].worst.score == max(each.arms[k].worst.score for each in alone)
