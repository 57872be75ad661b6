"""Batches of classes and of groups: what they hold, that they resume, and how processes share them."""

from itertools import chain

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Subset, TensorDataset

import xrisk.torch as xt

TARGETS = torch.tensor([1, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0])
GROUPS = torch.tensor([0] * 7 + [4] * 2 + [9] * 5)


def classes(**changes):
    return xt.ClassBatches(TARGETS, positives=2, negatives=3, **changes)


def groups(**changes):
    return xt.GroupBatches(GROUPS, count=2, rows=3, **changes)


@pytest.mark.parametrize("second", [0, 4])
def test_positives_come_first_then_negatives_and_the_second_negatives(second):
    batches = classes(second=second, steps=50)
    labels = torch.stack([TARGETS[batch] for batch in batches])
    assert labels[0].tolist() == [1, 1] + [0] * (3 + second)
    assert (labels == labels[0]).all()


@pytest.mark.parametrize("part", [slice(0, 2), slice(2, 5), slice(5, 9)], ids=["positives", "negatives", "second"])
def test_rows_of_a_part_are_distinct(part):
    assert all(len(set(batch[part])) == len(batch[part]) for batch in classes(second=4, steps=50))


def test_every_row_is_drawn_with_equal_chance():
    counts = np.bincount(np.concatenate(list(classes(second=3, steps=4000))), minlength=14) / 4000.0
    np.testing.assert_allclose(counts, np.where(TARGETS == 1, 0.5, 0.6), atol=0.04)


def test_the_second_negatives_are_independent_of_the_first():
    both = sum(len(set(batch[2:5]) & set(batch[5:])) for batch in classes(second=3, steps=4000)) / 4000.0
    assert both == pytest.approx(3 * 3 / 10, abs=0.05)


@pytest.mark.parametrize(
    "targets",
    [TARGETS.bool(), TARGETS.float(), 2 * TARGETS - 1, TARGETS.numpy(), TARGETS.tolist()],
    ids=["bool", "float", "signs", "numpy", "list"],
)
def test_labels_of_any_kind_give_the_same_batches(targets):
    assert list(xt.ClassBatches(targets, positives=2, negatives=3)) == list(classes())


def test_an_epoch_draws_each_negative_once_on_average():
    assert len(classes()) == 3


def test_groups_are_distinct_and_have_their_rows():
    found = [GROUPS[batch].reshape(2, 3) for batch in groups(steps=50)]
    assert all((each == each[:, :1]).all() and each[0, 0] != each[1, 0] for each in found)


def test_rows_of_a_large_group_are_distinct_and_small_groups_repeat_theirs():
    rows = np.array(list(groups(steps=50))).reshape(-1, 3)
    small = GROUPS[rows[:, 0]] == 4
    assert all(len(set(each)) == 3 for each in rows[~small])
    assert all(len(set(each)) <= 2 for each in rows[small])


def test_groups_are_drawn_with_equal_chance():
    counts = np.unique_counts(GROUPS[np.concatenate(list(groups(steps=4000)))].numpy()).counts
    np.testing.assert_allclose(counts / counts.sum(), 1.0 / 3.0, atol=0.02)


@pytest.mark.parametrize("make", [classes, groups])
def test_the_seed_decides(make):
    assert list(make(seed=3, steps=5)) == list(make(seed=3, steps=5))
    assert list(make(seed=3, steps=5)) != list(make(seed=4, steps=5))


@pytest.mark.parametrize("make", [classes, groups])
def test_no_global_generator_is_used(make):
    np.random.seed(0)  # noqa: NPY002
    torch.manual_seed(0)
    before = np.random.get_state()[1].copy(), torch.get_rng_state()  # noqa: NPY002
    list(make(steps=5))
    assert (np.random.get_state()[1] == before[0]).all()  # noqa: NPY002
    assert (torch.get_rng_state() == before[1]).all()


@pytest.mark.parametrize("make", [classes, groups])
def test_an_iterator_goes_on_where_the_last_one_stopped(make):
    whole = make(steps=4)
    expected = list(whole) + list(whole)
    broken = make(steps=4)
    first = [batch for _, batch in zip(range(3), broken, strict=False)]
    assert first + list(broken) + list(broken) == expected


@pytest.mark.parametrize("make", [classes, groups])
def test_a_state_resumes_in_the_middle_of_an_epoch(make):
    straight, stopped = make(steps=5, seed=7), make(steps=5, seed=7)
    expected = list(straight) + list(straight)
    iterator = iter(stopped)
    found = [next(iterator), next(iterator)]
    resumed = make(steps=5)
    resumed.load_state_dict(stopped.state_dict())
    assert found + list(resumed) + list(resumed) == expected


