"""Losses of rankings: exact values against their formulas and scikit-learn, gradients, batches, processes."""

import copy
import math

import numpy as np
import pytest
import torch
import torch.distributed as dist
from scipy.optimize import minimize_scalar
from sklearn.metrics import average_precision_score, ndcg_score

from xrisk.functions import Exponential, Logistic
from xrisk.torch.compositional import CompositionalLoss
from xrisk.torch.contrastive import ContrastiveLoss, RobustContrastiveLoss
from xrisk.torch.functions import Sigmoid
from xrisk.torch.rankings import AveragePrecisionLoss, ListwiseLoss, NDCGLoss

RNG = np.random.default_rng(5)
ROWS = 24
SCORES = torch.tensor(RNG.permutation(ROWS) / 8.0 + 0.01 * RNG.normal(size=ROWS))
LABELS = torch.tensor((RNG.random(ROWS) < 0.4).astype(np.int64))
RELEVANCE = torch.tensor(RNG.integers(0, 4, ROWS).astype(float))
QUERIES = torch.tensor([7] * 9 + [2] * 8 + [40] * 6 + [1])
EMBEDDINGS = torch.tensor(RNG.normal(size=(ROWS, 2, 3)))
INDEX = torch.arange(ROWS)
DOUBLE = {"dtype": torch.float64}
STEP = Sigmoid(1e-9)


def average_precision():
    loss = AveragePrecisionLoss(LABELS, **DOUBLE)
    return loss, lambda z, rows: loss(z, LABELS[rows], rows), lambda z: loss.exact(z, LABELS)


def ndcg():
    loss = NDCGLoss(RELEVANCE, QUERIES, surrogate=Logistic(), margin=0.5, **DOUBLE)
    return loss, lambda z, rows: loss(z, RELEVANCE[rows], rows), lambda z: loss.exact(z, RELEVANCE, QUERIES)


def listwise():
    loss = ListwiseLoss(RELEVANCE, QUERIES, **DOUBLE)
    return loss, lambda z, rows: loss(z, RELEVANCE[rows], rows), lambda z: loss.exact(z, RELEVANCE, QUERIES)


def contrastive(negatives="both"):
    """Embeddings that one number for each row moves."""
    loss = ContrastiveLoss(ROWS, tau=0.3, negatives=negatives, **DOUBLE)

    def views(z, rows):
        return (EMBEDDINGS[rows] + torch.sin(z)[:, None, None]).unbind(1)

    return loss, lambda z, rows: loss(*views(z, rows), rows), lambda z: loss.exact(*views(z, INDEX))


def bimodal():
    return contrastive("other")


def robust():
    loss = RobustContrastiveLoss(ROWS, radius=0.2, tau=0.3, tau_step=0.05, **DOUBLE)

    def views(z, rows):
        return (EMBEDDINGS[rows] + torch.sin(z)[:, None, None]).unbind(1)

    return loss, lambda z, rows: loss(*views(z, rows), rows), lambda z: loss.exact(*views(z, INDEX))


MAKES = (average_precision, ndcg, listwise, contrastive, bimodal)
every_fixed_loss = pytest.mark.parametrize("make", MAKES)
every_loss = pytest.mark.parametrize("make", [*MAKES, robust])


@every_fixed_loss
def test_a_first_full_batch_has_the_exact_value(make):
    _, call, exact = make()
    assert call(SCORES, INDEX).item() == pytest.approx(exact(SCORES).item(), rel=1e-13)


@every_fixed_loss
def test_the_gradient_of_a_first_full_batch_is_that_of_the_exact_objective(make):
    _, call, exact = make()
    scores = SCORES.clone().requires_grad_()
    call(scores, INDEX).backward()
    steps = 1e-6 * torch.eye(ROWS, dtype=torch.float64)
    found = [(exact(SCORES + h) - exact(SCORES - h)).item() / 2e-6 for h in steps]
    np.testing.assert_allclose(scores.grad.numpy(), found, atol=1e-8)


@every_loss
def test_the_order_of_the_rows_does_not_matter(make):
    order = torch.tensor(np.random.default_rng(1).permutation(ROWS))
    assert make()[1](SCORES[order], order).item() == pytest.approx(make()[1](SCORES, INDEX).item(), rel=1e-12)


