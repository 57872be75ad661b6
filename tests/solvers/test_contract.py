"""What every solver promises."""

from typing import Any, NamedTuple

import numpy as np
import pytest

import xrisk
from tests.solvers import running
from tests.solvers.cases import CASES, FIRST, FULL_BATCH, SAMPLED, compiled, plain, plain_first, plain_slow
from xrisk.certificate import cut_at
from xrisk.compile import specialise
from xrisk.inner import (
    batch_value,
    batch_values,
    batch_vjp,
    draw,
    draw_part,
    exact_jacobians,
    exact_values,
    exact_vjp,
    inner_count,
    inner_dim,
    inner_is_affine,
    inner_pooled,
    inner_samples,
    inner_size,
    new_batch,
    shares_batch,
)
from xrisk.inner.oracle import (
    add_soft_slopes,
    add_tail_slopes,
    batch_losses,
    batch_losses_vjp,
    batch_scores,
    batch_scores_vjp,
    place_block,
    sample_range,
    sample_share,
    sample_slopes,
    sample_vjp,
    soft_value,
    tail_share,
    tail_value,
)
from xrisk.inner.passes import (
    add_hessian,
    add_squares,
    column_sizes,
    inner_gradients,
    jacobian,
    pass_loss,
    pass_rows,
    score_count,
    score_size,
    shared_out,
    walk,
    walk_apart,
    with_loss,
)
from xrisk.run.checkpoint import leaves, with_leaves
from xrisk.solvers.base import known_stop, passes_made

KERNELS = [case for case in SAMPLED if "solver" not in case.solver._fields]  # a solver around another one has none

each_class = pytest.mark.parametrize("case", plain(FIRST) + compiled(FIRST), indirect=True)  # no field changes these
each_long = pytest.mark.parametrize("case", plain_first(CASES) + compiled(CASES), indirect=True)
each_plain = pytest.mark.parametrize("case", plain(CASES), indirect=True)
each_compiled = pytest.mark.parametrize("case", compiled(CASES), indirect=True)
each_kernel = pytest.mark.parametrize("case", compiled(KERNELS), indirect=True)
each_sampled = pytest.mark.parametrize("case", plain_first(SAMPLED) + compiled(SAMPLED), indirect=True)
FIRST_SAMPLED = [case for case in FIRST if case in SAMPLED]
each_sampled_class = pytest.mark.parametrize("case", plain(FIRST_SAMPLED) + compiled(FIRST_SAMPLED), indirect=True)
each_sampled_plain = pytest.mark.parametrize("case", plain(SAMPLED), indirect=True)
each_full_batch = pytest.mark.parametrize("case", plain(FULL_BATCH) + compiled(FULL_BATCH), indirect=True)
each_full_batch_to_the_end = pytest.mark.parametrize(
    "case", plain_slow(FULL_BATCH) + compiled(FULL_BATCH), indirect=True
)
each_full_batch_plain = pytest.mark.parametrize("case", plain(FULL_BATCH), indirect=True)


def begin(case, seed=0):
    return running.begin(case.problem(), case.solver, seed, start=0.01)


def assert_same(a, b, **tolerance):
    left, right = leaves(a), leaves(b)
    assert left.keys() == right.keys()
    for name in left:
        if tolerance:
            np.testing.assert_allclose(left[name], right[name], err_msg=name, **tolerance)
        else:
            np.testing.assert_array_equal(left[name], right[name], err_msg=name)


def copied(state):
    return with_leaves(state, {name: leaf.copy() for name, leaf in leaves(state).items()})


def test_every_solver_has_a_case():
    assert set(xrisk.solvers.METHODS) == {type(case.solver) for case in CASES}


@each_class
def test_zero_steps_change_nothing(case):
    problem, solver, state, rng = begin(case)
    before, stream = copied(state), rng.bit_generator.state
    assert_same(solver.advance(problem, state, 0, rng), before)
    assert rng.bit_generator.state == stream


