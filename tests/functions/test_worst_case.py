"""Exact worst cases: golden values, feasible and best weights, any scale, refusals."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.functions.cases import numbers, vectors
from xrisk import worst_case

V = np.array([0.0, 1.0, 2.0, 3.0])

CHOICES = [
    {"ambiguity": "kl", "radius": 0.1},
    {"ambiguity": "kl", "radius": 1e-9},
    {"ambiguity": "kl", "radius": 5.0},
    {"ambiguity": "kl", "strength": 0.4},
    {"ambiguity": "kl", "radius": 0.3, "strength": 1e-6},
    {"ambiguity": "kl", "radius": 0.3, "strength": 2.0},
    {"ambiguity": "chi2", "radius": 0.1},
    {"ambiguity": "chi2", "radius": 1e-9},
    {"ambiguity": "chi2", "radius": 1.2},
    {"ambiguity": "chi2", "strength": 0.4},
    {"ambiguity": "chi2", "radius": 0.3, "strength": 0.1},
    {"ambiguity": "cvar", "alpha": 0.3},
    {"ambiguity": "cvar", "alpha": 1.0},
    {"ambiguity": "spectral", "spectrum": [4.0, 2.0, 1.0]},
]
every_choice = pytest.mark.parametrize("choice", CHOICES, ids=str)
every_ball = pytest.mark.parametrize("ambiguity", ["kl", "chi2"])


def masses(p, n):
    return np.full(n, 1.0 / n) if p is None else p / p.sum()


def kl(q, p):
    kept = q > 0.0
    return float((q[kept] * np.log(q[kept] / p[kept])).sum())


def chi2(q, p):
    return float(0.5 * (p * (q / p - 1.0) ** 2).sum())


def penalty(choice, q, p):
    """strength·D(q); inf outside the set, up to 1e-9."""
    divergence = {"kl": kl, "chi2": chi2}.get(choice["ambiguity"], lambda q, p: 0.0)(q, p)
    inside = divergence <= choice.get("radius", np.inf) * (1.0 + 1e-9) + 1e-14
    inside &= bool((q * choice.get("alpha", 0.0) <= p * (1.0 + 1e-9)).all())
    return choice.get("strength", 0.0) * divergence if inside else np.inf


GOLDEN = [
    ({"ambiguity": "kl", "radius": 0.1}, 1.994274121794, 2.413506095332),
    ({"ambiguity": "kl", "radius": 0.1, "strength": 0.5}, 1.944274121794, 2.413506095332),
    ({"ambiguity": "kl", "radius": 0.1, "strength": 2.0}, 1.794274121794, 2.413506095332),
    ({"ambiguity": "kl", "radius": 1.0, "strength": 1e-3}, 2.876718488760, 0.451951610467),
    ({"ambiguity": "kl", "radius": 2.0}, 3.0, 0.0),
    ({"ambiguity": "kl", "strength": 1.0}, 2.053895337441, 1.0),
    ({"ambiguity": "chi2", "radius": 0.5}, 2.577350269190, np.sqrt(0.75)),
    ({"ambiguity": "chi2", "radius": 1.4}, 2.974341649025, None),
    ({"ambiguity": "chi2", "radius": 1.5}, 3.0, 0.0),
    ({"ambiguity": "chi2", "strength": 0.2}, 2.7, 0.2),
    ({"ambiguity": "chi2", "strength": 1.0}, 2.083333333333, 1.0),
    ({"ambiguity": "chi2", "strength": 5.0}, 1.625, 5.0),
    ({"ambiguity": "cvar", "alpha": 0.3}, 2.833333333333, 2.0),
    ({"ambiguity": "cvar", "alpha": 0.5}, 2.5, 2.0),
    ({"ambiguity": "cvar", "alpha": 0.6}, 2.25, 1.0),
    ({"ambiguity": "spectral", "spectrum": [0.4, 0.3, 0.2, 0.1]}, 2.0, None),
]


@pytest.mark.parametrize(("choice", "value", "multiplier"), GOLDEN, ids=str)
def test_golden_values(choice, value, multiplier):
    found = worst_case(V, **choice)
    assert found.value == pytest.approx(value, abs=1e-11)
    assert multiplier is None or found.multiplier == pytest.approx(multiplier, abs=1e-11)


def test_golden_weights():
    found = worst_case(V, ambiguity="kl", radius=0.1)
    assert found.weights == pytest.approx([0.12092414, 0.18300224, 0.27694899, 0.41912463], abs=5e-9)
    assert worst_case(V, ambiguity="chi2", radius=0.1).weights == pytest.approx([0.1, 0.2, 0.3, 0.4], abs=1e-15)
    found = worst_case(V, ambiguity="chi2", strength=1.0)
    assert found.weights == pytest.approx([0.0, 1 / 12, 1 / 3, 7 / 12], abs=1e-15)


def test_the_multiplier_of_two_rare_losses_exceeds_their_size_over_the_radius():
    losses = np.append(np.ones(2), -np.ones(19998))
    assert worst_case(losses, ambiguity="kl", radius=6.0).multiplier == pytest.approx(0.1973, abs=5e-5)


@every_choice
@given(v=st.integers(1, 8).flatmap(vectors), seed=st.integers(0, 99), weighted=st.booleans())
def test_weights_are_feasible_and_attain_the_value(choice, v, seed, weighted):
    sample_weight = np.random.default_rng(seed).exponential(size=v.size) + 1e-3 if weighted else None
    q, value, _ = worst_case(v, sample_weight=sample_weight, **choice)
    assert q.min() >= 0.0
    assert q.sum() == pytest.approx(1.0, abs=1e-14)
    assert q @ v - penalty(choice, q, masses(sample_weight, v.size)) == pytest.approx(value, abs=1e-13 * v.size * 3)


@every_choice
@given(v=vectors(5), seed=st.integers(0, 10**6), weighted=st.booleans())
def test_no_feasible_weights_do_better(choice, v, seed, weighted):
    rng = np.random.default_rng(seed)
    sample_weight = rng.exponential(size=5) + 1e-3 if weighted else None
    p = masses(sample_weight, 5)
    found = worst_case(v, sample_weight=sample_weight, **choice)
    other = worst_case(rng.standard_normal(5), sample_weight=sample_weight, **choice).weights  # a vertex of the set
    for share in (1.0, 0.5, 1e-3):
        q = (1.0 - share) * found.weights + share * other
        assert q @ v - penalty(choice, q, p) <= found.value + 1e-12


@every_choice
@given(v=vectors(6), constant=numbers(-1e3, 1e3), power=st.integers(-900, 900))
def test_values_move_and_grow_with_the_losses(choice, v, constant, power):
    v, scale = np.round(v, 6), 2.0**power  # no differences that are rounded away
    found = worst_case(v, **choice)
    assert worst_case(v + constant, **choice).value == pytest.approx(found.value + constant, abs=1e-11)
    costly = choice | {name: scale * choice[name] for name in ("strength",) if name in choice}
    assert worst_case(scale * v, **costly).value == pytest.approx(scale * found.value, rel=1e-12, abs=1e-14 * scale)
    assert worst_case(scale * v, **costly).weights == pytest.approx(found.weights, abs=1e-12)


@every_ball
@given(v=vectors(6), radii=st.tuples(numbers(0.0, 3.0), numbers(0.0, 3.0)), strength=st.sampled_from([0.0, 1e-6, 0.5]))
def test_a_larger_ball_is_not_better(ambiguity, v, radii, strength):
    small, large = (worst_case(v, ambiguity=ambiguity, radius=r, strength=strength).value for r in sorted(radii))
    assert np.mean(v) - 1e-13 <= small <= large + 1e-13
    assert large <= v.max() + 1e-13


@every_choice
def test_equal_weights_are_none_at_all(choice):
    v = np.array([0.3, -1.2, 2.2, 2.2, 0.0])
    plain, weighted = worst_case(v, **choice), worst_case(v, sample_weight=np.full(5, 7.0), **choice)
    assert plain.weights == pytest.approx(weighted.weights, abs=1e-14)
    assert plain.value == pytest.approx(weighted.value, abs=1e-14)


@every_choice
def test_a_whole_weight_is_a_repeated_loss(choice):
    v = np.array([0.3, -1.2, 2.2, 0.0])
    weighted = worst_case(v, sample_weight=[1, 3, 2, 0], **choice)
    repeated = worst_case(np.repeat(v, [1, 3, 2, 0]), **choice)
    assert weighted.value == pytest.approx(repeated.value, abs=1e-14)
    assert weighted.weights[2] == pytest.approx(repeated.weights[-2:].sum(), abs=1e-13)
    assert weighted.weights[3] == 0.0


@every_choice
@pytest.mark.parametrize("size", [5e-324, 1e-300, 1.0, 1e300, 1.7e308])
def test_losses_of_any_scale_have_finite_answers(choice, size):
    q, value, _ = worst_case(size * np.array([1.0, -1.0, 0.0, 1.0, 0.5]), **choice)
    assert q.sum() == pytest.approx(1.0, abs=1e-14)
    assert q.min() >= 0.0
    assert -size <= value <= size
    assert q[0] == q[3]


@every_choice
def test_one_loss_and_equal_losses_are_their_own_worst_case(choice):
    assert worst_case([2.5], **choice)[:2] == ([1.0], 2.5)
    assert worst_case(np.full(7, 2.5), **choice).weights == pytest.approx(np.full(7, 1 / 7), abs=1e-16)
    assert worst_case(np.full(7, 2.5), **choice).value == pytest.approx(2.5, abs=1e-15)


@every_choice
@pytest.mark.parametrize("gap", [1e-30, 1e-150, 1e-250, 1e-320])
def test_losses_that_differ_by_next_to_nothing_are_told_apart_or_equal(choice, gap):
    v = np.array([0.0, -gap, -2.0 * gap, -1.0, -1.0])
    q, value, _ = worst_case(v, **choice)
    assert q @ v - penalty(choice, q, np.full(5, 0.2)) == pytest.approx(value, abs=1e-14)
    assert q[0] >= q[1] >= q[2] >= q[3]


@pytest.mark.parametrize("radius", [1e-12, 1e-8, 1e-4])
def test_small_balls_add_a_multiple_of_the_standard_deviation(radius):
    v = np.random.default_rng(0).standard_normal(50)
    added = np.sqrt(2.0 * radius * v.var())
    assert worst_case(v, ambiguity="chi2", radius=radius).value == pytest.approx(v.mean() + added, abs=1e-15)
    found = worst_case(v, ambiguity="kl", radius=radius)
    assert found.value == pytest.approx(v.mean() + added, abs=2.0 * radius)
    assert found.multiplier == pytest.approx(v.std() / np.sqrt(2.0 * radius), rel=2.0 * np.sqrt(radius) + 1e-9)


@pytest.mark.parametrize("strength", [1e-6, 1e-12, 1e-300])
def test_a_vanishing_price_is_none(strength):
    v = np.random.default_rng(0).standard_normal(50) * 100
    both = worst_case(v, radius=0.5, strength=strength)
    assert both.value == pytest.approx(worst_case(v, radius=0.5).value, abs=2e-6)
    assert worst_case(v, strength=strength).value == pytest.approx(v.max(), abs=1e-5)


@every_ball
def test_a_vast_price_is_the_mean(ambiguity):
    v = np.random.default_rng(0).standard_normal(50)
    assert worst_case(v, ambiguity=ambiguity, strength=1e12).value == pytest.approx(v.mean(), abs=1e-12)


@every_ball
def test_no_radius_leaves_the_observed_distribution(ambiguity):
    found = worst_case(V, ambiguity=ambiguity, radius=0.0, sample_weight=[1.0, 1.0, 2.0, 0.0])
    assert found.weights.tolist() == [0.25, 0.25, 0.5, 0.0]
    assert (found.value, found.multiplier) == (1.25, np.inf)


def test_a_spectrum_of_equal_shares_at_the_top_is_a_cvar():
    v = np.random.default_rng(0).standard_normal(20)
    spectral = worst_case(v, ambiguity="spectral", spectrum=[1.0, 1.0, 0.0, 0.0, 0.0])
    assert spectral.weights == pytest.approx(worst_case(v, ambiguity="cvar", alpha=0.4).weights, abs=1e-15)


def test_a_spectrum_weighs_losses_by_their_rank():
    found = worst_case([1.0, 5.0, 3.0], ambiguity="spectral", spectrum=[6, 3, 1])
    assert found.weights == pytest.approx([0.1, 0.6, 0.3], abs=1e-16)


REFUSED = {
    "losses must be finite, got nan at position 1": ([1.0, np.nan], {"radius": 1.0}),
    "losses must be finite, got inf at position 0": ([np.inf], {"radius": 1.0}),
    r"losses must have shape \(n,\) with n at least 1, got shape \(0,\)": ([], {"radius": 1.0}),
    r"losses must have shape \(n,\) with n at least 1, got shape \(1, 2\)": ([[1.0, 2.0]], {"radius": 1.0}),
    "radius must be finite and not negative, got -1.0": (V, {"radius": -1.0}),
    "radius must be finite and not negative, got nan": (V, {"radius": np.nan}),
    "strength must be positive unless a radius is given, got 0.0": (V, {"strength": 0.0}),
    "radius or strength must be given with ambiguity='kl', got none": (V, {}),
    "alpha must be given with ambiguity='cvar', got none": (V, {"ambiguity": "cvar"}),
    "alpha must be left out with ambiguity='kl', which takes radius or strength": (V, {"alpha": 0.5, "radius": 0.1}),
    "radius must be left out with ambiguity='cvar'": (V, {"ambiguity": "cvar", "alpha": 0.5, "radius": 0.1}),
    r"alpha must lie in \(0, 1\], got 0.0": (V, {"ambiguity": "cvar", "alpha": 0.0}),
    "ambiguity must be one of 'kl', 'chi2', 'cvar', 'spectral', got 'tv'": (V, {"ambiguity": "tv", "radius": 0.1}),
    "sample_weight must have one entry for each of the 4 losses, got 2": (V, {"radius": 1.0, "sample_weight": [1, 1]}),
    "sample_weight must be non-negative and not all zero": (V, {"radius": 1.0, "sample_weight": [1, 1, 1, -1]}),
    "spectrum must be non-increasing": (V, {"ambiguity": "spectral", "spectrum": [1.0, 2.0]}),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_what_is_wrong_is_said(sentence):
    losses, arguments = REFUSED[sentence]
    with pytest.raises(ValueError, match=sentence):
        worst_case(losses, **arguments)


@pytest.mark.parametrize("radius", ["wide", True, [0.1]], ids=repr)
def test_a_radius_that_is_no_number_is_refused(radius):
    with pytest.raises(TypeError, match="radius must be a number"):
        worst_case(V, radius=radius)


def cvxpy_value(choice, v, p):
    """The worst case as a convex program in the weights."""
    q = cp.Variable(v.size)
    square = cp.sum_squares(cp.multiply(1.0 / np.sqrt(2.0 * p), q - p))
    divergence = {"kl": cp.sum(cp.kl_div(q, p)), "chi2": square}.get(choice["ambiguity"], 0.0)
    limits = [q >= 0, cp.sum(q) == 1, q * choice.get("alpha", 0.0) <= p]
    limits += [divergence <= choice["radius"]] if "radius" in choice else []
    costs = [choice["strength"] * divergence] if "strength" in choice else []
    return cp.Problem(cp.Maximize(q @ v - sum(costs)), limits).solve(solver=cp.CLARABEL)


@pytest.mark.parametrize("choice", [c for c in CHOICES[:-1] if c.get("radius") != 1e-9], ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_values_equal_those_of_cvxpy(choice, seed):
    rng = np.random.default_rng(seed)
    v, p = rng.standard_normal(12), rng.dirichlet(np.ones(12))
    assert worst_case(v, sample_weight=p, **choice).value == pytest.approx(cvxpy_value(choice, v, p), abs=2e-6)


@pytest.mark.parametrize("strength", [5e-324, 1e-300, 1e-17, 1e17, 1e300])
@every_ball
def test_any_price_has_an_answer(ambiguity, strength):
    found = worst_case([1.0, 1.0, -1.0, -1.0, 1.0], ambiguity=ambiguity, strength=strength)
    even = np.array([1.0, 1.0, 0.0, 0.0, 1.0]) / 3.0 if strength < 1.0 else np.full(5, 0.2)
    assert found.weights == pytest.approx(even, abs=1e-15)
    assert found.value == pytest.approx(1.0 if strength < 1.0 else 0.2, abs=1e-15)


@every_ball
@pytest.mark.parametrize("gap", [1e-8, 1e-16, 1e-100, 1e-200, 1e-300])
def test_a_top_that_is_nearly_a_tie_stays_in_the_ball(ambiguity, gap):
    losses = np.array([0.0, -gap, -1.0, -1.0])
    found = worst_case(losses, ambiguity=ambiguity, radius=1.2)
    assert penalty({"ambiguity": ambiguity, "radius": 1.2}, found.weights, masses(None, 4)) == 0.0
    assert found.value == pytest.approx(found.weights @ losses, abs=1e-12)


def hostile_losses(rng):
    """Ties, near ties, numbers without all their digits, huge and tiny ones, far outliers, a single value."""
    v = rng.standard_normal(int(rng.choice([1, 2, 3, 5, 8, 17])))
    return [
        rng.choice([-1.0, 0.0, 1.0], v.size),
        1.0 - rng.choice([0.0, 1e-16, 2.3e-16], v.size),
        rng.choice([0.0, 1e-200, -1e-200, 5e-324, -1.0], v.size),
        v * 10.0 ** float(rng.integers(-320, 300)),
        v * 10.0 ** rng.integers(-300, 300, v.size).astype(float),
        rng.choice([1.7e308, -1.7e308, 0.0, 1.0], v.size),
        1e8 + 1e-8 * v,
        np.full(v.size, v[0]),
        rng.standard_exponential(v.size) ** 8,
    ][rng.integers(9)]


def hostile_masses(rng, n):
    """None, some, some that are zero, some of very unequal size."""
    zeros = np.where(rng.random(n) < 0.5, 0.0, rng.random(n))
    zeros[rng.integers(n)] = 1.0
    return [None, rng.dirichlet(np.ones(n)), zeros, 10.0 ** -rng.integers(0, 12, n).astype(float)][rng.integers(4)]


def hostile_choice(rng):
    if rng.random() < 0.2:
        return {"ambiguity": "cvar", "alpha": float(rng.choice([1.0, 1.0 / 3.0, 1e-3, 1e-300]))}
    radius = {"radius": float(rng.choice([1e-300, 1e-12, 0.1, 0.5, 1.2, 2.0, 1e300]))} if rng.random() < 0.6 else {}
    price = {"strength": float(rng.choice([5e-324, 1e-300, 1e-17, 1e-3, 1.0, 1e17]))}
    return {
        "ambiguity": str(rng.choice(["kl", "chi2"])),
        **radius,
        **(price if rng.random() < 0.5 or not radius else {}),
    }


def divergence_of(ambiguity, q, p):
    """D(q) in long double, with the digits of small ones."""
    p, q = p[p > 0.0], q[p > 0.0]
    x = q / p - 1.0
    if ambiguity == "chi2":
        return 0.5 * (p * x * x).sum()
    small = x * x * (0.5 - x * (1.0 / 6.0 - x / 12.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        large = np.where(x > -1.0, (1.0 + x) * np.log1p(x), 0.0) - x
    return (p * np.where(np.abs(x) < 1e-4, small, large)).sum()


@pytest.mark.parametrize("seed", range(8))
def test_hostile_losses_have_feasible_weights_that_attain_the_value(seed):
    rng = np.random.default_rng(seed)
    for _ in range(150):
        v, choice = hostile_losses(rng), hostile_choice(rng)
        given = hostile_masses(rng, v.size)
        found = worst_case(v, sample_weight=given, **choice)
        p = masses(None if given is None else given.astype(np.longdouble), v.size)
        q, live = found.weights.astype(np.longdouble), v[p > 0.0]
        case = repr((v, given, choice, found))
        assert np.isfinite(found.weights).all(), case
        assert q.min() >= 0.0, case
        assert (q[p == 0.0] == 0.0).all(), case
        assert abs(q.sum() - 1.0) < 1e-13, case
        strength, divergence = choice.get("strength", 0.0), 0.0
        if choice["ambiguity"] == "cvar":
            assert (q * choice["alpha"] <= p * (1.0 + 1e-12)).all(), case
        else:
            divergence = divergence_of(choice["ambiguity"], q, p)
            assert divergence <= choice.get("radius", np.inf) * (1.0 + 1e-9) + 1e-13, case
        top, width = np.longdouble(live.max()), np.longdouble(live.max()) - np.longdouble(live.min())
        attained = top + (q * (v - top)).sum() - strength * divergence
        # found.value is a dual bound: if the weights attain it, neither can be better
        room = 1e-9 * width + 4e-15 * np.abs(live).max() + strength * (1e-30 + 1e-9 * divergence) + 1e-320
        assert abs(found.value - attained) <= room, case
