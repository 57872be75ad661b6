"""Two-way partial AUC: the formula, its limits, and what is refused."""

import numpy as np
import pytest
import scipy.sparse

from tests.applications.test_ranking import LOSSES, NEGATIVE, POSITIVE, W, X, Y, every_loss
from xrisk.applications import partial_auc, two_way_partial_auc


def stated(**options):
    return two_way_partial_auc(X, Y, **{"min_tpr": 0.5, "max_fpr": 0.3, **options})


@every_loss
def test_the_value_is_the_mean_over_the_lowest_positives_and_the_highest_negatives(loss):
    s, top = np.sort(POSITIVE @ W), np.sort(NEGATIVE @ W)[::-1]
    low, high = s[: s.size // 2], top[: int(0.3 * top.size + 1e-9)]
    assert stated(loss=loss).value(W) == pytest.approx(LOSSES[loss](low[:, None] - high).mean(), rel=1e-12)


@every_loss
def test_with_all_negatives_it_is_the_partial_auc(loss):
    one, other = stated(max_fpr=1.0, loss=loss, l2=0.1), partial_auc(X, Y, min_tpr=0.5, loss=loss, l2=0.1)
    assert type(one.inner) is type(other.inner)
    assert one.value(W) == other.value(W)


@pytest.mark.parametrize("share", [1 / NEGATIVE.shape[0], 0.3, 0.7])
def test_a_share_of_whole_rows_counts_them(share):
    assert stated(max_fpr=share).inner.top == int(np.floor(NEGATIVE.shape[0] * share + 1e-9))


def test_storage_does_not_matter():
    dense, sparse = stated(), two_way_partial_auc(scipy.sparse.csr_matrix(X), Y, min_tpr=0.5, max_fpr=0.3)
    assert sparse.value(W) == pytest.approx(dense.value(W), rel=1e-13)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"min_tpr": 1.0}, ValueError, r"min_tpr must lie in \[0, 1\), got 1.0"),
        ({"min_tpr": 0.999}, ValueError, "min_tpr must be at most .* none would be left to rank"),
        ({"max_fpr": 0.0}, ValueError, r"max_fpr must lie in \(0, 1\], got 0.0"),
        ({"max_fpr": 1.5}, ValueError, r"max_fpr must lie in \(0, 1\], got 1.5"),
        (
            {"max_fpr": 0.001},
            ValueError,
            "max_fpr must be at least .* negatives, got 0.001: none would be left to rank",
        ),
        ({"max_fpr": "half"}, TypeError, "max_fpr must be a number, got 'half'"),
        ({"max_fpr": np.nan}, ValueError, r"max_fpr must lie in \(0, 1\], got nan"),
        ({"loss": "squared"}, ValueError, "loss must be one of logistic, hinge"),
        ({"l2": -1}, ValueError, "l2 must be finite and not negative, got -1"),
    ],
)
def test_what_is_wrong_is_said(options, error, message):
    with pytest.raises(error, match=message):
        stated(**options)
