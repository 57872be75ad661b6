"""Two-way partial AUC in PyTorch follows the naive twins."""

import copy
import pickle

import numpy as np
import pytest
import torch

from tests.reference.rows_auc import gradient as complex_gradient
from tests.reference.rows_auc import pauci_value
from tests.reference.sota import sota, sota_s
from tests.reference.staco import staco
from tests.reference.tail_sonx import tail_sonx
from tests.torch.linear import DOUBLE, Rows, assert_close, assert_states_close, descend, difference_quotients, gradient
from xrisk.applications import two_way_partial_auc
from xrisk.torch.proximal import ProximalPoint
from xrisk.torch.two_way import TwoWayPartialAUCLoss
from xrisk.torch.two_way_rules import PAUCIRule, SONXRule, SOTARule, SOTAsRule, STACORule

METHODS = ["staco", "sonx", "sonex", "sota", "sota-s", "pauci", STACORule(gamma=10.0), SOTARule(gamma=10.0)]
STEPS = {"dual_step": 0.5, "tail_step": 0.05, "threshold_step": 0.05}


@pytest.fixture
def rows():
    return Rows()


def loss_of(rows, method="staco", **more):
    return TwoWayPartialAUCLoss(rows.targets, min_tpr=0.5, max_fpr=0.5, method=method, **{**DOUBLE, **STEPS, **more})


def assert_all_close(found, expected):
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x.detach().numpy().squeeze(), y, rtol=1e-10, atol=1e-10)


def test_staco_follows_its_twin(rows):
    loss, w = loss_of(rows), rows.weights()
    twin = staco(rows.p, 60, np.random.default_rng(1), step=0.05, blocks=5, **STEPS)
    for (index, second), expected in zip(rows.batches(60, 1, 5, batches=2), twin, strict=True):
        descend(rows, w, gradient(rows, loss, w, index, second=second)[1], 0.05)
        assert_all_close((w, loss.s, loss.level), expected)


def staged(rows, loss, lr, batches):
    """Weights and state after each batch, in stages of 20, by `ProximalPoint` with γ = 10 and no penalty."""
    w = torch.nn.Parameter(rows.weights().detach())
    optimizer = ProximalPoint(torch.optim.SGD([w], lr=lr), gamma=10.0)
    for t, (index, second) in enumerate(rows.batches(60, 1, 5, batches)):
        if t in (20, 40):
            optimizer.stage()
            loss.stage()
        w.grad = gradient(rows, loss, w, index, **({"second": second} if batches == 2 else {}))[1]
        optimizer.step()
        yield w, loss.s, loss.level, loss.y


def test_staco_in_stages_follows_its_twin(rows):
    rows.p.l2 = 0.0
    found = staged(rows, loss_of(rows, STACORule(gamma=10.0)), 0.05, batches=2)
    options = {"step": 0.05, "blocks": 5, "adjoint": 0.1, "epoch": 20}
    twin = staco(rows.p, 60, np.random.default_rng(1), **options, **STEPS)
    for state, expected in zip(found, twin, strict=True):
        assert_all_close(state[:3], expected)


def test_sota_follows_its_twin(rows):
    rows.p.l2 = 0.0
    found = staged(rows, loss_of(rows, SOTARule(gamma=10.0)), 0.05 / (1.0 + 0.1 * 0.05), batches=1)
    options = {"step": 0.05, "blocks": 5, "strength": 0.1, "epoch": 20, "every": False}
    twin = sota(rows.p, 60, np.random.default_rng(1), **options, **STEPS)
    for state, expected in zip(found, twin, strict=True):
        assert_all_close(state, expected)


@pytest.mark.parametrize(("nu", "batches"), [(0.0, 1), (0.05, 2)])
@pytest.mark.parametrize("correction", [0.0, 0.1])
def test_sonx_and_sonex_follow_their_twin(rows, nu, batches, correction):
    loss = loss_of(rows, SONXRule(track=0.7, correction=correction, nu=nu))
    w, before = rows.weights(), rows.weights()
    options = {"step": 0.05, "tail_step": 0.05, "threshold_step": 0.05, "track": 0.7, "correction": correction}
    twin = tail_sonx(rows.p, 60, np.random.default_rng(1), blocks=5, nu=nu or None, **options)
    for (index, second), expected in zip(rows.batches(60, 1, 5, batches), twin, strict=True):
        past = {"previous": rows.X[index] @ before} if correction else {}
        grad = gradient(rows, loss, w, index, **past, **({"second": second} if nu else {}))[1]
        before = w.detach().clone()
        descend(rows, w, grad, 0.05)
        assert_all_close((w, loss.s, loss.level), expected)