@pytest.mark.parametrize("make", [classes, groups])
@pytest.mark.parametrize("ranks", [2, 3])
def test_processes_share_the_joint_batch(make, ranks):
    parts = zip(*[make(steps=5, rank=rank, ranks=ranks) for rank in range(ranks)], strict=True)
    assert [sorted(chain(*part)) for part in parts] == [sorted(batch) for batch in make(steps=5)]


def test_the_parts_of_processes_differ_by_one_row_at_most():
    sizes = [len(next(iter(classes(rank=rank, ranks=3)))) for rank in range(3)]
    assert sizes == [2, 2, 1]


def data():
    return xt.Indexed(TensorDataset(torch.arange(14.0), TARGETS))


def indices(loader):
    return [index.tolist() for _, _, index in loader]


def test_a_loader_takes_them():
    assert indices(DataLoader(data(), batch_sampler=classes())) == list(classes())


@pytest.mark.slow
def test_workers_do_not_change_the_batches():
    found = indices(DataLoader(data(), batch_sampler=classes(steps=6), num_workers=2))
    assert found == list(classes(steps=6))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")
@pytest.mark.parametrize("workers", [0, 2])
def test_a_stateful_loader_resumes_in_the_middle_of_an_epoch(workers):
    loaders = pytest.importorskip("torchdata.stateful_dataloader")

    def loader():
        return loaders.StatefulDataLoader(data(), batch_sampler=classes(steps=6, seed=2), num_workers=workers)

    straight, stopped, resumed = loader(), loader(), loader()
    expected = indices(straight) + indices(straight)
    iterator = iter(stopped)
    found = [next(iterator)[2].tolist() for _ in range(2)]
    resumed.load_state_dict(stopped.state_dict())
    assert found + indices(resumed) + indices(resumed) == expected


ITEMS = {
    "tuple": (TensorDataset(torch.tensor([3.0, 4.0]), torch.tensor([0, 1])), (4.0, 1, 1)),
    "list": ([[5, 6], [7, 8]], (7, 8, 1)),
    "dict": ([{"x": 3}, {"x": 4}], {"x": 4, "index": 1}),
    "number": ([3.0, 4.0], (4.0, 1)),
    "subset": (Subset(TensorDataset(torch.arange(9.0)), [5, 7]), (7.0, 1)),
}


@pytest.mark.parametrize("kind", ITEMS)
def test_items_end_with_the_number_of_their_row(kind):
    dataset, expected = ITEMS[kind]
    assert xt.Indexed(dataset)[1] == xt.Indexed(dataset)[-1] == expected
    assert len(xt.Indexed(dataset)) == 2


def test_a_loader_collates_the_numbers():
    batch = next(iter(DataLoader(xt.Indexed([{"x": 3}, {"x": 4}]), batch_size=2)))
    assert batch["index"].tolist() == [0, 1]


WRONG = {
    "positives must be at most the 4 positives of the training set, got 5": lambda: xt.ClassBatches(TARGETS, 5, 2),
    "negatives must be at most the 10 negatives of the training set, got 11": lambda: xt.ClassBatches(TARGETS, 2, 11),
    "second must be at most the 10 negatives of the training set, got 12": lambda: classes(second=12),
    "positives must be a whole number of at least 1, got 0": lambda: xt.ClassBatches(TARGETS, 0, 2),
    "steps must be a whole number of at least 1, got 0": lambda: classes(steps=0),
    "seed must be a whole number of at least 0, got -1": lambda: classes(seed=-1),
    "rank must be below ranks = 2, got 2": lambda: classes(rank=2, ranks=2),
    "rank and ranks must be given together, got 1 and None": lambda: classes(rank=1),
    "count must be at most the 3 groups of the training set, got 4": lambda: xt.GroupBatches(GROUPS, 4, 1),
    "rows must be a whole number of at least 1, got 0": lambda: xt.GroupBatches(GROUPS, 2, 0),
    r"targets must have shape \(rows,\) with at least one row, got \(2, 7\)": lambda: xt.ClassBatches(
        TARGETS.reshape(2, 7), 1, 1
    ),
    "items of the data set must not have the key 'index'": lambda: xt.Indexed([{"index": 1}])[0],
}


@pytest.mark.parametrize("message", WRONG)
def test_what_does_not_fit_is_refused_in_a_sentence(message):
    with pytest.raises(ValueError, match=message):
        WRONG[message]()


UNFIT = {
    "targets must be whole numbers or booleans, got float64": lambda: xt.ClassBatches([0.5, 1.0], 1, 1),
    "groups must be whole numbers or booleans, got <U1": lambda: xt.GroupBatches(["a", "b"], 1, 1),
    "dataset must be a map-style data set with __getitem__, got generator": lambda: xt.Indexed(x for x in [1]),
}


@pytest.mark.parametrize("message", UNFIT)
def test_wrong_kinds_are_refused_in_a_sentence(message):
    with pytest.raises(TypeError, match=message):
        UNFIT[message]()