@every_loss
def test_scores_that_are_not_finite_write_nothing_and_give_nan(make):
    loss, call, _ = make()
    call(SCORES, INDEX)
    before = copy.deepcopy(loss.state_dict())
    assert math.isnan(call(torch.where(INDEX == 3, math.nan, SCORES), INDEX).item())
    assert all(torch.equal(before[name], kept) for name, kept in loss.state_dict().items())


@every_loss
def test_evaluation_writes_nothing(make):
    loss, call, _ = make()
    loss.eval()
    before = copy.deepcopy(loss.state_dict())
    call(SCORES, INDEX)
    assert all(torch.equal(before[name], kept) for name, kept in loss.state_dict().items())


@every_loss
def test_a_batch_of_one_row_has_value_and_gradient_zero(make):
    loss, call, _ = make()
    before = copy.deepcopy(loss.state_dict())
    scores = SCORES[:1].clone().requires_grad_()
    found = call(scores, INDEX[:1])
    found.backward()
    assert (found.item(), scores.grad.item()) == (0.0, 0.0)
    assert all(torch.equal(before[name], kept) for name, kept in loss.state_dict().items())


def test_average_precision_is_that_of_scikit_learn():
    found = AveragePrecisionLoss(LABELS, surrogate=STEP).exact(SCORES, LABELS).item()
    assert -found == pytest.approx(average_precision_score(LABELS.numpy(), SCORES.numpy()), rel=1e-12)


def test_average_precision_is_that_of_its_formula():
    z, expected = SCORES.numpy(), []
    for i in np.flatnonzero(LABELS):
        pairs = np.maximum(1.0 - (z[i] - z) / 0.7, 0.0) ** 2
        pairs[i] = 1.0
        expected.append(-pairs[LABELS == 1].sum() / pairs.sum())
    found = AveragePrecisionLoss(LABELS, margin=0.7).exact(SCORES, LABELS).item()
    assert found == pytest.approx(np.mean(expected), rel=1e-12)


@pytest.mark.parametrize("targets", [LABELS, 2 * LABELS - 1, LABELS.bool(), LABELS.float()[:, None]], ids=str)
def test_labels_of_every_kind_are_the_same(targets):
    found = AveragePrecisionLoss(targets)(SCORES, targets, INDEX).item()
    assert found == pytest.approx(average_precision()[1](SCORES, INDEX).item(), rel=1e-6)


def test_batches_estimate_the_ranks_without_bias():
    """Over all batches of the first positive, one other positive and two negatives."""
    above, below = torch.nonzero(LABELS)[:, 0].tolist(), torch.nonzero(1 - LABELS)[:, 0].tolist()
    exact = AveragePrecisionLoss(LABELS, **DOUBLE)
    exact(SCORES, LABELS, INDEX)
    found = []
    for other in above[1:]:
        for negatives in zip(below, below[1:] + below[:1], strict=True):
            rows, loss = torch.tensor([above[0], other, *negatives]), AveragePrecisionLoss(LABELS, **DOUBLE)
            loss(SCORES[rows], LABELS[rows], rows)
            found.append(loss.ranks.u[above[0]].numpy())
    np.testing.assert_allclose(np.mean(found, axis=0), exact.ranks.u[above[0]].numpy(), rtol=1e-12)


@pytest.mark.parametrize("label", [0, 1])
def test_a_batch_of_one_class_has_value_and_gradient_zero(label):
    loss, rows = AveragePrecisionLoss(LABELS, **DOUBLE), torch.nonzero(label == LABELS)[:, 0]
    scores = SCORES[rows].clone().requires_grad_()
    found = loss(scores, LABELS[rows], rows)
    found.backward()
    assert found.item() == 0.0
    assert not scores.grad.any()
    assert not loss.ranks.seen.any()


def test_ndcg_is_that_of_scikit_learn():
    gains, found = 2.0**RELEVANCE - 1.0, []
    for query in (7, 2, 40):
        rows = query == QUERIES
        found.append(ndcg_score(gains[rows][None].numpy(), SCORES[rows][None].numpy()))
    single = [1.0] if RELEVANCE[-1] > 0 else []
    loss = NDCGLoss(RELEVANCE, QUERIES, surrogate=STEP)
    assert -loss.exact(SCORES, RELEVANCE, QUERIES).item() == pytest.approx(np.mean(found + single), rel=1e-12)


