"""`DROLoss` against the naive twins on the same batches, against the exact worst case, and hostile."""

import io

import numpy as np
import pytest
import torch

import xrisk
import xrisk.torch as xt
from tests.reference.scdro import ascdro, recover, scdro
from tests.reference.single_rows import SingleRows

STEPS, STEP, TRACK = 60, 0.1, 0.3
BALL = {"temperature_step": 0.05, "track": TRACK, "radius": 0.2}
W0 = np.full(4, 0.1)


class Recorded(SingleRows):
    """Remembers its batches and the points at which their losses were asked for."""

    def __init__(self, batch=5):
        super().__init__(W0, batch)
        self.batches, self.points = [], []

    def draw(self, rng, size=None):
        self.batches.append(super().draw(rng, size))
        return self.batches[-1]

    def losses(self, w, rows):
        self.points.append(w.copy())
        return super().losses(w, rows)


def losses(p, w, rows):
    return torch.nn.functional.softplus(-torch.from_numpy(p.y)[rows] * (torch.from_numpy(p.X)[rows] @ w))


def trained(p, loss, momentum):
    """(w, λ)_1, …, _T on the batches of a twin, by SGD with the twin's average of the gradient."""
    w, found = torch.tensor(W0, requires_grad=True), []
    optimizer = torch.optim.SGD([w], lr=STEP, momentum=1.0 - momentum, dampening=1.0 - momentum)
    for rows in p.batches:
        optimizer.zero_grad()
        loss(losses(p, w, torch.from_numpy(rows))).backward()
        optimizer.step()
        w.data /= 1.0 + STEP * p.l2
        found.append(np.append(w.detach().numpy(), loss.temperature.numpy()))
    return np.array(found)


def test_it_follows_scdro():
    p = Recorded()
    expected = scdro(p, STEPS, np.random.default_rng(0), step=STEP, **BALL, low=0.05, first=0.7)
    loss = xt.DROLoss("kl", strength=0.05, temperature=0.7, rows=60, **BALL)
    np.testing.assert_allclose(trained(p, loss, TRACK), np.array(expected), rtol=1e-10, atol=1e-12)


def test_with_a_price_alone_it_follows_the_moving_average_at_that_temperature():
    p = Recorded()
    fixed = {"temperature_step": 0.0, "track": TRACK, "radius": 0.0, "low": 0.5, "first": 0.5}
    expected = scdro(p, STEPS, np.random.default_rng(0), step=STEP, **fixed)
    found = trained(p, xt.DROLoss("kl", strength=0.5, track=TRACK), TRACK)
    np.testing.assert_allclose(found, np.array(expected), rtol=1e-10, atol=1e-12)


def fed(loss, p, points):
    """λ after every batch of the losses that the twin saw: at its present and its previous point."""
    found = []
    for rows, w, w_before in zip(p.batches, points[::2], points[1::2], strict=True):
        now, before = (torch.from_numpy(SingleRows.losses(p, x, rows)) for x in (w, w_before))
        loss(now, previous=before)
        found.append(loss.temperature.item())
    return found


@pytest.mark.parametrize("track", [0.3, 1.0])
def test_temperature_and_scale_follow_ascdro(track):
    p, setting = Recorded(), {**BALL, "track": track}
    expected, guarded = ascdro(p, STEPS, np.random.default_rng(0), step=STEP, **setting, low=0.05, first=0.7)
    loss = xt.DROLoss("kl", strength=0.05, temperature=0.7, rows=60, method="ascdro", **setting)
    np.testing.assert_allclose(fed(loss, p, p.points), np.array(expected)[:, -1], rtol=1e-10)
    assert loss.guarded.item() == guarded


def test_the_scale_of_ascdro_is_kept_positive_and_counted():
    p, setting = Recorded(batch=1), {"temperature_step": 0.5, "track": 0.02, "radius": 0.2}
    expected, guarded = ascdro(p, STEPS, np.random.default_rng(0), step=0.5, **setting, low=0.05, first=0.7)
    loss = xt.DROLoss("kl", strength=0.05, temperature=0.7, rows=60, method="ascdro", **setting)
    np.testing.assert_allclose(fed(loss, p, p.points), np.array(expected)[:, -1], rtol=1e-6)
    assert loss.guarded.item() == guarded > 0


def test_the_gradient_of_ascdro_is_that_of_the_batch_at_the_tracked_scale():
    p = Recorded()
    recover(p, 20, np.random.default_rng(0), step=STEP, track=TRACK, lam=0.5)
    loss, s = xt.DROLoss("kl", strength=0.5, method="ascdro", track=TRACK), 0.0
    points = zip(p.batches, p.points[::2], p.points[1::2], strict=True)
    for t, (rows, w, w_before) in enumerate(points):
        now, before = (torch.from_numpy(SingleRows.losses(p, x, rows)) for x in (w, w_before))
        beta = TRACK if t else 1.0
        new, old = (x.div(0.5).exp().mean().item() for x in (now, before))
        s = max(new + (1.0 - beta) * (s - old), beta * new)
        loss(now.requires_grad_(), previous=before).backward()
        np.testing.assert_allclose(now.grad, now.detach().div(0.5).exp() / s / rows.size, rtol=1e-10)