@pytest.mark.parametrize("outer_lam", [0.5, 2.0])
def test_sota_s_follows_its_twin(rows, outer_lam):
    loss, w = loss_of(rows, SOTAsRule(lam=1.0, outer_lam=outer_lam, track=0.7, outer_track=0.6)), rows.weights()
    options = {"step": 0.02, "lam": 1.0, "outer_lam": outer_lam, "track": 0.7, "outer_track": 0.6, "momentum": 1.0}
    twin = sota_s(rows.p, 60, np.random.default_rng(1), blocks=5, **options)
    for (index, _), expected in zip(rows.batches(60, 1, 5), twin, strict=True):
        descend(rows, w, gradient(rows, loss, w, index)[1], 0.02)
        assert_all_close((w,), (expected,))


def test_pauci_steps_along_the_gradients_of_its_objective(rows):
    loss, w = loss_of(rows, PAUCIRule(omega=0.3)), rows.weights()
    z, low, high = np.append(rows.p.x0, [0, 0.5, 0.5, 0.5, 0.5, 0, 0, 1.0]), [0, 0, -4, 0, 0, 0], [1, 1, 1, 5, 1e9, 1e9]
    for index, _ in rows.batches(60, 1, 5):
        X = rows.X[index].numpy()
        arguments = X[:5], X[5:], (rows.p.theta0, rows.p.theta1), 2.0, 0.3
        value = loss((rows.X[index] @ w).sigmoid(), rows.targets[index], index)
        assert value.item() == pytest.approx(1.0 + pauci_value(z[:-1], z[-1], *arguments), rel=1e-10)
        grad = complex_gradient(lambda z, arguments=arguments: pauci_value(z[:-1], z[-1], *arguments), z)
        z[:4] -= 0.1 * grad[:4]
        z[5:11] = np.clip(z[5:11] - 0.05 * grad[5:11], low, high)
        z[11] = np.clip(z[11] + 0.5 * grad[11], -1.0, 1.0)
        w.data -= 0.1 * torch.autograd.grad(value, w)[0]
        assert_all_close((w, loss.minimised, loss.maximised), (z[:4], z[5:11], z[11]))


def lagged_staco(p, batches, *, step, dual_step, tail_step, threshold_step):
    """STACO with one batch of negatives: gradients have the duals from before it."""
    w, y, s, level = p.x0, np.ones(p.n), np.zeros(p.n), 0.0
    for chosen, negatives in batches:
        y_new, s_new, grad = y.copy(), s.copy(), 0.0
        for i in chosen:
            y_new[i] = np.clip(y[i] + dual_step / p.theta0 * (p.value(i, w, s[i], negatives) - level), 0.0, 1.0)
            s_new[i] -= tail_step * y[i] / p.theta0 * p.slope(i, w, s[i], negatives)
            grad += y[i] * p.gradient(i, w, s[i], negatives) / (p.theta0 * len(chosen))
        w = p.prox(w - step * grad, step)
        level -= threshold_step * (1.0 - y_new[chosen].mean() / p.theta0)
        s, y = s_new, y_new
        yield w, s, level, y


def test_one_batch_of_negatives_uses_the_duals_from_before_it(rows):
    loss, w, batches = loss_of(rows), rows.weights(), [index for index, _ in rows.batches(60, 1, 5)]
    parts = [(index[:5].numpy(), index[5:].numpy() - rows.n) for index in batches]
    for index, expected in zip(batches, lagged_staco(rows.p, parts, step=0.05, **STEPS), strict=True):
        descend(rows, w, gradient(rows, loss, w, index)[1], 0.05)
        assert_all_close((w, loss.s, loss.level, loss.y), expected)


def at_optima(rows, loss, w):
    """Set thresholds and duals to their optima at the weights."""
    scores = (rows.X @ w).detach()
    high, low = scores[: rows.n], scores[rows.n :].sort(descending=True).values
    k1, k2 = round(loss.theta0 * rows.n), round(loss.theta1 * low.numel())
    losses = (1.0 - (high[:, None] - low[None, :k2])).clamp(min=0.0) ** 2
    means = losses.mean(1)
    loss.s.copy_(losses[:, -1])
    loss.level.copy_(means.sort(descending=True).values[k1 - 1])
    loss.y.copy_(means >= loss.level)


