"""Full passes on any number of threads: the same bits, the limits of others kept, interrupted within a part."""

import os
import subprocess
import sys
import threading

import numba
import numpy as np
import pytest
import scipy.sparse
from threadpoolctl import threadpool_limits

import xrisk
from xrisk.data import threads
from xrisk.data.products import Centred, row_adjoint, row_gram, row_scores, scaled_norms
from xrisk.data.rows import WithIntercept, as_rows
from xrisk.data.threads import Interrupted, borders, give_way, in_parts, interruptible, uninterrupted

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40_000, 12))
ROWS = {
    "dense": as_rows(X),
    "float32": as_rows(X.astype(np.float32)),
    "sparse": as_rows(scipy.sparse.csr_array(X * (X > 1.0))),
    "intercept": WithIntercept(as_rows(X)),
    "centred": Centred(as_rows(X), X.mean(axis=0)),
}


@pytest.fixture(params=[1, 2, 4])
def workers(request, monkeypatch):
    monkeypatch.setattr(threads, "threads", lambda: request.param)
    return request.param


def products(rows):
    columns = 12 if not isinstance(rows, (WithIntercept, Centred)) else 13
    rng = np.random.default_rng(1)
    w, s, h = rng.standard_normal((1, columns)), rng.standard_normal((40_000, 1)), rng.random(40_000)
    parts = (row_scores(rows, w), row_adjoint(rows, s), row_gram(rows, h), scaled_norms(rows, np.ones(columns)))
    return [np.asarray(part) for part in parts]


FIRST = {}


@pytest.mark.skipif(os.cpu_count() == 1, reason="one core has one thread of BLAS anyway")
@pytest.mark.parametrize("shape", [(40_000, 24), (5_000, 300)], ids=str)
def test_a_fit_of_rows_is_the_same_bits_for_any_number_of_threads_of_blas(shape):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal(shape)
    y = np.where(rows[:, 0] + rng.standard_normal(len(rows)) > 0, 1, -1)
    model = xrisk.DROClassifier("cvar", alpha=0.9).fit(rows, y)
    with threadpool_limits(1, user_api="blas"):
        alone = xrisk.DROClassifier("cvar", alpha=0.9).fit(rows, y)
    np.testing.assert_array_equal(model.coef_, alone.coef_)


@pytest.mark.parametrize("kind", ROWS)
def test_products_are_the_same_bits_for_any_number_of_threads(kind, workers):
    found = products(ROWS[kind])
    for one, other in zip(FIRST.setdefault(kind, found), found, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("sort", [False, True], ids=["mixed", "sorted"])
def test_a_fit_is_the_same_bits_for_any_number_of_threads(sort, workers):
    groups = np.arange(40_000) % 7
    y = np.where(X[:, 0] + 0.3 * groups * X[:, 1] > 0.2 * np.sin(np.arange(40_000)), 1, -1)
    order = np.argsort(groups, kind="stable") if sort else np.arange(40_000)
    model = xrisk.GroupDROClassifier("cvar", alpha=0.4).fit(X[order], y[order], groups=groups[order])
    first = FIRST.setdefault(("fit", sort), model)
    np.testing.assert_array_equal(first.coef_, model.coef_)
    assert first.certificate_ == model.certificate_


def test_borders_do_not_depend_on_threads(workers):
    assert borders(1_000_000, 20).size == 17


def test_parts_come_back_in_their_order(workers):
    assert in_parts(lambda low, high: (low, high), np.array([0, 3, 5, 9])) == [(0, 3), (3, 5), (5, 9)]


def test_an_error_in_a_part_reaches_the_caller(workers):
    with pytest.raises(ZeroDivisionError):
        in_parts(lambda low, high: 1 // low, np.array([0, 3, 5, 9]))


def test_a_limit_of_threadpoolctl_is_kept():
    with threadpool_limits(limits=1):
        assert threads.threads() == 1


def test_a_limit_of_numba_is_kept():
    before = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        assert threads.threads() == 1
    finally:
        numba.set_num_threads(before)


def test_a_pass_that_is_asked_to_stop_raises_before_its_next_part(workers):
    done = []
    with interruptible(lambda: len(done) > 2), pytest.raises(Interrupted):
        in_parts(lambda low, high: done.append(low), np.arange(0, 1000))
    assert len(done) < 1000


def test_a_part_gives_way_in_its_thread(workers):
    reached, at = [], np.array([0, 1, 2])

    def part(low, high):
        reached.append(low)
        give_way()
        reached.append("end")

    with interruptible(lambda: bool(reached)), pytest.raises(Interrupted):
        in_parts(part, at)
    assert "end" not in reached


def test_passes_of_other_threads_do_not_stop(workers):
    done = []
    other = threading.Thread(target=lambda: done.extend(in_parts(lambda low, high: low, np.arange(4))))
    with interruptible(lambda: True):
        other.start()
        other.join()
    assert done == [0, 1, 2]


def test_a_pass_in_a_thread_can_be_stopped(workers):
    stopped = []

    def run():
        with interruptible(lambda: True), pytest.raises(Interrupted):
            in_parts(lambda low, high: low, np.arange(4))
        stopped.append(True)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert stopped


def test_what_must_be_known_is_not_interrupted(workers):
    with interruptible(lambda: True), uninterrupted():
        assert in_parts(lambda low, high: low, np.arange(4)) == [0, 1, 2]


FORKED = """
import multiprocessing, numpy as np, xrisk
from xrisk.data import threads
X = np.random.default_rng(0).standard_normal((20_000, 8))
y, groups = np.where(X[:, 0] > 0, 1, -1), np.arange(20_000) % 3
def fit(seed):
    return threads.threads(), xrisk.GroupDROClassifier("max").fit(X, y, groups=groups).coef_
if __name__ == "__main__":
    here = fit(0)[1]
    with multiprocessing.get_context("fork").Pool(2) as pool:
        there = pool.map(fit, range(2))
    assert all(count == 1 and np.array_equal(coef, here) for count, coef in there)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_workers_of_a_process_pool_fit_on_one_thread_after_a_fork(tmp_path):
    script = tmp_path / "forked.py"
    script.write_text(FORKED)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