@each_long
def test_chunks_add_up(case, steps):
    problem, solver, state, rng = begin(case)
    whole = solver.advance(problem, state, steps, rng)
    problem, solver, state, rng = begin(case)
    first = 2 * steps // 5
    parts = solver.advance(problem, solver.advance(problem, state, first, rng), steps - first, rng)
    assert_same(whole, parts)


@each_class
def test_state_types_stay(case):
    problem, solver, state, rng = begin(case)
    after = solver.advance(problem, copied(state), 5, rng)
    assert [type(field) for field in after] == [type(field) for field in state]
    assert [leaf.dtype for leaf in leaves(after).values()] == [leaf.dtype for leaf in leaves(state).values()]


@each_class
def test_the_start_is_untouched(case):
    stated = case.problem()
    w = np.full(inner_size(stated.inner), 0.01)
    xrisk.minimize(stated, case.solver, w, budget=xrisk.Budget(iterations=10), rng=0)
    np.testing.assert_array_equal(w, 0.01)


@each_class
def test_the_same_seed_gives_the_same_run(case):
    runs = [xrisk.minimize(case.problem(), case.solver, budget=xrisk.Budget(iterations=10), rng=7) for _ in range(2)]
    np.testing.assert_array_equal(runs[0].w, runs[1].w)
    np.testing.assert_array_equal(runs[0].dual, runs[1].dual)


@each_sampled_class
def test_another_seed_gives_another_run(case):
    runs = [xrisk.minimize(case.problem(), case.solver, budget=xrisk.Budget(iterations=10), rng=s) for s in (1, 2)]
    assert (runs[0].w != runs[1].w).any()


@each_full_batch
def test_a_full_batch_has_no_noise(case):
    runs = [xrisk.minimize(case.problem(), case.solver, budget=xrisk.Budget(iterations=10), rng=s) for s in (1, 2)]
    np.testing.assert_array_equal(runs[0].w, runs[1].w)


@each_full_batch
def test_single_steps_of_a_full_batch_add_up(case):
    """Up to the end of the run, or as far as `cut`: how many steps a method needs is a matter of rounding."""
    problem, solver, state, rng = begin(case)
    made = 0
    while made < case.cut and known_stop(solver, state) is None:
        state, made = solver.advance(problem, state, 1, rng), made + 1
    problem, solver, whole, rng = begin(case)
    assert_same(solver.advance(problem, whole, made, rng), state)


@each_full_batch_to_the_end
def test_a_method_that_has_converged_stays_where_it_is(case):
    problem, solver, state, rng = begin(case)
    ended = solver.advance(problem, state, case.iterations, rng)
    assert known_stop(solver, ended) in (xrisk.Stop.CONVERGED, xrisk.Stop.LOCAL)
    assert_same(solver.advance(problem, copied(ended), 5, rng), ended)


@each_kernel
def test_compiled_equals_uncompiled(case):
    problem, solver, state, rng = begin(case)
    state = solver.advance(problem, state, 1, rng)  # a method with full passes makes its first one
    steps = specialise(running.kernel_of(solver), problem, solver)
    compiled = steps(problem, copied(state), solver, 50, np.random.default_rng(0))
    plain = steps.py_func(problem, copied(state), solver, 50, np.random.default_rng(0))
    assert_same(compiled, plain, rtol=1e-12, atol=1e-12)


class Counted(NamedTuple):
    """Inner functions that count the calls of their oracles; a Python function makes them run uncompiled."""

    inner: Any
    note: Any  # function of (kind, number)
    sizes: dict[int, int]  # samples of the batches that were made


def samples_of(g, batch):
    """The samples of all components in a batch."""
    return g.sizes[id(batch)] * inner_dim(g.inner)


for _same in (inner_count, inner_dim, inner_size, inner_samples, inner_is_affine, shares_batch, tail_share):
    _same.of(Counted)(lambda g, _same=_same: _same(g.inner))
