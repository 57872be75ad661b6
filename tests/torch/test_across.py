"""Losses on several real processes: equal to one process with the joint batch, and resumed."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import xrisk.torch as xt
from tests.conftest import first_quick
from tests.torch.ranks import LOSSES, Setting, on_ranks, train, train_wrapped


def places(rank, ranks):
    """Where the batches of a process believe that it is."""
    batches = xt.ClassBatches([1, 1, 0, 0, 0, 0], positives=2, negatives=2)
    return torch.tensor([batches.rank, batches.ranks])


@pytest.fixture(scope="module", autouse=True)
def _server(tmp_path_factory):
    """The first processes wait for the server from which all are forked to import torch."""
    on_ranks(2, places, tmp_path_factory.mktemp("ranks"))


def assert_close(found, expected, names=None):
    for name in names or expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-10, atol=1e-10, err_msg=name)


def assert_replicas(results):
    first = results[0]
    assert [name for other in results[1:] for name in first if not torch.equal(first[name], other[name])] == []


@pytest.mark.parametrize("loss", first_quick(LOSSES, quick=2))
def test_two_processes_equal_one_with_the_joint_batch(loss, tmp_path):
    results = on_ranks(2, train, tmp_path, Setting(loss))
    assert_close(results[0], train(0, 1, Setting(loss)))
    assert_replicas(results)


@pytest.mark.parametrize("sharing", ["uneven", "empty", "duplicate"])
@pytest.mark.parametrize("loss", first_quick(["groups-sox", "dro-kl"]))
def test_rows_may_be_shared_in_any_way(loss, sharing, tmp_path):
    results = on_ranks(2, train, tmp_path, Setting(loss, sharing))
    assert_close(results[0], train(0, 1, Setting(loss, sharing)))
    assert_replicas(results)


@pytest.mark.slow
@pytest.mark.parametrize("sharing", ["even", "uneven", "empty", "duplicate"])
@pytest.mark.parametrize("loss", ["groups-alexr", "dro-kl"])
def test_four_processes_equal_one_with_the_joint_batch(loss, sharing, tmp_path):
    results = on_ranks(4, train, tmp_path, Setting(loss, sharing))
    assert_close(results[0], train(0, 1, Setting(loss, sharing)))
    assert_replicas(results)


@pytest.mark.parametrize("loss", first_quick(["groups-sox", "dro-kl"]))
def test_a_loss_inside_of_the_wrapped_module_keeps_its_state(loss, tmp_path):
    results = on_ranks(2, train_wrapped, tmp_path, Setting(loss))
    assert_close(results[0], train_wrapped(0, 1, Setting(loss)))
    assert_replicas(results)


@pytest.mark.parametrize("loss", first_quick(["groups-msvr", "dro-kl"]))
def test_a_checkpoint_of_two_processes_goes_on_in_one(loss, tmp_path):
    path = str(tmp_path / "checkpoint.pt")
    on_ranks(2, train, tmp_path, Setting(loss, steps=20, saved=path))
    found = train(0, 1, Setting(loss, steps=20, resumed=path))
    assert_close(found, train(0, 1, Setting(loss)), [name for name in found if name != "values"])


@pytest.mark.parametrize("loss", first_quick(["groups-msvr", "dro-kl"]))
def test_a_checkpoint_of_one_process_goes_on_in_two(loss, tmp_path):
    path = str(tmp_path / "checkpoint.pt")
    train(0, 1, Setting(loss, steps=20, saved=path))
    found = on_ranks(2, train, tmp_path, Setting(loss, steps=20, resumed=path))
    assert_close(found[0], train(0, 1, Setting(loss)), [name for name in found[0] if name != "values"])
    assert_replicas(found)


def test_batches_know_the_place_of_their_process(tmp_path):
    assert [found.tolist() for found in on_ranks(2, places, tmp_path)] == [[0, 2], [1, 2]]


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["groups-alexr", "dro-ascdro"])
def test_a_run_goes_on_from_its_checkpoint_when_a_worker_is_killed(loss, tmp_path):
    root = Path(__file__).parents[2]
    launched = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=2"]
    # without the variable, Gloo of a restarted worker may read the addresses of the killed one from the shared store
    variables = {
        "PYTHONPATH": f"{root / 'src'}:{root}",
        "OMP_NUM_THREADS": "1",
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    }
    subprocess.run(
        [*launched, str(root / "tests" / "torch" / "killed.py"), loss, str(tmp_path)],
        env={**os.environ, **variables},
        check=True,
        capture_output=True,
        timeout=300,
    )
    found = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    expected = train(0, 1, Setting(loss, steps=30))
    assert (tmp_path / "started").read_text() == "0\n15\n"
    assert_close(found["loss"], {name: value for name, value in expected.items() if name in found["loss"]})
    np.testing.assert_allclose(found["net"]["weight"].flatten(), expected["weights"][:4], rtol=1e-10)