def test_the_listwise_loss_is_that_of_its_formula():
    parts = []
    for query in QUERIES.unique():
        z, y = SCORES[query == QUERIES], RELEVANCE[query == QUERIES]
        parts.append(-(torch.softmax(y, 0) * torch.log_softmax(z, 0)).sum().item())
    assert listwise()[2](SCORES).item() == pytest.approx(np.mean(parts), rel=1e-12)


def test_the_listwise_loss_does_not_overflow():
    scores = (400.0 * SCORES.float()).requires_grad_()
    found = ListwiseLoss(RELEVANCE, QUERIES)(scores, RELEVANCE, INDEX)
    found.backward()
    assert math.isfinite(found.item())
    assert torch.isfinite(scores.grad).all()


def similarities(a, b):
    return (a / np.linalg.norm(a, axis=1, keepdims=True)) @ (b / np.linalg.norm(b, axis=1, keepdims=True)).T


@pytest.mark.parametrize("negatives", ["both", "other"])
def test_the_contrastive_loss_is_that_of_its_formula(negatives):
    views, parts = EMBEDDINGS.numpy().transpose(1, 0, 2), []
    for view in (0, 1):
        own = np.diag(similarities(views[0], views[1]))
        chosen = [view, 1 - view] if negatives == "both" else [1 - view]
        for i in range(ROWS):
            near = [np.delete(similarities(views[view], views[k])[i], i) - own[i] for k in chosen]
            parts.append(0.3 * np.log(np.exp(np.concatenate(near) / 0.3).mean()))
    found = ContrastiveLoss(ROWS, tau=0.3, negatives=negatives).exact(*EMBEDDINGS.unbind(1)).item()
    assert found == pytest.approx(np.mean(parts), rel=1e-12)


def test_a_small_temperature_does_not_overflow():
    views = EMBEDDINGS.float().requires_grad_()
    found = ContrastiveLoss(ROWS, tau=1e-3)(*views.unbind(1), INDEX)
    found.backward()
    assert math.isfinite(found.item())
    assert torch.isfinite(views.grad).all()


def test_robust_temperatures_find_the_exact_objective():
    _, call, exact = robust()
    values = [call(SCORES, INDEX).item() for _ in range(300)]
    assert values[0] > values[-1] + 1e-4
    assert values[-1] == pytest.approx(exact(SCORES).item(), rel=1e-5)


def test_the_robust_loss_is_the_least_over_the_temperatures():
    views = EMBEDDINGS.numpy().transpose(1, 0, 2)
    own, parts = np.diag(similarities(views[0], views[1])), []
    for view in (0, 1):
        for i in range(ROWS):
            near = np.concatenate([np.delete(similarities(views[view], views[k])[i], i) for k in (0, 1)]) - own[i]
            found = minimize_scalar(
                lambda tau, near=near: tau * (np.log(np.exp(near / tau).mean()) + 0.2), bounds=(0.01, 5.0)
            )
            parts.append(found.fun)
    found = RobustContrastiveLoss(ROWS, radius=0.2).exact(*EMBEDDINGS.unbind(1)).item()
    assert found == pytest.approx(np.mean(parts), abs=1e-9)


