"""Losses of pairs in the tail: values and subgradients against brute force, ties among them."""

import signal
import tracemalloc

import numpy as np
import pytest

import xrisk
from tests.conftest import table
from tests.drawing import drawn
from xrisk.data.threads import Interrupted, interruptible
from xrisk.functions import ExponentialLoss, HingeLoss, Logistic, SmoothedHinge, Squared, SquaredHinge
from xrisk.functions.loss import loss_slope, loss_value
from xrisk.inner import Pairs, Tail, as_rows, exact_values, exact_vjp, inner_samples, new_batch, pair_passes
from xrisk.inner.passes import add_hessian, column_sizes, jacobian, scores_at, scores_only
from xrisk.inner.sorted_pairs import pair_terms
from xrisk.inner.tail import corner, tail_of, top_weights
from xrisk.inner.visitors import SmoothedTerms

LOSSES = [HingeLoss(), SquaredHinge(), Logistic(), ExponentialLoss(), SmoothedHinge(0.5)]
X, Y, _ = table(n=60)
ABOVE, BELOW = np.flatnonzero(Y > 0), np.flatnonzero(Y < 0)
W = np.array([0.3, -0.2, 0.5, 0.1])
AHEAD, BEHIND = np.array([0.9, 0.4, 0.6, 0.2, 0.8]), np.array([0.1, 0.7, 0.3, 0.5, 0.2, 0.05])
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=str)


def tail(loss, top=5, side=1.0):
    return Tail(Pairs(as_rows(X), ABOVE, BELOW, loss, side), top)


def values(g, w):
    out = np.empty((g.pairs.outer.size, 1))
    exact_values(g, w, out)
    return out[:, 0]


def gradient(g, w, y):
    grad = np.zeros(w.size)
    exact_vjp(g, w, y[:, None], grad)
    return grad


def losses(loss, ahead, behind):
    """ℓ of all pairs, and their slopes."""
    margins = np.subtract.outer(ahead, behind)
    return np.vectorize(lambda t: loss_value(loss, t, 1.0))(margins), np.vectorize(lambda t: loss_slope(loss, t, 1.0))(
        margins
    )


@every_loss
@pytest.mark.parametrize("side", [1.0, -1.0])
@pytest.mark.parametrize("top", [1, 5, BELOW.size])
def test_values_are_means_of_the_largest_losses(loss, side, top):
    s = side * X @ W
    expected = np.sort(losses(loss, s[ABOVE], s[BELOW])[0], axis=1)[:, -top:].mean(axis=1)
    np.testing.assert_allclose(values(tail(loss, top, side), W), expected, rtol=1e-12)


@every_loss
def test_gradients_are_those_of_the_values(loss):
    g, y, h = tail(loss), np.linspace(0.5, 2.0, ABOVE.size), 1e-6
    slopes = [(y @ values(g, W + e) - y @ values(g, W - e)) / (2 * h) for e in h * np.eye(4)]
    np.testing.assert_allclose(gradient(g, W, y), slopes, rtol=1e-6)


@every_loss
@pytest.mark.parametrize("w", [np.zeros(4), np.array([1.0, 0.0, 0.0, 0.0])], ids=["all tie", "many tie"])
def test_where_rows_tie_it_is_a_subgradient(loss, w):
    rounded = tail(loss)._replace(pairs=Pairs(as_rows(np.round(X)), ABOVE, BELOW, loss))
    y, others = np.ones(ABOVE.size), np.random.default_rng(0).standard_normal((50, 4))
    here, slope = values(rounded, w).sum(), gradient(rounded, w, y)
    gaps = [values(rounded, other).sum() - here - slope @ (other - w) for other in others]
    assert min(gaps) >= -1e-10 * here


def test_where_all_tie_the_gradient_is_that_of_the_means():
    g, y = tail(HingeLoss()), np.full(ABOVE.size, 1.0 / ABOVE.size)
    np.testing.assert_allclose(gradient(g, np.zeros(4), y), X[BELOW].mean(axis=0) - X[ABOVE].mean(axis=0), rtol=1e-12)


def random_scores(seed):
    """Scores of few values, so that many tie, and how many of either side count."""
    rng = np.random.default_rng(seed)
    n, m = rng.integers(1, 9, 2)
    ahead, behind = rng.integers(-3, 4, n) / 2.0, rng.integers(-3, 4, m) / 2.0
    if seed % 3 == 0:
        ahead, behind = rng.standard_normal(n), rng.standard_normal(m)
    low, top = rng.integers(1, n + 1), rng.integers(1, m + 1)
    return ahead, behind, (low, top) if seed % 2 else (rng.uniform(1, n), rng.uniform(1, m))


def error(loss, seed):
    """How far the corner is from Σ qᵢ pⱼ ℓᵢⱼ over all pairs, with the worst weights, and from its slopes."""
    ahead, behind, sizes = random_scores(seed)
    values, slopes = losses(loss, ahead, behind)
    q, p = top_weights(-ahead, sizes[0]), top_weights(behind, sizes[1])
    worst = largest_mean(np.array([largest_mean(row, sizes[1]) for row in values]), sizes[0])
    found, size = corner(loss, ahead, behind, *sizes), 1.0 + worst
    off = [found.value - worst, *(found.up - q * (slopes @ p)), *(found.down - p * (q @ slopes))]
    return float(np.abs(off).max()) / size