def test_all_rows_at_the_optima_have_the_exact_value_and_gradient(rows):
    loss, w = loss_of(rows), rows.weights()
    at_optima(rows, loss, w)
    value = gradient(rows, loss.eval(), w, rows.all_rows())[0]
    assert value.item() == pytest.approx(loss.exact(rows.X @ w, rows.targets), rel=1e-12)
    loss.s.sub_(1e-9)  # a loss that equals its threshold has no slope
    grad = gradient(rows, loss, w, rows.all_rows())[1]
    exact = difference_quotients(lambda x: loss.exact(rows.X @ x, rows.targets), w.detach())
    assert_close(grad, exact, rtol=1e-6, atol=1e-7)


def test_soft_two_way_of_all_rows_has_the_exact_value_and_gradient(rows):
    loss, w = loss_of(rows, SOTAsRule(lam=0.5, outer_lam=0.8)), rows.weights()
    value, grad = gradient(rows, loss, w, rows.all_rows())
    exact = difference_quotients(lambda x: loss.exact(rows.X @ x, rows.targets), w.detach())
    assert value.item() == pytest.approx(loss.exact(rows.X @ w, rows.targets), rel=1e-12)
    assert_close(grad, exact, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(("min_tpr", "max_fpr"), [(0.5, 0.5), (0.0, 0.2), (0.9, 1.0)])
def test_the_exact_value_is_that_of_the_problem(rows, min_tpr, max_fpr):
    problem = two_way_partial_auc(rows.X.numpy(), rows.y, min_tpr=min_tpr, max_fpr=max_fpr)
    loss = TwoWayPartialAUCLoss(rows.targets, min_tpr=min_tpr, max_fpr=max_fpr, margin=1.0)
    assert loss.exact(rows.X @ rows.weights(), rows.targets) == pytest.approx(problem.value(rows.p.x0), rel=1e-12)


def test_chunks_add_up(rows, monkeypatch):
    loss, scores = loss_of(rows), rows.X @ rows.weights()
    whole = loss.exact(scores, rows.targets)
    monkeypatch.setattr("xrisk.torch.pairs.CHUNK", 40)
    assert loss.exact(scores, rows.targets) == pytest.approx(whole, rel=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_a_copy_has_a_state_of_its_own(rows, method):
    loss, w = begun(rows, method)
    before, other = state_of(loss), pickle.loads(pickle.dumps(copy.deepcopy(loss)))
    for index, _ in rows.batches(3, 2, 5):
        other((rows.X[index] @ w).sigmoid(), rows.targets[index], index)
    assert_same_state(state_of(loss), before)


def test_a_margin_scales_the_problem(rows):
    problem = two_way_partial_auc(rows.X.numpy(), rows.y, min_tpr=0.5, max_fpr=0.5)
    loss = TwoWayPartialAUCLoss(rows.targets, min_tpr=0.5, max_fpr=0.5, margin=0.5)
    exact = loss.exact(rows.X @ rows.weights(), rows.targets)
    assert exact == pytest.approx(0.25 * problem.value(2.0 * rows.p.x0), rel=1e-12)


def state_of(loss):
    return {name: value.clone() for name, value in loss.state_dict().items()}


def assert_same_state(found, expected, but=()):
    for name in set(expected) - set(but):
        assert torch.equal(found[name], expected[name]), name


def begun(rows, method):
    """A loss that has seen three batches, and their scores' weights."""
    loss, w = loss_of(rows, method), rows.weights()
    for index, _ in rows.batches(3, 1, 5):
        loss((rows.X[index] @ w).sigmoid(), rows.targets[index], index)
    return loss, w


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("label", [0, 1])
def test_a_batch_of_one_class_has_no_gradient_changes_nothing_and_is_counted(rows, method, label):
    loss, _ = begun(rows, method)
    before, index = state_of(loss), (rows.targets == label).nonzero()[:4, 0]
    scores = torch.tensor([0.1, 0.2, 0.3, 0.9], requires_grad=True)
    value = loss(scores, rows.targets[index], index)
    value.backward()
    assert value.isfinite()
    assert scores.grad.tolist() == [0.0] * 4
    assert_same_state(state_of(loss), before, but=["batches_without_pairs"])
    assert loss.batches_without_pairs.item() == 1


@pytest.mark.parametrize(("method", "bad"), [*((each, float("nan")) for each in METHODS), ("staco", float("inf"))])
def test_scores_that_are_not_finite_change_nothing(rows, method, bad):
    loss, _ = begun(rows, method)
    before, index = state_of(loss), torch.tensor([0, 1, rows.n, rows.n + 1])
    assert loss(torch.tensor([0.1, 0.2, bad, 0.9]), rows.targets[index], index).isnan()
    assert_same_state(state_of(loss), before)


@pytest.mark.parametrize("method", METHODS)
def test_evaluation_changes_nothing(rows, method):
    loss, _ = begun(rows, method)
    before, index = state_of(loss), torch.tensor([0, 1, rows.n, rows.n + 1])
    loss.eval()(torch.tensor([0.1, 0.2, 0.5, 0.9]), rows.targets[index], index)
    assert_same_state(state_of(loss), before)


@pytest.mark.parametrize("method", METHODS)
def test_a_loss_goes_on_from_its_state_dict(rows, method):
    loss, w = begun(rows, method)
    other = loss_of(rows, method)
    other.load_state_dict(state_of(loss))
    for index, _ in rows.batches(5, 7, 5):
        values = [each((rows.X[index] @ w).sigmoid(), rows.targets[index], index) for each in (loss, other)]
        assert torch.equal(*values)
    assert_same_state(state_of(loss), state_of(other))


@pytest.mark.parametrize("method", METHODS)
def test_a_positive_that_occurs_twice_counts_once(rows, method):
    once, twice = begun(rows, method)[0], begun(rows, method)[0]
    negatives, scores = [rows.n, rows.n + 1], torch.tensor([0.2, 0.3, 0.6])
    once(scores, torch.tensor([1, 0, 0]), torch.tensor([3, *negatives]))
    twice(scores[[0, 0, 1, 2]], torch.tensor([1, 1, 0, 0]), torch.tensor([3, 3, *negatives]))
    assert_states_close(state_of(once), state_of(twice))


def test_values_of_a_positive_that_occurs_twice_are_averaged(rows):
    loss = loss_of(rows)
    index, targets = torch.tensor([3, 3, rows.n]), torch.tensor([1, 1, 0])
    loss(torch.tensor([0.2, 0.6, 0.5], dtype=torch.float64), targets, index)
    slope = 1.0 - 1.0 / loss.theta1
    assert loss.s[3].item() == pytest.approx(-0.05 / loss.theta0 * slope, rel=1e-12)
    other = loss_of(rows, SONXRule())
    other(torch.tensor([0.2, 0.6, 0.5], dtype=torch.float64), targets, index)
    assert other.u[3].item() == pytest.approx((1.3**2 + 0.9**2) / 2 / other.theta1, rel=1e-12)


def test_gradients_do_not_depend_on_the_order_of_rows(rows):
    w = rows.weights()
    index = next(rows.batches(1, 3, 5))[0]
    grads = [gradient(rows, loss_of(rows), w, each)[1] for each in (index, index.flip(0))]
    assert_close(*grads, rtol=1e-12, atol=1e-12)


def test_state_and_pairs_are_in_single_precision_under_autocast(rows):
    loss = TwoWayPartialAUCLoss(rows.targets, min_tpr=0.5, max_fpr=0.5)
    index = rows.all_rows()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores = torch.nn.functional.linear(rows.X.float(), torch.ones(1, 4)).sigmoid()
        value = loss(scores, rows.targets, index)
    assert scores.dtype is torch.bfloat16
    assert (value.dtype, loss.y.dtype, loss.s.dtype) == (torch.float32,) * 3
    other = TwoWayPartialAUCLoss(rows.targets, min_tpr=0.5, max_fpr=0.5)
    assert torch.equal(value, other(scores.float(), rows.targets, index))


def test_a_cast_of_the_model_leaves_the_state(rows):
    loss = begun(rows, "staco")[0]
    before = state_of(loss)
    torch.nn.Sequential(torch.nn.Linear(2, 2), loss).bfloat16()
    assert_same_state(state_of(loss), before)


def test_state_of_other_rows_is_refused(rows):
    other = TwoWayPartialAUCLoss(torch.tensor([0, 1, 1]), min_tpr=0.5, max_fpr=1.0)
    with pytest.raises(RuntimeError, match=r"y must have shape \(2,\), got \(\d+,\): the state of another data set"):
        other.load_state_dict(loss_of(rows).state_dict())


def test_what_is_maximised_is_no_parameter(rows):
    assert [list(loss_of(rows, method).parameters()) for method in METHODS] == [[]] * len(METHODS)


@pytest.mark.parametrize("labels", [[0.0, 1.0, 1.0], [-1, 1, 1], [False, True, True]])
def test_labels_of_any_kind_are_the_same(labels):
    positive = torch.tensor(labels)
    loss = TwoWayPartialAUCLoss(positive, min_tpr=0.5, max_fpr=1.0)
    value = loss(torch.tensor([[0.1], [0.2], [0.3]]), positive[:, None], torch.arange(3))
    assert value.item() == pytest.approx(2.0 * (0.4**2 + 0.3**2) / 2.0)


def test_labels_of_other_rows_are_refused(rows):
    with pytest.raises(ValueError, match="targets must be those of the data set, got the other class for row 2"):
        loss_of(rows)(torch.tensor([0.1, 0.2]), torch.tensor([0, 0]), torch.tensor([2, rows.n]))


def test_a_missing_index_is_refused(rows):
    with pytest.raises(TypeError, match="index must be the numbers of the rows in the data set, got None"):
        loss_of(rows)(torch.tensor([0.1, 0.2]), torch.tensor([1, 0]))


def test_scores_of_another_device_are_refused(rows):
    loss = loss_of(rows).to("meta")
    with pytest.raises(ValueError, match="scores must be on the device of the loss, meta, got cpu"):
        loss(torch.tensor([0.1, 0.2]), torch.tensor([1, 0]), torch.tensor([2, rows.n]))


def test_logits_are_refused_by_pauci(rows):
    with pytest.raises(ValueError, match=r"scores must be sigmoid outputs in \[0, 1\] for method='pauci', got -3"):
        loss_of(rows, "pauci")(torch.tensor([-3.0, 0.2]), torch.tensor([1, 0]), torch.tensor([2, rows.n]))


def test_a_correction_needs_previous_scores(rows):
    with pytest.raises(ValueError, match="previous must be the scores at the weights before the last step, got None"):
        begun(rows, SONXRule(correction=0.1))


@pytest.mark.parametrize("method", ["staco", "sota", "sonx", "sonex", "sota-s", "pauci"])
def test_a_stage_of_a_method_without_stages_is_refused(rows, method):
    with pytest.raises(ValueError, match=r"stage\(\) must"):
        loss_of(rows, method).stage()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"min_tpr": 0.99}, "min_tpr must be at most"),
        ({"max_fpr": 0.001}, "max_fpr must be at least"),
        ({"min_tpr": 1.5}, r"min_tpr must be a number in \[0, 1\), got 1.5"),
        ({"method": "adam"}, "method must be one of staco, sonx, sonex, sota, sota-s, pauci or a rule, got 'adam'"),
        ({"tail_step": -1.0}, "tail_step must be a finite number that is not negative, got -1.0"),
        ({"dtype": torch.float16}, "dtype must be torch.float32 or torch.float64, got torch.float16"),
        ({"method": STACORule(gamma=0.0)}, "gamma must be a positive number, got 0.0"),
        ({"method": SONXRule(track=2.0)}, r"track must be a number in \(0, 1\], got 2.0"),
        ({"method": SOTAsRule(lam=0.0)}, "lam must be a positive number, got 0.0"),
        ({"method": PAUCIRule(kappa=-1.0)}, "kappa must be a positive number, got -1.0"),
        ({"loss": "hinge"}, "loss must be a loss spec that does not increase with the margin, got 'hinge'"),
    ],
)
def test_wrong_arguments_are_refused(rows, given, message):
    with pytest.raises(ValueError, match=message):
        TwoWayPartialAUCLoss(rows.targets, **{"min_tpr": 0.5, "max_fpr": 0.5, **given})


