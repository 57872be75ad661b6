"""Samples by their numbers add up to full passes."""

import numpy as np
import pytest
import scipy.sparse

import xrisk
from tests.conftest import table
from xrisk.inner import exact_values, exact_vjp, inner_count, inner_size
from xrisk.inner.oracle import sample_range, sample_share, sample_slopes, sample_vjp
from xrisk.inner.passes import score_count

X, Y, GROUPS = table(n=60)
WEIGHTS = 0.5 + np.random.default_rng(1).random(60)
MEMBERS = np.stack([np.ones(60, dtype=bool), GROUPS < 3], axis=1)
INNERS = {
    "dense": xrisk.group_dro(X, Y, GROUPS),
    "in order": xrisk.group_dro(X, Y, np.sort(GROUPS)),
    "sparse": xrisk.group_dro(scipy.sparse.csr_matrix(np.where(X > 0.3, X, 0.0)), Y, GROUPS),
    "overlapping": xrisk.group_dro(X, Y, MEMBERS),
    "weighted": xrisk.group_dro(X, Y, GROUPS, sample_weight=WEIGHTS),
    "intercept": xrisk.group_dro(X, Y, GROUPS, fit_intercept=True),
    "classes": xrisk.group_dro(X, np.where(X[:, 2] > 0.5, 2, Y > 0), GROUPS, loss="multinomial"),
}

each = pytest.mark.parametrize("inner", [problem.inner for problem in INNERS.values()], ids=list(INNERS))


@each
def test_samples_add_up_to_a_full_pass(inner):
    n, w = inner_count(inner), np.random.default_rng(0).standard_normal(inner_size(inner))
    y = np.arange(1.0, n + 1.0)
    u, grad, slopes = np.zeros((n, 1)), np.zeros(w.size), np.empty(score_count(inner))
    for i in range(n):
        for p in range(*sample_range(inner, i)):
            u[i] += sample_share(inner, i, p) * sample_slopes(inner, p, w, slopes)
            sample_vjp(inner, p, slopes, y[i] * sample_share(inner, i, p), grad)
    values, full = np.empty((n, 1)), np.zeros(w.size)
    exact_values(inner, w, values)
    exact_vjp(inner, w, y[:, None], full)
    np.testing.assert_allclose(u, values, rtol=1e-12)
    np.testing.assert_allclose(grad, full, rtol=1e-10, atol=1e-12)


@each
def test_shares_sum_to_one(inner):
    for i in range(inner_count(inner)):
        assert sum(sample_share(inner, i, p) for p in range(*sample_range(inner, i))) == pytest.approx(1.0, rel=1e-12)