def largest_mean(u, size):
    """CVaR of u by its definition."""
    top, whole = np.sort(u)[::-1], int(np.floor(size + 1e-12))
    rest = (size - whole) * top[whole] if whole < u.size else 0.0
    return (top[:whole].sum() + rest) / size


@every_loss
@pytest.mark.parametrize("first", range(0, 1000, 200))
def test_the_corner_is_the_worst_case_over_all_pairs(loss, first):
    assert max(error(loss, seed) for seed in range(first, first + 200)) < 1e-13


@every_loss
@pytest.mark.parametrize("seed", range(20))
def test_at_kinks_both_sides_count_the_same_pairs(loss, seed):
    rng = np.random.default_rng(seed)
    ahead, behind = rng.integers(0, 30, 40) * 0.1, rng.integers(0, 30, 50) * 0.1  # margins of 1 up to rounding
    found = corner(loss, ahead, behind, 17, 23.5)
    assert found.up.sum() == pytest.approx(found.down.sum(), rel=1e-13)


def test_the_corner_has_the_known_values_and_slopes_of_hinges_with_margin_one_half():
    hinge, square = (corner(loss, 2 * AHEAD, 2 * BEHIND, 2, 3) for loss in (HingeLoss(), SquaredHinge()))
    assert (0.5 * hinge.value, 0.25 * square.value) == pytest.approx((0.7, 0.526666666667))
    np.testing.assert_allclose(hinge.up, [0, -0.5, 0, -0.5, 0])
    np.testing.assert_allclose(hinge.down, [0, -1 / 3, -1 / 3, -1 / 3, 0, 0])
    np.testing.assert_allclose(0.5 * square.up, [0, -0.6, 0, -0.8, 0])
    np.testing.assert_allclose(0.5 * square.down, [0, -0.6, -1 / 3, -7 / 15, 0, 0], rtol=1e-12)


@pytest.mark.parametrize(("loss", "scale", "value"), [(HingeLoss(), 0.5, 0.69), (SquaredHinge(), 0.25, 0.519333333333)])
def test_the_corner_counts_rows_in_part(loss, scale, value):
    assert scale * corner(loss, 2 * AHEAD, 2 * BEHIND, 0.5 * 5, 0.4 * 6).value == pytest.approx(value)


def test_a_common_offset_costs_no_digits_but_those_of_the_scores():
    near = corner(SquaredHinge(), AHEAD, BEHIND, 2, 3).value
    assert corner(SquaredHinge(), AHEAD + 2.0**30, BEHIND + 2.0**30, 2, 3).value == pytest.approx(near, rel=1e-6)


@pytest.mark.parametrize("size", [1, 2, 2.5, 3.999, 4])
def test_weights_sum_to_one_below_their_cap(size):
    weights = top_weights(np.array([1.0, 2.0, 2.0, 5.0]), size)
    assert weights.sum() == pytest.approx(1.0, rel=1e-15)
    assert weights.max() <= 1.0 / size * (1 + 1e-15)


