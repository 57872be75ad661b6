"""Checkpoints: nothing in them is taken on trust, and a run that is resumed is one that was never stopped."""

import contextlib
import functools
import json
import os

import numpy as np
import pytest

from tests.conftest import table
from xrisk import Budget, Checkpoint, minimize, resume, solvers
from xrisk.applications import two_way_partial_auc
from xrisk.auto import Auto
from xrisk.files import read_array, read_members, write_archive
from xrisk.run.checkpoint import _checksum, load_run
from xrisk.run.fingerprint import fingerprint

SOLVER = solvers.ALEXR(blocks=2, batch=4)


def crafted(path, header=None, **arrays):
    """The checkpoint with other content and a checksum that goes with it."""
    members = read_members(path.read_bytes())
    told = json.loads(members.pop("header.json"))
    told.pop("checksum")
    held = {name.removesuffix(".npy"): read_array(data) for name, data in members.items()} | arrays
    told |= header or {}
    write_archive(path, json.dumps(told | {"checksum": _checksum(told, held)}).encode(), held)


def mersenne(pos):
    key = {"array": np.random.MT19937(0).state["state"]["key"].tolist(), "dtype": "uint32"}
    return {"rng": {"bit_generator": "MT19937", "state": {"key": key, "pos": pos}}}


CRAFTED = {
    "order": ({}, {"state.order": np.full(6, 10**9)}, "order must be a permutation of 0, …, 5"),
    "order twice": ({}, {"state.order": np.zeros(6, dtype=np.int64)}, "order must be a permutation"),
    "touched": ({}, {"state.touched": np.full(6, -(10**9))}, "touched must hold iterations"),
    "shape": ({}, {"state.w": np.zeros(3)}, r"w must be float64 of shape \(5,\), got float64 of shape \(3,\)"),
    "type": ({}, {"state.w": np.zeros(5, dtype=np.float32)}, "w must be float64 .* got float32"),
    "count": ({}, {"state.t": np.array(-1)}, "t must be a count, got -1"),
    "more": ({}, {"state.more": np.zeros(1)}, "its state has not the parts"),
    "best": ({}, {"best.x": np.zeros(9)}, "x of its best point must be of shape"),
    "progress": ({"progress": {"iterations": -5}}, {}, "its iterations must be a non-negative number, got -5"),
    "no progress": ({"progress": None}, {}, "is damaged or something else"),
    "trace": ({}, {"points.value": np.zeros((2, 2))}, "value of its trace must be float64"),
    "generator": (mersenne(10**9), {}, "its random generator has no state of a MT19937"),
    "no generator": ({"rng": {"bit_generator": "os"}}, {}, "its random generator is unknown: os"),
}


@pytest.mark.parametrize(("header", "arrays", "said"), CRAFTED.values(), ids=CRAFTED)
def test_a_crafted_checkpoint_is_refused_before_it_reaches_a_kernel(
    cvar_problem, tmp_path, plain, header, arrays, said
):
    path = tmp_path / "run"
    minimize(cvar_problem, SOLVER, budget=Budget(iterations=5), rng=0, checkpoint=Checkpoint(path))
    crafted(path, header, **arrays)
    with pytest.raises(ValueError, match=said) as caught:
        resume(cvar_problem, SOLVER, path, budget=Budget(iterations=9))
    assert str(caught.value).startswith("path must be a checkpoint")
    assert "\n" not in str(caught.value)


STATES = {
    "newton": (solvers.Newton(), {"state.ended": np.array(99)}, "ended must lie between 0 and 4, got 99"),
    "newton's scores": (solvers.Newton(), {"state.z": np.zeros((3, 1))}, "z must be float64 of shape"),
    "lbfgs": (solvers.SmoothedLBFGS(), {"state.ended": np.array(99)}, "ended must lie between 0 and 3, got 99"),
    "auto": (Auto(), {"state.ended": np.array(99)}, "ended must lie between 0 and 5, got 99"),
    "auto's stage": (Auto(), {"state.stage": np.array(9)}, "stage must lie between 0 and 1, got 9"),
    "auto's scores": (Auto(), {"state.run.z": np.zeros((3, 1))}, "run.z must be float64 of shape"),
    "auto's method": (Auto(), {"state.run.ended": np.array(99)}, "ended must lie between 0 and 3, got 99"),
    "auto without its method": (Auto(), {"state.begun": np.array(0)}, "its state has not the parts"),
    "restarted": (solvers.Restarted(), {"state.stage": np.array(10**6)}, "is damaged"),
    "restarted's rest": (solvers.Restarted(), {"state.left": np.array(10**9)}, "left must be at most"),
    "stages": (solvers.ALEXRDL(), {"state.inner.t": np.array(10**6)}, "inner.t must be below the length"),
}