for _same in (draw, draw_part, place_block, batch_scores, sample_range, sample_share, sample_vjp):
    _same.of(Counted)(lambda g, *arguments, _same=_same: _same(g.inner, *arguments))
inner_pooled.of(Counted)(lambda g: g._replace(inner=inner_pooled(g.inner)))


@new_batch.of(Counted)
def _(g, size):
    batch = new_batch(g.inner, size)
    g.sizes[id(batch)] = size
    return batch


@batch_value.of(Counted)
def _(g, i, w, batch, out):
    g.note("values", samples_of(g, batch))
    batch_value(g.inner, i, w, batch, out)


@batch_values.of(Counted)
def _(g, i, w, w_prev, batch, out, out_prev):
    g.note("values", 2 * samples_of(g, batch))
    batch_values(g.inner, i, w, w_prev, batch, out, out_prev)


@batch_vjp.of(Counted)
def _(g, i, w, batch, y, scale, grad):
    g.note("gradients", samples_of(g, batch))
    batch_vjp(g.inner, i, w, batch, y, scale, grad)


@exact_values.of(Counted)
def _(g, w, out):
    g.note("values", inner_samples(g.inner))
    exact_values(g.inner, w, out)


@exact_vjp.of(Counted)
def _(g, w, y, grad):
    g.note("gradients", inner_samples(g.inner))
    exact_vjp(g.inner, w, y, grad)


@exact_jacobians.of(Counted)
def _(g, w, out):
    g.note("gradients", inner_samples(g.inner))
    exact_jacobians(g.inner, w, out)


@sample_slopes.of(Counted)
def _(g, p, w, slopes):
    g.note("values", 1)
    g.note("gradients", 1)
    return sample_slopes(g.inner, p, w, slopes)


for _same in (pass_rows, pass_loss, score_count, score_size, column_sizes):
    _same.of(Counted)(lambda g, _same=_same: _same(g.inner))
with_loss.of(Counted)(lambda g, loss: g._replace(inner=with_loss(g.inner, loss)))
add_hessian.of(Counted)(lambda g, *arguments: add_hessian(g.inner, *arguments))
add_squares.of(Counted)(lambda g, visitor, at, c, H: add_squares(g.inner, visitor, at, c, H))
jacobian.of(Counted)(lambda g, visitor, at: jacobian(g.inner, visitor, at))
shared_out.of(Counted)(lambda g, coefs, share: shared_out(g.inner, coefs, share))


@walk.of(Counted)
def _(g, visitor, at, share):
    g.note("gradients" if share.size else "values", inner_samples(g.inner))
    return walk(g.inner, visitor, at, share)


@walk_apart.of(Counted)
def _(g, visitor, at):
    g.note("values", inner_samples(g.inner))
    return walk_apart(g.inner, visitor, at)


@inner_gradients.of(Counted)
def _(g, coefs):
    g.note("gradients", inner_samples(g.inner))
    return inner_gradients(g.inner, coefs)


@tail_value.of(Counted)
def _(g, score, batch, s):
    g.note("values", batch.rows.size)
    return tail_value(g.inner, score, batch, s)


@add_tail_slopes.of(Counted)
def _(g, batch_i, a, batch_j, s, scale):
    g.note("gradients", batch_j.rows.size)
    return add_tail_slopes(g.inner, batch_i, a, batch_j, s, scale)


@soft_value.of(Counted)
def _(g, score, batch, lam):
    g.note("values", batch.rows.size)
    return soft_value(g.inner, score, batch, lam)


@add_soft_slopes.of(Counted)
def _(g, batch_i, a, batch_j, lam, log_u, log_scale):
    g.note("gradients", batch_j.rows.size)
    add_soft_slopes(g.inner, batch_i, a, batch_j, lam, log_u, log_scale)


@batch_scores_vjp.of(Counted)
def _(g, batch, grad):
    g.note("rows", batch.rows.size)
    batch_scores_vjp(g.inner, batch, grad)