SETS = {
    "kl-ball": {"ambiguity": "kl", "radius": 0.3},
    "kl-ball-price": {"ambiguity": "kl", "radius": 0.3, "strength": 0.2},
    "kl-price": {"ambiguity": "kl", "strength": 0.4},
    "chi2-ball": {"ambiguity": "chi2", "radius": 0.4},
    "chi2-ball-price": {"ambiguity": "chi2", "radius": 0.1, "strength": 0.2},
    "chi2-price": {"ambiguity": "chi2", "strength": 0.7},
    "cvar": {"ambiguity": "cvar", "alpha": 0.25},
}


def known(name):
    return {key: value for key, value in SETS[name].items() if key != "ambiguity"}


def full(seed=2):
    return torch.tensor(np.random.default_rng(seed).normal(size=24), requires_grad=True)


@pytest.mark.parametrize("name", SETS)
def test_the_exact_objective_is_the_worst_case(name):
    v = full()
    expected = xrisk.worst_case(v.detach().numpy(), **SETS[name]).value
    assert xt.DROLoss(**SETS[name]).exact(v).item() == expected


def settled(name, v):
    """A loss on the full batch whose duals have their optimal values."""
    loss = xt.DROLoss(**SETS[name], track=1.0, temperature=xrisk.worst_case(v.numpy(), **SETS[name]).multiplier)
    loss(v)
    loss.threshold.copy_({"cvar": v.sort(descending=True).values[5:7].mean()}.get(name, loss.threshold))
    return loss


@pytest.mark.parametrize("name", SETS)
def test_a_full_batch_has_the_gradient_of_the_exact_objective(name):
    v = full()
    settled(name, v.detach())(v).backward()
    steps = 1e-5 * torch.eye(24, dtype=torch.float64)
    exact = xt.DROLoss(**SETS[name]).exact
    expected = [(exact(v.detach() + h) - exact(v.detach() - h)).item() / 2e-5 for h in steps]
    np.testing.assert_allclose(v.grad.numpy(), expected, atol=2e-7)


@pytest.mark.parametrize("name", SETS)
def test_a_full_batch_has_the_value_of_the_exact_objective(name):
    v = full().detach()
    assert settled(name, v)(v).item() == pytest.approx(xt.DROLoss(**SETS[name]).exact(v).item(), abs=2e-3)


@pytest.mark.parametrize("name", ["kl-ball", "chi2-ball", "chi2-price", "cvar"])
def test_the_duals_settle_on_a_full_batch(name):
    v = full().detach()
    loss = xt.DROLoss(**SETS[name], track=0.5, temperature_step=0.1, threshold_step=0.01)
    for _ in range(300):
        value = loss(v)
    assert value.item() == pytest.approx(loss.exact(v).item(), abs=0.02)


def test_nothing_overflows_at_the_smallest_temperature():
    v = torch.tensor([1e4, 0.0, -1e4], requires_grad=True)
    loss = xt.DROLoss("kl", radius=0.1, temperature=1e-3)
    for scale in (1.0, -1.0, 0.01):
        loss(scale * v).backward()
    assert torch.isfinite(v.grad).all()
    assert torch.isfinite(loss.temperature).all()


def state_of(loss):
    return {name: value.tolist() for name, value in loss.state_dict().items()}


def call(loss, v):
    """A call with previous values where the method takes them."""
    return loss(v) if loss.method == "scdro" else loss(v, previous=v.detach() + 0.1)


KINDS = {**SETS, "ascdro": {"ambiguity": "kl", "radius": 0.3, "method": "ascdro"}}


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("name", KINDS)
def test_values_that_are_not_finite_write_nothing(name, bad):
    loss = xt.DROLoss(**KINDS[name])
    call(loss, torch.tensor([1.0, 2.0, 3.0]))
    before = state_of(loss)
    call(loss, torch.tensor([1.5, bad]))
    assert state_of(loss) == before


@pytest.mark.parametrize("name", KINDS)
def test_the_state_stays_in_evaluation_mode(name):
    loss = xt.DROLoss(**KINDS[name])
    call(loss, torch.tensor([1.0, 2.0, 3.0]))
    before = state_of(loss.eval())
    assert torch.isfinite(call(loss, torch.tensor([1.0, 5.0])))
    assert state_of(loss) == before


@pytest.mark.parametrize("name", KINDS)
def test_a_resumed_run_is_the_same_bit_for_bit(name):
    torch.manual_seed(0)
    batches = [torch.randn(9) for _ in range(12)]
    straight, stopped = xt.DROLoss(**KINDS[name]), xt.DROLoss(**KINDS[name])
    expected = [call(straight, v).item() for v in batches][7:]
    for v in batches[:7]:
        call(stopped, v)
    file = io.BytesIO()
    torch.save(stopped.state_dict(), file)
    file.seek(0)
    resumed = xt.DROLoss(**KINDS[name])
    resumed.load_state_dict(torch.load(file, weights_only=True))
    assert [call(resumed, v).item() for v in batches[7:]] == expected