@pytest.mark.parametrize(("solver", "arrays", "said"), STATES.values(), ids=STATES)
def test_a_state_that_no_run_leads_to_is_refused(cvar_problem, tmp_path, plain, solver, arrays, said):
    path = tmp_path / "run"
    minimize(cvar_problem, solver, budget=Budget(iterations=2), rng=0, checkpoint=Checkpoint(path))
    crafted(path, **arrays)
    with pytest.raises(ValueError, match=said):
        resume(cvar_problem, solver, path, budget=Budget(iterations=4))


BUNDLE = {
    "held": ({"state.cuts.filled": 10**9}, r"cuts.filled must lie between 1 and \d+, got 1000000000"),
    "none held": ({"state.cuts.filled": 0}, "cuts.filled must lie between 1"),
    "kept": (
        {"state.memory.kept": 9, "state.memory.changes": 0.0},
        "memory.kept must count steps along which the slope grows",
    ),
    "slopes": ({"state.cuts.slopes": np.nan}, "cuts.slopes must hold numbers below"),
    "offsets": ({"state.cuts.offsets": np.inf}, "cuts.offsets must hold numbers below"),
    "share": ({"state.share": np.nan}, "share must hold numbers below"),
}


@pytest.mark.parametrize(("arrays", "said"), BUNDLE.values(), ids=BUNDLE)
def test_a_crafted_bundle_is_refused_before_room_is_made_for_it(tmp_path, plain, arrays, said):
    X, y, _ = table(40)
    problem = two_way_partial_auc(X, y, min_tpr=0.5, max_fpr=0.5, l2=0.1)
    solver, path = solvers.Bundle(tol=1e-12), tmp_path / "run"
    minimize(problem, solver, budget=Budget(iterations=4), rng=0, checkpoint=Checkpoint(path))
    known = {name: read_array(data) for name, data in read_members(path.read_bytes()).items() if "npy" in name}
    crafted(path, **{name: np.full_like(known[f"{name}.npy"], value) for name, value in arrays.items()})
    with pytest.raises(ValueError, match=said) as caught:
        resume(problem, solver, path, budget=Budget(iterations=9))
    assert str(caught.value).startswith("path must be a checkpoint")


def test_a_full_disk_costs_the_checkpoint_and_not_the_run(cvar_problem, tmp_path, plain, monkeypatch):
    def full(number):
        raise OSError(28, "No space left on device")

    path, budget = tmp_path / "run", Budget(iterations=5)
    alone = minimize(cvar_problem, SOLVER, budget=budget, rng=0)
    minimize(cvar_problem, SOLVER, budget=Budget(iterations=3), rng=0, checkpoint=Checkpoint(path))
    older = path.read_bytes()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.warns(
        RuntimeWarning, match="run could not be written, and the run goes on without it: .* No space left"
    ):
        found = minimize(cvar_problem, SOLVER, budget=budget, rng=0, checkpoint=Checkpoint(path, every=0.0))
    np.testing.assert_array_equal(found.w, alone.w)
    assert path.read_bytes() == older
    assert [each.name for each in tmp_path.iterdir()] == ["run"]


def test_only_a_checkpoint_is_replaced_by_one(cvar_problem, tmp_path, plain):
    path, run = tmp_path / "table.csv", functools.partial(minimize, cvar_problem, SOLVER, budget=Budget(iterations=2))
    path.write_text("a,b\n1,2\n")
    with pytest.raises(
        ValueError, match=r"path must be a new file or an older checkpoint, .*table.csv is something else"
    ):
        run(checkpoint=Checkpoint(path))
    assert path.read_text() == "a,b\n1,2\n"
    path.write_bytes(b"")
    for _ in range(2):
        run(checkpoint=Checkpoint(path))
    assert read_members(path.read_bytes())


@pytest.mark.parametrize("name", ["none/run", "."])
def test_a_place_where_no_file_can_be_is_refused_before_the_run(cvar_problem, tmp_path, name):
    with pytest.raises((OSError, ValueError), match="path must be a"):
        minimize(cvar_problem, SOLVER, budget=Budget(iterations=2), checkpoint=Checkpoint(tmp_path / name))


def test_the_crafted_checkpoint_is_read_when_nothing_is_wrong_with_it(cvar_problem, tmp_path, plain):
    path = tmp_path / "run"
    minimize(cvar_problem, SOLVER, budget=Budget(iterations=5), rng=0, checkpoint=Checkpoint(path))
    crafted(path)
    assert resume(cvar_problem, SOLVER, path, budget=Budget(iterations=9)).progress.iterations == 9