def test_the_gradient_of_the_robust_loss_is_that_at_its_temperatures():
    _, call, _ = robust()
    scores = SCORES.clone().requires_grad_()
    call(scores, INDEX).backward()
    plain, fixed = SCORES.clone().requires_grad_(), contrastive()[1]
    fixed(plain, INDEX).backward()
    np.testing.assert_allclose(scores.grad.numpy(), plain.grad.numpy(), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AveragePrecisionLoss(torch.ones(3)), "targets must have both classes, got 3 positives in 3"),
        (lambda: AveragePrecisionLoss(LABELS, margin=0.0), "margin must be positive, got 0.0"),
        (lambda: NDCGLoss(RELEVANCE - 1.0, QUERIES), "relevance must not be negative, got -1.0"),
        (lambda: NDCGLoss(RELEVANCE, QUERIES[:3]), r"queries must be a tensor of integers \(24,\), got \(3,\)"),
        (lambda: ListwiseLoss(RELEVANCE * math.nan, QUERIES), "relevance must be a tensor of finite relevances"),
        (lambda: ContrastiveLoss(3, tau=0.0), "tau must be positive, got 0.0"),
        (lambda: RobustContrastiveLoss(3, radius=0.0), "radius must be positive, got 0.0"),
        (lambda: RobustContrastiveLoss(3, radius=0.1, tau=0.001), r"tau must be at least the floor 0\.01, got 0\.001"),
        (lambda: ContrastiveLoss(3, negatives="all"), "negatives must be one of both, other, got 'all'"),
        (lambda: ContrastiveLoss(3)(torch.ones(2), torch.ones(2), INDEX[:2]), "first must be a tensor of embeddings"),
    ],
)
def test_what_is_wrong_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")  # of the compiler itself
@pytest.mark.slow
@every_loss
@pytest.mark.parametrize("backend", ["aot_eager_decomp_partition", "inductor"])
def test_a_compiled_loss_is_the_same(make, backend):
    call, expected = make()[1], make()[1]
    compiled = torch.compile(call, fullgraph=True, backend=backend)
    for seed in range(3):
        rows = torch.tensor(np.random.default_rng(seed).choice(ROWS, 16, replace=False))
        found, plain = SCORES[rows].clone().requires_grad_(), SCORES[rows].clone().requires_grad_()
        assert compiled(found, rows).item() == pytest.approx(expected(plain, rows).item(), rel=1e-10)
        compiled(found, rows).backward()
        expected(plain, rows).backward()
        np.testing.assert_allclose(found.grad.numpy(), plain.grad.numpy(), rtol=1e-9, atol=1e-12)


BATCHES = [np.random.default_rng(seed).integers(0, ROWS, 14) for seed in range(20)]  # with repeated rows


def run_of(make, rank, ranks):
    """Values, scaled gradients and state of 20 batches, of which each process has a part of its own size."""
    loss, call, _ = make()
    found = []
    for step, batch in enumerate(BATCHES):
        bounds = [0, step % 6, len(batch)] if ranks == 2 else [0, len(batch)]  # also empty on one process
        rows = torch.tensor(batch[bounds[rank] : bounds[rank + 1]])
        scores = SCORES[rows].clone().requires_grad_()
        value = call(scores, rows)
        value.backward()
        grad = torch.zeros(ROWS, dtype=torch.float64).index_add(0, rows, scores.grad / ranks)
        found.append((value.item(), grad))
    return found, loss.state_dict()


def compositional():
    loss = CompositionalLoss(ROWS, Exponential(2.0), track=0.5, **DOUBLE)
    return loss, lambda z, rows: loss(z, rows), lambda z: loss.exact(z)


JOINT = (compositional, *MAKES, robust)


def _process(rank, folder):
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    torch.set_num_threads(1)
    torch.save([run_of(make, rank, 2) for make in JOINT], f"{folder}/{rank}.pt")
    dist.destroy_process_group()


@pytest.mark.slow
def test_two_processes_are_one_with_the_joint_batch(tmp_path):
    torch.multiprocessing.spawn(_process, args=(str(tmp_path),), nprocs=2)
    both = [torch.load(tmp_path / f"{rank}.pt") for rank in (0, 1)]
    for make, (first, state), (second, state_of_second) in zip(JOINT, *both, strict=True):
        whole, expected = run_of(make, 0, 1)
        assert [value for value, _ in first] == [value for value, _ in second]
        np.testing.assert_allclose([value for value, _ in first], [value for value, _ in whole], rtol=1e-10)
        for one, other, joint in zip(first, second, whole, strict=True):
            np.testing.assert_allclose((one[1] + other[1]).numpy(), joint[1].numpy(), rtol=1e-10, atol=1e-13)
        assert all(torch.equal(state[name], state_of_second[name]) for name in state)
        assert all(torch.allclose(state[name], expected[name], rtol=1e-10) for name in state if name.endswith("u"))