def test_an_empty_batch_writes_nothing_and_has_a_zero_gradient():
    loss, w = xt.DROLoss("kl", radius=0.1), torch.zeros(2, requires_grad=True)
    before = state_of(loss)
    loss(torch.zeros(0, 2) @ w).backward()
    assert state_of(loss) == before
    assert w.grad.tolist() == [0.0, 0.0]


def test_a_state_of_another_shape_is_refused():
    state = xt.DROLoss("kl", radius=0.1).state_dict()
    with pytest.raises(RuntimeError, match=r"log_s must have shape \(1,\), got \(2,\)"):
        xt.DROLoss("kl", radius=0.1).load_state_dict({**state, "log_s": torch.zeros(2)})


@pytest.mark.parametrize("name", ["kl-ball", "chi2-ball", "cvar"])
def test_it_compiles_as_one_graph(name):
    assert_compiles(name, "aot_eager")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*script_method:DeprecationWarning")  # torch's own
@pytest.mark.parametrize("name", ["kl-ball", "chi2-ball", "cvar"])
def test_it_compiles_to_machine_code(name):
    assert_compiles(name, "inductor")


def assert_compiles(name, backend):
    torch.compiler.reset()
    plain, other = xt.DROLoss(**SETS[name]), xt.DROLoss(**SETS[name])
    compiled = torch.compile(other, fullgraph=True, backend=backend)
    torch.manual_seed(0)
    found, expected = ([] for _ in range(2))
    for _ in range(3):
        values = torch.randn(2000)
        for loss, seen in ((compiled, found), (plain, expected)):
            v = values.clone().requires_grad_()
            value = loss(v)
            value.backward()
            seen.append(np.append(v.grad.numpy(), value.item()))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(other.temperature, plain.temperature, rtol=1e-6)
    np.testing.assert_allclose(other.threshold, plain.threshold, rtol=1e-6)


def test_half_precision_does_not_touch_the_state():
    loss = xt.DROLoss("kl", radius=0.1).bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        v = torch.tensor([1.0, 300.0], dtype=torch.bfloat16, requires_grad=True)
        loss(v).backward()
    assert loss.log_s.dtype == torch.float64
    assert v.grad.sum().item() == 1.0


WRONG = {
    "ambiguity must be one of 'chi2', 'cvar', 'kl', got 'far'": lambda: xt.DROLoss("far", radius=0.1),
    "method must be one of": lambda: xt.DROLoss("kl", radius=0.1, method="best"),
    "method must be 'scdro' for ambiguity='cvar', got 'ascdro'": lambda: xt.DROLoss("cvar", alpha=0.1, method="ascdro"),
    "radius or strength must be given for ambiguity='kl', got none": lambda: xt.DROLoss("kl"),
    "alpha must be given for ambiguity='cvar', got none": lambda: xt.DROLoss("cvar"),
    "radius must be left out for ambiguity='cvar', got 0.1": lambda: xt.DROLoss("cvar", radius=0.1, alpha=0.1),
    "alpha must be above 0 and at most 1, got 2.0": lambda: xt.DROLoss("cvar", alpha=2.0),
    "radius must be a positive number, got -1.0": lambda: xt.DROLoss("kl", radius=-1.0),
    "rows must be a whole number of at least 1, got 0": lambda: xt.DROLoss("kl", radius=0.1, rows=0),
    "track must be above 0 and at most 1, got 0.0": lambda: xt.DROLoss("kl", radius=0.1, track=0.0),
    r"values must have shape \(rows,\) or \(rows, 1\)": lambda: xt.DROLoss("kl", radius=0.1)(torch.ones(2, 2)),
    r"previous must have shape \(2,\), got \(1,\)": lambda: xt.DROLoss("kl", radius=0.1, method="ascdro")(
        torch.ones(2), previous=torch.ones(1)
    ),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_numbers_are_refused_in_a_sentence(message):
    with pytest.raises(ValueError, match=message):
        WRONG[message]()


UNFIT = {
    "previous must be the losses at the previous weights": lambda: xt.DROLoss("kl", radius=0.1, method="ascdro")(
        torch.ones(2)
    ),
    "previous must be left out for method='scdro'": lambda: xt.DROLoss("kl", radius=0.1)(torch.ones(1), torch.ones(1)),
    "values must be a tensor of floating-point numbers": lambda: xt.DROLoss("kl", radius=0.1)(torch.ones(2).long()),
}


@pytest.mark.parametrize("message", UNFIT)
def test_wrong_kinds_are_refused_in_a_sentence(message):
    with pytest.raises(TypeError, match=message):
        UNFIT[message]()