def test_a_checkpoint_of_other_numbers_has_another_checksum(cvar_problem, tmp_path, plain):
    path = tmp_path / "run"
    minimize(cvar_problem, SOLVER, budget=Budget(iterations=5), rng=0, checkpoint=Checkpoint(path))
    members = read_members(path.read_bytes())
    header = members.pop("header.json")
    held = {name.removesuffix(".npy"): read_array(data) for name, data in members.items()}
    write_archive(path, header, held | {"state.w": held["state.w"] + 1.0})
    with pytest.raises(ValueError, match="its checksum is not that of its content"):
        resume(cvar_problem, SOLVER, path, budget=Budget(iterations=9))


@pytest.mark.parametrize("start", range(5))
def test_a_checkpoint_with_a_flipped_byte_is_refused_or_equal(cvar_problem, tmp_path, plain, start):
    path = tmp_path / "run"
    minimize(cvar_problem, SOLVER, budget=Budget(iterations=5), rng=0, checkpoint=Checkpoint(path))
    whole, run = path.read_bytes(), json.loads(read_members(path.read_bytes())["header.json"])["fingerprint"]
    expected = load_run(path, run)
    for place in range(7 * start, len(whole), 35):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
        with contextlib.suppress(ValueError):
            np.testing.assert_equal(load_run(path, run).state, expected.state)


@pytest.mark.parametrize("solver", [SOLVER, Auto(), solvers.SmoothedLBFGS()], ids=lambda s: type(s).__name__)
def test_a_resumed_trace_is_that_of_a_run_that_was_never_stopped(cvar_problem, tmp_path, plain, solver):
    path = tmp_path / "run"
    whole = minimize(cvar_problem, solver, budget=Budget(iterations=12), rng=0)
    minimize(cvar_problem, solver, budget=Budget(iterations=8), rng=0, checkpoint=Checkpoint(path))
    resume(cvar_problem, solver, path, budget=Budget(iterations=10), checkpoint=Checkpoint(path))
    parts = resume(cvar_problem, solver, path, budget=Budget(iterations=12))
    assert untimed(parts.trace) == untimed(whole.trace)
    np.testing.assert_array_equal(parts.w, whole.w)


def untimed(trace):
    return [point._replace(seconds=0.0) for point in trace.points]


def scaled(array):
    return lambda w: array * w


OFFSET = 1.0


def by_a_global(w):
    return w + OFFSET


class Scale:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, w):
        return self.factor * w

    def of(self, w):
        return self.factor * w


ROWS = np.zeros((300, 400))
ANOTHER = ROWS.copy()
ANOTHER[7, 7] = 1.0

OTHERS = {
    "lambdas": (lambda w: w + 1.0, lambda w: w + 2.0),
    "names in a lambda": (lambda w: np.exp(w), lambda w: np.log(w)),
    "closures": (scaled(np.ones(3)), scaled(np.zeros(3))),
    "defaults": (lambda w, k=1: w * k, lambda w, k=2: w * k),
    "lambdas inside": (lambda w: (lambda v: v + 1)(w), lambda w: (lambda v: v + 2)(w)),
    "partials": (functools.partial(np.add, 1.0), functools.partial(np.add, 2.0)),
    "objects": (Scale(1.0), Scale(2.0)),
    "methods": (Scale(1.0).of, Scale(2.0).of),
    "ufuncs": (np.exp, np.log),
    "an entry of many": (ROWS, ANOTHER),
    "an entry of many in columns": (np.asfortranarray(ROWS), np.asfortranarray(ANOTHER)),
    "types": (np.zeros(3), np.zeros(3, dtype=np.float32)),
}


@pytest.mark.parametrize(("one", "other"), OTHERS.values(), ids=OTHERS)
def test_a_fingerprint_notices_another(one, other):
    assert fingerprint(one) != fingerprint(other)


def test_a_fingerprint_notices_another_global(monkeypatch):
    before = fingerprint(by_a_global)
    monkeypatch.setitem(globals(), "OFFSET", 2.0)
    assert fingerprint(by_a_global) != before


ALIKE = {
    "lambdas": lambda: lambda w: w + 1.0,
    "closures": lambda: scaled(np.ones(3)),
    "objects": lambda: Scale(1.0),
    "methods": lambda: Scale(1.0).of,
    "generators": lambda: np.random.default_rng,
}


@pytest.mark.parametrize("make", ALIKE.values(), ids=ALIKE)
def test_a_fingerprint_does_not_depend_on_where_things_lie(make):
    kept = [make(), make()]
    assert fingerprint(kept[0]) == fingerprint(kept[1])


def test_the_order_of_entries_in_memory_does_not_matter():
    assert fingerprint(np.asfortranarray(ANOTHER)) == fingerprint(ANOTHER)


def test_what_refers_to_itself_has_a_fingerprint():
    def own(w):
        return own(w - 1) if w else 0

    assert len(fingerprint(own)) == 64