def test_a_pass_takes_room_for_rows_and_not_for_pairs():
    rng = np.random.default_rng(0)
    g = Tail(
        Pairs(as_rows(rng.standard_normal((11_000, 2))), np.arange(1000), np.arange(1000, 11_000), HingeLoss()), 5000
    )
    gradient(g, np.ones(2), np.ones(1000))
    tracemalloc.start()
    gradient(g, np.ones(2), np.ones(1000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100 * 11_000  # bytes; the pairs would take 80 MB


def test_samples_are_rows_of_the_other_side():
    g = tail(HingeLoss())
    rows = drawn(g, 0, np.random.default_rng(0), new_batch(g, 500)).rows
    assert set(rows) == set(BELOW)


def test_a_full_pass_is_of_all_pairs():
    assert inner_samples(tail(HingeLoss())) == ABOVE.size * BELOW.size


def test_a_tail_of_all_rows_is_the_pairs_themselves():
    pairs = tail(HingeLoss()).pairs
    assert tail_of(pairs, BELOW.size) is pairs


@pytest.mark.parametrize(
    ("inner", "message"),
    [
        (tail(HingeLoss(), 0), "top must be a whole number from 1 to .*, got 0"),
        (tail(HingeLoss(), BELOW.size + 1), "top must be a whole number from 1 to"),
        (tail(HingeLoss(), True), "top must be a whole number .* got True"),
        (tail(Squared()), "loss must not increase with the margin, and say so by loss_domain, got Squared"),
    ],
)
def test_what_is_no_tail_is_refused(inner, message):
    with pytest.raises(ValueError, match=message):
        xrisk.Problem(inner, xrisk.functions.CVaRRisk(0.5)).check()


@pytest.mark.parametrize("solver", [xrisk.solvers.ALEXR(), xrisk.solvers.SOX()], ids=["alexr", "sox"])
def test_methods_of_batches_say_that_a_batch_is_no_estimate(solver):
    problem = xrisk.Problem(tail(HingeLoss()), xrisk.functions.CVaRRisk(0.5), xrisk.functions.L2(0.1))
    with pytest.raises(ValueError, match="needs inner functions of which the mean of a batch is an estimate"):
        xrisk.minimize(problem, solver, budget=xrisk.Budget(iterations=1))


def test_the_square_is_that_of_the_worst_pairs_where_no_margin_is_above_one():
    """Any offset of the scores: nothing cancels."""
    rng = np.random.default_rng(0)
    ahead, behind = rng.uniform(0.0, 0.5, 9) + 1e6, rng.uniform(0.0, 0.5, 13) + 1e6
    found = corner(Squared(), ahead, behind, 4, 5)
    of_pairs = np.sort(losses(Squared(), ahead, behind)[0], axis=1)[:, -5:].mean(axis=1)
    assert found.value == pytest.approx(np.sort(of_pairs)[-4:].mean(), rel=1e-9)


def test_the_slopes_of_the_square_are_those_of_its_value():
    rng, h = np.random.default_rng(1), 1e-6
    scores = rng.uniform(0.0, 0.5, 12)

    def value(scores):
        return corner(Squared(), scores[:5], scores[5:], 2.5, 3.5).value

    found = corner(Squared(), scores[:5], scores[5:], 2.5, 3.5)
    slopes = [(value(scores + e) - value(scores - e)) / (2 * h) for e in h * np.eye(12)]
    np.testing.assert_allclose(np.append(found.up, -found.down), slopes, atol=1e-8)


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("g", [tail(Logistic(), BELOW.size), tail(Logistic()).pairs], ids=["tail", "pairs"])
def test_a_pass_gives_way_within_bounded_work(g, monkeypatch):
    """However many pairs there are: it asks before every few of them whether to go on."""
    monkeypatch.setattr("xrisk.inner.sorted_pairs.WORK", 4 * BELOW.size)
    monkeypatch.setattr("xrisk.inner.pair_passes.CHUNK", 4 * BELOW.size)
    asked = []
    with interruptible(lambda: asked.append(1)):
        out = np.empty((ABOVE.size, 1))
        exact_values(g, W, out)
    assert len(asked) >= ABOVE.size / 4
    with pytest.raises(Interrupted), interruptible(lambda: True):
        exact_values(g, W, out)


def curvature_pass(g):
    add_hessian(g, SmoothedTerms(1.0), scores_only(g, scores_at(g, W)), np.ones(ABOVE.size), np.ones(2), np.eye(4))


def gradients_pass(g):
    jacobian(g, SmoothedTerms(1.0), scores_only(g, scores_at(g, W)))


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize(
    ("made", "loss", "least"),
    [
        (curvature_pass, Logistic(), ABOVE.size / 4),
        (gradients_pass, Logistic(), ABOVE.size / 4),
        (column_sizes, Logistic(), 2),
        (lambda g: pair_passes._gap_sums(g, (X @ W)[:, None]), HingeLoss(), 1),
        (lambda g: pair_terms(g.loss, AHEAD, BEHIND, np.ones(5), np.ones(6)), HingeLoss(), 2),
    ],
    ids=["curvature", "gradients", "sizes", "sorted", "sorted sums"],
)
def test_every_pass_over_pairs_gives_way(made, loss, least, monkeypatch):
    monkeypatch.setattr("xrisk.inner.pair_passes.TILE", 4 * BELOW.size)
    g, asked = tail(loss).pairs, []
    with interruptible(lambda: asked.append(1)):
        made(g)
    assert len(asked) >= least
    with pytest.raises(Interrupted), interruptible(lambda: True):
        made(g)


def test_ctrl_c_within_a_pass_over_pairs_ends_it(monkeypatch):
    """It is pressed while the pairs are walked over, and heard before the next few of them."""
    problem = xrisk.Problem(tail(Logistic()).pairs, xrisk.functions.Power(2.0), xrisk.functions.L2(0.1))
    looked, begun = pair_passes.fill_pairs, []

    def press(*arguments):
        begun.append(1)
        signal.raise_signal(signal.SIGINT)
        return looked(*arguments)

    monkeypatch.setattr(pair_passes, "fill_pairs", press)
    monkeypatch.setattr(pair_passes, "specialise", lambda kernel, *specs: kernel)
    monkeypatch.setattr(pair_passes, "CHUNK", 4 * BELOW.size)
    result = xrisk.minimize(problem, xrisk.solvers.Auto(), budget=xrisk.Budget(iterations=100))
    assert result.stop is xrisk.Stop.INTERRUPTED
    assert 1 <= len(begun) < ABOVE.size / 4


@every_loss
def test_at_zero_no_pair_is_looked_at(loss):
    with interruptible(lambda: True):
        np.testing.assert_array_equal(values(tail(loss), np.zeros(4)), loss_value(loss, 0.0, 1.0))