@batch_losses.of(Counted)
def _(g, w, batch, out):
    g.note("values", batch.rows.size)
    batch_losses(g.inner, w, batch, out)


@batch_losses_vjp.of(Counted)
def _(g, w, batch, scales, grad):
    g.note("gradients", batch.rows.size)
    batch_losses_vjp(g.inner, w, batch, scales, grad)


@cut_at.of(Counted)
def _(g, sizes, rho, w):
    g.note("values", inner_samples(g.inner))
    g.note("gradients", inner_samples(g.inner))
    return cut_at(g.inner, sizes, rho, w)


@each_sampled_plain
def test_declared_oracles_equal_counted_ones(case):
    problem, solver, state, rng = begin(case)
    counts = {"values": 0, "gradients": 0, "rows": 0}

    def note(kind, number):
        counts[kind] += number

    counted = problem._replace(inner=Counted(problem.inner, note, {}))
    after = solver.advance(counted, state, 10, rng)
    rows = counts.pop("rows")
    counts["gradients"] = counts["gradients"] or rows  # of methods that compare no rows
    assert counts == passes_made(solver, problem, after, 10)._asdict()


@each_full_batch_plain
def test_full_passes_told_equal_counted_ones(case):
    problem, solver, state, rng = begin(case)
    counts = dict(passes_made(solver, problem, state, 0)._asdict())

    def note(kind, number):
        counts[kind] += number

    after = solver.advance(problem._replace(inner=Counted(problem.inner, note, {})), state, case.cut, rng)
    assert counts == passes_made(solver, problem, after, case.cut)._asdict()


@each_full_batch_plain
def test_a_full_batch_takes_at_least_the_passes_it_declares(case):
    result = xrisk.minimize(case.problem(), case.solver, budget=xrisk.Budget(iterations=case.cut))
    problem, solver = case.solver.prepare(case.problem())
    assert sum(solver.oracles(problem, case.cut)) <= result.progress.oracle_calls


@each_sampled
def test_a_counting_wrapper_runs_the_same_iterations_uncompiled(case):
    problem, solver, state, rng = begin(case)
    plain = solver.advance(problem, state, 20, rng)
    problem, solver, state, rng = begin(case)
    counted = problem._replace(inner=Counted(problem.inner, lambda kind, number: None, {}))
    assert_same(solver.advance(counted, state, 20, rng), plain, rtol=1e-12, atol=1e-12)


@each_plain
def test_arrays_of_a_state_lie_in_one_piece_as_those_of_a_checkpoint_do(case, steps):
    problem, solver, state, rng = begin(case)
    found = leaves(solver.advance(problem, state, min(case.cut, steps), rng))
    assert [name for name, array in found.items() if not array.flags.c_contiguous] == []


@each_long
def test_resuming_equals_never_stopping(case, tmp_path, steps):
    path = tmp_path / "run"
    stated, solver = case.problem(), case.solver
    whole = xrisk.minimize(stated, solver, budget=xrisk.Budget(iterations=steps), rng=3)
    cut = min(case.cut, steps // 2)
    xrisk.minimize(stated, solver, budget=xrisk.Budget(iterations=cut), rng=3, checkpoint=xrisk.Checkpoint(path))
    parts = xrisk.resume(stated, solver, path, budget=xrisk.Budget(iterations=steps))
    np.testing.assert_array_equal(whole.w, parts.w)
    np.testing.assert_array_equal(whole.dual, parts.dual)
    assert trace_without(parts, cut) == trace_without(whole, cut)


def trace_without(result, iteration):
    """Where a run is cut there is a point of the trace."""
    return [(point.iterations, point.value) for point in result.trace.points if point.iterations != iteration]


@each_compiled
def test_it_converges_to_the_exact_optimum(case):
    stated = case.problem()
    aim = case.aim(stated)
    result = xrisk.minimize(stated, case.solver, budget=xrisk.Budget(iterations=case.iterations), rng=0)
    assert -1e-8 < aim.value(result.w) - case.optimum(aim) < case.gap
