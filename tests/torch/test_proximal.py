"""`ProximalPoint` against STACO2's and ALEXR-DL's stages by hand, and with what people put around optimizers."""

import copy
import io

import numpy as np
import pytest
import torch

import xrisk.torch as xt

GAMMA, STEP, LENGTH, STAGES = 3.0, 0.1, 7, 4
TARGET = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)


def pair(**changes):
    """A parameter, and SGD on it around an anchor."""
    w = torch.nn.Parameter(torch.zeros(3, dtype=torch.float64))
    return w, xt.ProximalPoint(torch.optim.SGD([w], lr=STEP), gamma=GAMMA, **changes)


def value_of(w):
    return (w - TARGET).pow(4).sum()


def step(w, optimizer):
    optimizer.zero_grad()
    value_of(w).backward()
    optimizer.step()


def by_hand(power, keeps_weights):
    """Iterates of w ← w − s(∇F(w) + (w − w̄)/γ), stage after stage, averaged with weights (t+1)…(t+power)."""
    w, anchor, found, target = np.zeros(3), np.zeros(3), [], TARGET.numpy()
    weights = np.array([np.prod(np.arange(t + 1, t + power + 1)) for t in range(LENGTH)], dtype=float)
    for _ in range(STAGES):
        inner = []
        for _ in range(LENGTH):
            w = w - STEP * (4.0 * (w - target) ** 3 + (w - anchor) / GAMMA)
            inner.append(w)
        anchor = weights @ np.array(inner) / weights.sum()
        w = w if keeps_weights else anchor
        found.append(w)
    return found


@pytest.mark.parametrize("power", [0, 3], ids=["staco2", "alexr-dl"])
@pytest.mark.parametrize("end", ["stage", "stage_keeping_weights"])
def test_stages_are_those_by_hand(power, end):
    w, optimizer = pair(power=power)
    found = []
    for _ in range(STAGES):
        for _ in range(LENGTH):
            step(w, optimizer)
        getattr(optimizer, end)()
        found.append(w.detach().numpy().copy())
    np.testing.assert_allclose(found, by_hand(power, end == "stage_keeping_weights"), rtol=1e-12)


def test_without_a_term_it_is_the_optimizer_inside():
    (w, optimizer), (v, _) = pair(), pair()
    optimizer, plain = xt.ProximalPoint(torch.optim.Adam([w]), gamma=float("inf")), torch.optim.Adam([v])
    for _ in range(5):
        step(w, optimizer)
        step(v, plain)
    assert w.tolist() == v.tolist()


def test_a_closure_is_evaluated_inside():
    (w, optimizer), (v, other) = pair(), pair()

    def closure():
        optimizer.zero_grad()
        value = value_of(w)
        value.backward()
        return value

    for _ in range(4):
        before = value_of(w).item()
        assert optimizer.step(closure).item() == before
        step(v, other)
    assert w.tolist() == v.tolist()


def test_a_schedule_changes_the_steps():
    (w, optimizer), (v, other) = pair(), pair()
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    for t in range(4):
        step(w, optimizer)
        schedule.step()
        other.param_groups[0]["lr"] = STEP * 0.5**t
        step(v, other)
    assert w.tolist() == v.tolist()


def test_a_scaler_scales_the_gradient_and_not_the_term():
    (w, optimizer), (v, other) = pair(), pair()
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for _ in range(3):
        optimizer.zero_grad()
        scaler.scale(value_of(w)).backward()
        scaler.step(optimizer)
        scaler.update()
        step(v, other)
    assert w.tolist() == v.tolist()


def test_a_scaler_skips_a_step_that_is_not_finite():
    w, optimizer = pair()
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(w.sum() * float("inf")).backward()
    scaler.step(optimizer)
    assert w.tolist() == [0.0, 0.0, 0.0]
    assert optimizer.count == 0


def test_a_resumed_run_is_the_same_bit_for_bit():
    (w, optimizer), (v, _) = pair(), pair()
    optimizer = xt.ProximalPoint(torch.optim.SGD([w], lr=STEP, momentum=0.9), gamma=GAMMA)
    for _ in range(4):
        step(w, optimizer)
    optimizer.stage()
    step(w, optimizer)
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    v.data.copy_(w.data)
    resumed = xt.ProximalPoint(torch.optim.SGD([v], lr=STEP, momentum=0.9), gamma=GAMMA)
    resumed.load_state_dict(torch.load(file, weights_only=True))
    for each, of in ((w, optimizer), (v, resumed)):
        step(each, of)
        of.stage()
        step(each, of)
    assert w.tolist() == v.tolist()


def test_parameters_without_a_gradient_stay():
    w, v = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2))
    optimizer = xt.ProximalPoint(torch.optim.SGD([w, v], lr=0.1), gamma=1.0)
    v.data.fill_(5.0)
    w.sum().backward()
    optimizer.step()
    assert v.tolist() == [5.0, 5.0]


def test_a_new_group_has_its_anchor_where_it_is():
    _, optimizer = pair()
    v = torch.nn.Parameter(torch.full((2,), 4.0, dtype=torch.float64))
    optimizer.add_param_group({"params": [v]})
    v.sum().backward()
    optimizer.step()
    assert v.tolist() == [4.0 - STEP, 4.0 - STEP]


def test_statistics_of_batch_norm_are_not_averaged():
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    optimizer = xt.ProximalPoint(torch.optim.SGD(net.parameters(), lr=0.1), gamma=1.0)
    net(torch.randn(8, 2)).sum().backward()
    optimizer.step()
    before = {name: value.clone() for name, value in net.named_buffers()}
    optimizer.stage()
    assert {n: b.tolist() for n, b in net.named_buffers()} == {n: b.tolist() for n, b in before.items()}


def test_it_is_an_optimizer_with_the_parts_of_the_one_inside():
    w, optimizer = pair()
    assert isinstance(optimizer, torch.optim.Optimizer)
    assert optimizer.param_groups is optimizer.optimizer.param_groups
    assert optimizer.state is optimizer.optimizer.state
    assert optimizer.defaults["lr"] == STEP
    assert "ProximalPoint(gamma=3.0, power=0, SGD" in repr(optimizer)
    assert w.grad is None


def test_it_can_be_copied():
    w, optimizer = pair()
    step(w, optimizer)
    assert copy.deepcopy(optimizer).count == 1


WRONG = {
    "gamma must be positive, got 0.0": lambda: xt.ProximalPoint(torch.optim.SGD([torch.zeros(1)]), gamma=0.0),
    "power must be a whole number of at least 0, got -1": lambda: pair(power=-1),
    "state_dict must have the key 'proximal'": lambda: pair()[1].load_state_dict(pair()[1].optimizer.state_dict()),
    "anchor of state_dict must have the shapes of the parameters": lambda: pair()[1].load_state_dict(
        xt.ProximalPoint(torch.optim.SGD([torch.zeros(2)]), gamma=1.0).state_dict()
    ),
}


@pytest.mark.parametrize("message", WRONG)
def test_what_does_not_fit_is_refused_in_a_sentence(message):
    with pytest.raises(ValueError, match=message):
        WRONG[message]()


def test_anything_but_an_optimizer_is_refused():
    with pytest.raises(TypeError, match="optimizer must be a torch optimizer, got float"):
        xt.ProximalPoint(0.1, gamma=1.0)