def test_one_class_is_refused():
    with pytest.raises(ValueError, match="targets must have both classes, got 0 positives in 3"):
        TwoWayPartialAUCLoss(torch.zeros(3), min_tpr=0.5, max_fpr=0.5)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of inductor's own
@pytest.mark.parametrize(("method", "backend"), [*((each, "aot_eager") for each in METHODS), ("staco", "inductor")])
def test_compiled_steps_are_those_of_eager_mode(rows, method, backend):
    torch.compiler.reset()
    eager, other, w = loss_of(rows, method), loss_of(rows, method), rows.weights()

    def step(loss, w, index):  # weights are a leaf: torch.compile warns of others
        return loss((rows.X[index] @ w).sigmoid(), rows.targets[index], index)

    compiled = torch.compile(step, fullgraph=True, backend=backend)
    for t, (index, _) in enumerate(rows.batches(10, 1, 5)):
        for each in (eager, other):
            each.dual_step, each.tail_step = 0.5 / (1 + t // 5), 0.05 / (1 + t // 5)
        values = [step(eager, w, index), compiled(other, w, index)]
        grads = [torch.autograd.grad(value, w)[0] for value in values]
        assert_close(*values)
        assert_close(*grads)
        assert_states_close(state_of(eager), state_of(other))
        descend(rows, w, grads[0], 0.05)
