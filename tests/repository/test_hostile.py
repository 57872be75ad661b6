"""Wrong problems get one clear sentence before anything is compiled; odd but right ones the right answer."""

import sys

import numpy as np
import pytest
import scipy.sparse
from numba.core.registry import CPUDispatcher

import xrisk
import xrisk.functions as fn
from tests.conftest import table
from xrisk import Budget, Problem, group_dro, minimize
from xrisk.applications import hard_nonsmooth, hard_smooth
from xrisk.data.rows import frozen
from xrisk.inner import Callables, Groups, Indexed, LinearModel, NoisyCoordinates, SoftmaxModel, Weighted, as_rows
from xrisk.solvers import ALEXR, Decreasing, GeometricAverage, PolynomialAverage, StageAverage, Stagewise

X, Y, GROUPS = table(60, 3, 3)
W = np.array([0.1, -0.2, 0.3])
OFFSETS = frozen(np.array([0, 20, 40, 60]))


def value(X=X, y=Y, groups=GROUPS, **options):
    return group_dro(X, y, groups, **options).value(W)


def signatures():
    """How much each kernel is compiled for."""
    kernels = [
        thing
        for name, module in list(sys.modules.items())
        if name.startswith("xrisk")
        for thing in vars(module).values()
        if isinstance(thing, CPUDispatcher)
    ]
    return sum(len(kernel.signatures) for kernel in kernels)


def refuses(sentence, error=ValueError):
    return pytest.raises(error, match=sentence)


def with_entry(array, entry):
    changed = np.array(array, dtype=float)
    changed.flat[4] = entry
    return changed


def inner(loss, target=None, **fields):
    target = np.asarray(Y, dtype=float) if target is None else target
    return Groups(LinearModel(as_rows(X), frozen(target), loss), OFFSETS)._replace(**fields)


LOGISTIC = inner(fn.Logistic())

PROBLEMS = [
    (Problem(LOGISTIC, fn.Square()), ValueError, "outer must be non-decreasing .* got Square: .* not be convex"),
    (Problem(LOGISTIC, fn.HardSmooth()), ValueError, "outer must be non-decreasing .* got HardSmooth"),
    (Problem(LOGISTIC, fn.LogisticOuter(1.0)), ValueError, "outer must be non-decreasing .* got LogisticOuter"),
    (Problem(LOGISTIC, fn.CVaRRisk(0.0)), ValueError, r"alpha must lie in \(0, 1\], got 0.0"),
    (Problem(LOGISTIC, fn.KLRisk(-1.0)), ValueError, "lam must be positive, got -1.0"),
    (Problem(LOGISTIC, fn.Power(1.0)), ValueError, "p must be above 1 and finite, got 1.0"),
    (Problem(LOGISTIC, fn.MaxRisk(), fn.L2(-1.0)), ValueError, "l2 must be finite and not negative, got -1.0"),
    (Problem(LOGISTIC, fn.MaxRisk(), fn.Ball(0.0)), ValueError, "radius must be positive, got 0.0"),
    (Problem(LOGISTIC, fn.MaxRisk(), fn.Box(1.0, 0.0)), ValueError, "high must be at least low=1.0, got 0.0"),
    (Problem(LOGISTIC, fn.L2()), TypeError, r"outer must be an outer function or a risk, got L2"),
    (Problem(LOGISTIC, None), TypeError, "outer must be an outer function or a risk, got None"),
    (Problem(LOGISTIC, fn.MaxRisk(), None), TypeError, "penalty must be a spec that implements prox, got None"),
    (Problem(X, fn.MaxRisk()), TypeError, "inner must be a spec that implements inner_count, got a ndarray"),
    (Problem(LOGISTIC._replace(dim=2), fn.MaxOuter()), ValueError, "dim must divide the number of groups, 3, got 2"),
    (Problem(LOGISTIC._replace(dim=3), fn.MaxRisk()), ValueError, "inner functions of one component, got 3"),
    (Problem(LOGISTIC._replace(offsets=np.array([0, 20, 20, 60])), fn.MaxRisk()), ValueError, "group 1 is empty"),
    (Problem(LOGISTIC._replace(offsets=np.array([0, 20, 50])), fn.MaxRisk()), ValueError, "number of rows, 60, got 50"),
    (Problem(LOGISTIC._replace(index=Indexed(np.full(60, 60))), fn.MaxRisk()), ValueError, "60 rows between 0 and 59"),
    (Problem(LOGISTIC._replace(weight=Weighted(-np.ones(60))), fn.MaxRisk()), ValueError, "weights must be finite and"),
    (
        Problem(inner(fn.Logistic(), np.ones(59)), fn.MaxRisk()),
        ValueError,
        r"of the 60 rows of X, got shape \(59,",
    ),
    (Problem(inner(fn.Logistic(), with_entry(Y, np.nan)), fn.MaxRisk()), ValueError, "y must be finite"),
    (Problem(inner(fn.Logistic(), (Y + 1.0) / 2), fn.MaxRisk()), ValueError, r"y must hold −1 and 1 .* got \[0. 1.\]"),
    (Problem(inner(fn.L2()), fn.MaxRisk()), TypeError, "loss must be a spec that implements loss_value, got L2"),
    (Problem(inner(fn.Huber(0.0)), fn.MaxRisk()), ValueError, "delta must be positive, got 0.0"),
    (
        Problem(Groups(SoftmaxModel(as_rows(X), frozen(GROUPS), 2), OFFSETS), fn.MaxRisk()),
        ValueError,
        r"y must hold the classes 0, …, 1, got \[0 1 2\]",
    ),
    (
        Problem(Groups(SoftmaxModel(as_rows(X), frozen(GROUPS), 3, fn.Squared()), OFFSETS), fn.MaxRisk()),
        TypeError,
        "loss must be a spec that implements scores_value, got Squared",
    ),
]


@pytest.mark.parametrize(("problem", "error", "sentence"), PROBLEMS, ids=[case[2][:30] for case in PROBLEMS])
def test_a_wrong_problem_is_refused_before_anything_is_compiled(problem, error, sentence):
    before = signatures()
    with refuses(sentence, error) as caught:
        minimize(problem, ALEXR(), budget=Budget(iterations=1))
    assert "\n" not in str(caught.value)
    assert signatures() == before


SOLVERS = [
    (ALEXR(theta=1.5), "theta must lie between 0 and 1, got 1.5"),
    (ALEXR(theta=-0.1), "theta must lie between 0 and 1, got -0.1"),
    (ALEXR(theta=np.nan), "theta must lie between 0 and 1, got nan"),
    (ALEXR(blocks=4), "blocks must lie between 1 and the number of inner functions, 3, got 4"),
    (ALEXR(blocks=0), "blocks must lie between 1 and the number of inner functions, 3, got 0"),
    (ALEXR(batch=0), "batch must be at least 1, got 0"),
    (ALEXR(batch=1.5), "batch must be a whole number, got 1.5"),
    (ALEXR(batch="many"), "batch must be a whole number, got 'many'"),
    (ALEXR(blocks=2.0), "blocks must be a whole number, got 2.0"),
    (ALEXR(step=Decreasing("a")), "initial must be positive, got 'a'"),
    (ALEXR(step=Decreasing(power="a")), "power must lie between 0 and 1, got 'a'"),
    (ALEXR(step=Stagewise(length=10.5)), "length must be a whole number, got 10.5"),
    (ALEXR(step=Stagewise(growth=0.5)), "growth must be at least 1, got 0.5"),
    (ALEXR(average=PolynomialAverage(1.5)), "power must be a whole number, got 1.5"),
    (ALEXR(average=PolynomialAverage(np.nan)), "power must be a whole number, got nan"),
    (ALEXR(average=GeometricAverage("a")), "theta must lie strictly between 0 and 1, got 'a'"),
    (ALEXR(average=StageAverage(Stagewise(-1.0))), "initial must be positive, got -1.0"),
    (ALEXR(average=StageAverage(Decreasing())), r"stages must be a stagewise schedule, got Decreasing"),
    (ALEXR(theta="1"), "theta must lie between 0 and 1, got '1'"),
    (ALEXR(step=0.0), "step must be positive"),
    (ALEXR(dual_step=-1.0), "dual_step must be positive"),
]


@pytest.mark.parametrize(("solver", "sentence"), SOLVERS, ids=[case[1][:30] for case in SOLVERS])
def test_a_wrong_solver_is_refused_before_anything_is_compiled(solver, sentence):
    before = signatures()
    with refuses(sentence):
        minimize(Problem(LOGISTIC, fn.CVaRRisk(0.5)), solver, budget=Budget(iterations=1))
    assert signatures() == before


@pytest.mark.parametrize("w0", [np.zeros(4), np.zeros((3, 1)), np.full(3, np.nan)], ids=["long", "column", "nan"])
def test_a_wrong_start_is_refused(w0):
    with refuses(r"w0 must be finite and of shape \(3,\)"):
        minimize(Problem(LOGISTIC, fn.CVaRRisk(0.5)), ALEXR(), w0, budget=Budget(iterations=1))


@pytest.mark.parametrize("eps", [0.0, -1.0, np.nan])
@pytest.mark.parametrize("instance", [hard_smooth, hard_nonsmooth])
def test_an_accuracy_that_is_not_positive_is_refused(instance, eps):
    with refuses(f"eps must .*, got {eps}"):
        instance(4, eps=eps)


def test_noise_around_no_coordinates_is_refused():
    with refuses("n must"):
        Problem(NoisyCoordinates(0), fn.HardSmooth()).check()


ARGUMENTS = [
    ({"X": with_entry(X, np.nan)}, "X must be finite"),
    ({"X": with_entry(X, -np.inf)}, "X must be finite"),
    ({"X": scipy.sparse.csr_array(with_entry(X, np.inf))}, "X must be finite"),
    ({"X": np.full(X.shape, np.longdouble("1e400"))}, "X must be finite"),
    ({"X": X[:, 0]}, r"X must have two dimensions, got shape \(60,\)"),
    ({"X": X[None]}, r"X must have two dimensions, got shape \(1, 60, 3\)"),
    ({"X": scipy.sparse.coo_array(X[:, 0])}, r"X must have two dimensions, got shape \(60,\)"),
    ({"X": X[:0], "y": [], "groups": []}, r"X must have at least one row and one column, got shape \(0, 3\)"),
    ({"X": X[:, :0]}, r"X must have at least one row and one column, got shape \(60, 0\)"),
    ({"X": scipy.sparse.csr_array((0, 3))}, r"X must have at least one row and one column, got shape \(0, 3\)"),
    ({"X": None}, "X must hold numbers, got dtype object"),
    ({"X": X.astype(str)}, "X must hold numbers, got dtype <U"),
    ({"X": X.astype(object)}, "X must hold numbers, got dtype object"),
    ({"X": X + 1j}, "X must hold numbers, got dtype complex128"),
    ({"X": scipy.sparse.csr_array(X + 1j)}, "X must hold numbers, got dtype complex128"),
    ({"X": X.astype("m8[s]")}, "X must hold numbers, got dtype timedelta64"),
    ({"X": [[1.0, 2.0], [3.0]]}, "X must be an array of numbers, got parts of unequal lengths"),
    ({"X": np.ma.masked_greater(X, 1.0)}, "X must not be masked"),
    ({"y": Y[:-1]}, r"y must have one entry for each of the 60 rows of X, got shape \(59,\)"),
    ({"y": Y[:, None]}, r"y must have one entry for each of the 60 rows of X, got shape \(60, 1\)"),
    ({"y": 1}, r"y must have one entry for each of the 60 rows of X, got shape \(\)"),
    ({"y": with_entry(Y, np.nan)}, "y must be finite"),
    ({"y": with_entry(Y, np.inf), "loss": "squared"}, "y must be finite"),
    ({"y": Y.astype(str)}, "y must hold numbers, got dtype <U"),
    ({"y": Y + 0j}, "y must hold numbers, got dtype complex128"),
    ({"y": (Y > 0).astype(int)}, r"y must hold −1 and 1 for a classification loss, got \[0. 1.\]"),
    ({"y": Y > 0, "loss": "hinge"}, "y must hold −1 and 1 for a classification loss"),
    ({"y": np.ma.masked_equal(Y, 1)}, "y must not be masked"),
    ({"y": GROUPS - 1, "loss": "multinomial"}, r"y must hold the classes 0, …, K−1, at least two, got \[-1  0  1\]"),
    ({"y": 0 * Y, "loss": "multinomial"}, r"y must hold the classes 0, …, K−1, at least two, got \[0\]"),
    ({"y": 0.5 * GROUPS, "loss": "multinomial"}, "y must hold the classes 0, …, K−1"),
    ({"groups": GROUPS[:-1]}, r"groups must be a label for each of the 60 rows .* got shape \(59,\)"),
    ({"groups": GROUPS[:, None]}, r"groups must be a label for each of the 60 rows .* got shape \(60, 1\)"),
    ({"groups": None}, r"groups must be a label for each of the 60 rows .* got shape \(\)"),
    ({"groups": with_entry(GROUPS, np.nan)}, "groups must not hold NaN or None"),
    ({"groups": ["a", None, "b"] * 20}, "groups must not hold NaN or None"),
    ({"groups": np.array(["a", np.nan, "b"] * 20, dtype=object)}, "groups must not hold NaN or None"),
    ({"groups": np.array(["2020-01-01", "NaT"] * 30, dtype="M8[D]")}, "groups must not hold NaN or None"),
    ({"groups": np.ma.masked_equal(GROUPS, 2)}, "groups must not be masked"),
    ({"groups": np.eye(4, dtype=bool)[GROUPS]}, "every group must hold at least one row, group 3 is empty"),
    ({"groups": np.zeros((60, 2), dtype=bool)}, "every row must belong to a group, row 0 belongs to none"),
    ({"groups": np.eye(3, dtype=bool)[GROUPS[1:]]}, r"one row for each of the 60 rows of X, got shape \(59, 3\)"),
    ({"sample_weight": with_entry(np.ones(60), np.nan)}, "sample_weight must be finite and non-negative, got nan"),
    ({"sample_weight": with_entry(np.ones(60), np.inf)}, "sample_weight must be finite and non-negative, got inf"),
    ({"sample_weight": with_entry(np.ones(60), -1)}, "sample_weight must be finite and non-negative, got -1.0"),
    ({"sample_weight": np.ones((60, 1))}, r"sample_weight must have one entry .* 60 rows of X, got shape \(60, 1\)"),
    ({"sample_weight": GROUPS}, "sample_weight must be positive somewhere in every group, not in group 0"),
    ({"sample_weight": ["a"] * 60}, "sample_weight must hold numbers, got dtype <U1"),
    ({"sample_weight": np.ones(60) + 0j}, "sample_weight must hold numbers, got dtype complex128"),
    ({"alpha": 0.0}, r"alpha must lie in \(0, 1\], got 0.0"),
    ({"alpha": np.nan}, r"alpha must lie in \(0, 1\], got nan"),
    ({"divergence": "kl", "lam": 0.0}, "lam must be positive, got 0.0"),
    ({"divergence": "chi3"}, "divergence must be one of cvar, chi2, chi2-b, kl, max or a spec, got 'chi3'"),
    ({"loss": "log"}, "loss must be one of logistic, .* got 'log'"),
    ({"l1": -1.0}, "l1 must be finite and not negative, got -1.0"),
    ({"l1": 1e155}, r"l1 must be at most 1e\+150, got 1e\+155"),
    ({"l2": np.inf}, "l2 must be finite and not negative, got inf"),
    ({"l2": np.nan}, "l2 must be finite and not negative, got nan"),
    ({"divergence": fn.Square()}, "outer must be non-decreasing"),
]
TYPES = [
    ({"groups": np.array(["a", 1, "b"] * 20, dtype=object)}, "groups must hold labels of one kind, got int, str"),
    ({"alpha": "half"}, "alpha must be a number, got 'half'"),
    ({"lam": None}, "lam must be a number, got None"),
    ({"l2": "1e-3?"}, r"l2 must be a number, got '1e-3\?'"),
    ({"l1": [0.1, 0.2]}, r"l1 must be a number, got \[0.1, 0.2\]"),
    ({"divergence": None}, "divergence must be one of cvar, .* or a spec of a risk, got None"),
    ({"fit_intercept": "no"}, "fit_intercept must be True or False, got 'no'"),
    ({"fit_intercept": 1}, "fit_intercept must be True or False, got 1"),
    ({"l2": True}, "l2 must be a number, got True"),
    ({"l2": "0.1"}, "l2 must be a number, got '0.1'"),
    ({"loss": None}, "loss must be a spec that implements loss_value, got None"),
    ({"loss": fn.L2()}, "loss must be a spec that implements loss_value, got L2"),
]


@pytest.mark.parametrize(("arguments", "sentence"), ARGUMENTS, ids=[case[1][:40] for case in ARGUMENTS])
def test_wrong_arguments_are_refused_before_anything_is_compiled(arguments, sentence):
    before = signatures()
    with refuses(sentence) as caught:
        value(**arguments)
    assert "\n" not in str(caught.value)
    assert signatures() == before


@pytest.mark.parametrize(("arguments", "sentence"), TYPES, ids=[case[1][:40] for case in TYPES])
def test_arguments_of_a_wrong_type_are_refused_before_anything_is_compiled(arguments, sentence):
    before = signatures()
    with refuses(sentence, TypeError):
        value(**arguments)
    assert signatures() == before


PARAMETERS = [
    ({"tol": "a"}, "tol must be positive, got 'a'"),
    ({"tol": None}, "tol must be positive, got None"),
    ({"max_iter": None}, "max_iter must be a whole number, got None"),
    ({"max_iter": 1.5}, "max_iter must be a whole number, got 1.5"),
    ({"max_iter": True}, "max_iter must be a whole number, got True"),
    ({"max_iter": 0}, "max_iter must be at least 1, got 0"),
    ({"max_seconds": "a"}, "max_seconds must be positive, got 'a'"),
    ({"fit_intercept": "no"}, "fit_intercept must be True or False, got 'no'"),
    ({"fit_intercept": None}, "fit_intercept must be True or False, got None"),
    ({"warm_start": "no"}, "warm_start must be True or False, got 'no'"),
    ({"verbose": "no"}, "verbose must be a whole number, got 'no'"),
    ({"random_state": "a"}, "random_state must be None, a whole number from 0 to 2³² − 1 or a RandomState, got 'a'"),
    ({"random_state": -1}, "random_state must be None, a whole number from 0 to 2³² − 1 or a RandomState, got -1"),
    ({"solver": None}, "solver must be 'auto' or a solver spec such as ALEXR.., got None"),
    ({"divergence": 3}, "divergence must be one of cvar, .* or a spec of a risk, got 3"),
]


@pytest.mark.parametrize(("parameters", "sentence"), PARAMETERS, ids=[case[1][:40] for case in PARAMETERS])
def test_a_parameter_of_the_wrong_kind_is_told_in_a_sentence(parameters, sentence, plain):
    with refuses(sentence, (ValueError, TypeError)):
        xrisk.GroupDROClassifier(**parameters).fit(X, Y, groups=GROUPS)


RUNS = [
    ({"budget": Budget(iterations="a")}, "iterations must be a number or None, got 'a'"),
    ({"budget": Budget(seconds=True)}, "seconds must be a number or None, got True"),
    ({"rng": "a"}, "rng must be None, a whole number from 0 on or a Generator, got 'a'"),
    ({"rng": -1}, "rng must be None, a whole number from 0 on or a Generator, got -1"),
    ({"w0": "start"}, r"w0 must be an array of numbers of shape .3,., got str"),
    ({"solver": "alexr"}, r"solver must be a solver spec such as ALEXR.., got 'alexr'"),
    ({"solver": ALEXR}, "solver must be a solver spec such as ALEXR.., got <class"),
]


@pytest.mark.parametrize(("arguments", "sentence"), RUNS, ids=[case[1][:40] for case in RUNS])
def test_an_argument_of_a_run_of_the_wrong_kind_is_told_in_a_sentence(arguments, sentence):
    known = {"solver": ALEXR(), "w0": None, "budget": Budget(iterations=1), "rng": 0} | arguments
    with refuses(sentence, TypeError):
        minimize(Problem(LOGISTIC, fn.CVaRRisk(0.5)), **known)


@pytest.mark.parametrize("make", [lambda: xrisk.Checkpoint("run", every="a"), lambda: xrisk.Trace(ratio="a")])
def test_how_often_is_a_number(make):
    with refuses("(every|ratio) must be .*, got 'a'"):
        make()


@pytest.mark.parametrize("store", [np.asarray, scipy.sparse.csr_array], ids=["dense", "sparse"])
def test_columns_whose_squares_overflow_are_refused_without_a_warning(store, plain):
    with refuses("columns of X must be at most 1e.150 in size"):
        xrisk.GroupDROClassifier().fit(store(1e200 * X), Y, groups=GROUPS)


def test_targets_whose_squares_overflow_are_refused_without_a_warning(plain):
    with refuses("y must be at most 1e.150 in size"):
        xrisk.GroupDRORegressor().fit(X, 1e200 * X[:, 0], groups=GROUPS)


@pytest.mark.parametrize("outer", [None, 3, ["negatives"]], ids=repr)
def test_the_side_of_a_push_is_a_word(outer):
    with refuses("outer must be one of negatives, positives, got", TypeError):
        xrisk.PNormPushClassifier(outer=outer).fit(X, Y)


def moved(i, w, *more):
    w += 1.0
    return w[0]


@pytest.mark.parametrize("name", ["value", "vjp", "exact"])
def test_a_function_that_writes_into_w_is_refused(name):
    still = {"value": lambda i, w, noise: w[0], "vjp": lambda i, w, noise, y: y, "exact": lambda i, w: w[0]}
    g = Callables(n=2, d=1, sample=lambda i, rng, size: None, **(still | {name: moved}))
    with refuses("read-only"):
        minimize(Problem(g, fn.Softplus(), fn.L2(1.0)), ALEXR(blocks=2), budget=Budget(iterations=3), rng=0)


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


def duplicated(array):
    """Every entry as two halves, and explicit zeros."""
    rows, columns = np.nonzero(np.ones_like(array))
    halves = 0.5 * array[rows, columns]
    zeros = np.zeros(array.shape[0])
    place = np.arange(array.shape[0])
    data = np.concatenate([halves, zeros, halves])
    at = (np.concatenate([rows, place, rows]), np.concatenate([columns, 0 * place, columns]))
    return scipy.sparse.coo_array((data, at), shape=array.shape)


def with_wide_indices(array):
    csr = scipy.sparse.csr_array(array)
    csr.indices, csr.indptr = csr.indices.astype(np.int64), csr.indptr.astype(np.int64)
    return csr


class Framed:
    """A table that is an array only when asked to be, as a data frame is."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return self.array if dtype is None else self.array.astype(dtype)


GUISES = {
    "list": np.ndarray.tolist,
    "read-only": read_only,
    "Fortran": np.asfortranarray,
    "slice": lambda a: np.repeat(np.repeat(a, 2, axis=0), 2, axis=1)[::2, ::2],
    "reversed": lambda a: np.ascontiguousarray(a[::-1])[::-1],
    "big-endian": lambda a: a.astype(">f8"),
    "longdouble": lambda a: a.astype(np.longdouble),
    "frame": Framed,
    "csr": scipy.sparse.csr_array,
    "csr_matrix": scipy.sparse.csr_matrix,
    "csc": scipy.sparse.csc_array,
    "coo": scipy.sparse.coo_array,
    "lil": scipy.sparse.lil_array,
    "duplicates": duplicated,
    "csr-duplicates": lambda a: duplicated(a).tocsr(copy=True),
    "int64-indices": with_wide_indices,
}


@pytest.mark.parametrize("guise", GUISES.values(), ids=GUISES)
def test_the_same_rows_in_any_guise_have_the_same_value(guise):
    assert value(guise(X)) == pytest.approx(value(), rel=1e-14)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int8, np.uint8, np.int64, np.bool_])
@pytest.mark.parametrize("store", [np.asarray, scipy.sparse.csr_array], ids=["dense", "sparse"])
def test_narrow_numbers_are_worth_what_they_say(dtype, store):
    narrow = (np.arange(60) % 4 > np.arange(3)[:, None]).T * 3
    narrow = narrow.astype(dtype) if store is np.asarray or dtype != np.float16 else narrow.astype(np.float32)
    assert value(store(narrow)) == pytest.approx(value(narrow.astype(float)), rel=1e-14)


LABELS = {
    "strings": np.array(["x", "y", "z"])[GROUPS],
    "objects": np.array(["x", "y", "z"], dtype=object)[GROUPS],
    "list": GROUPS.tolist(),
    "floats": np.array([-np.inf, 0.5, np.inf])[GROUPS],
    "uint8": GROUPS.astype(np.uint8),
    "dates": np.array(["2020-01-01", "2020-01-02", "2021-01-01"], dtype="M8[D]")[GROUPS],
    "membership": np.eye(3, dtype=bool)[GROUPS],
    "frame": Framed(GROUPS),
}


@pytest.mark.parametrize("groups", LABELS.values(), ids=LABELS)
def test_groups_in_any_guise_have_the_same_value(groups):
    assert value(groups=groups) == value()


@pytest.mark.parametrize("y", [Y.tolist(), Y.astype(np.int8), Y.astype(np.float32), Framed(Y), read_only(Y)])
def test_labels_in_any_guise_have_the_same_value(y):
    assert value(y=y) == value()


@pytest.mark.parametrize("scale", [1e-320, 1.0, 1e308])
def test_the_scale_of_weights_does_not_matter(scale):
    assert value(sample_weight=np.full(60, scale)) == pytest.approx(value(), rel=1e-14)


def test_the_scale_of_the_weights_of_a_group_does_not_matter():
    assert value(sample_weight=np.array([1e-300, 1.0, 1e300])[GROUPS]) == pytest.approx(value(), rel=1e-14)


def test_boolean_labels_are_two_groups():
    assert value(groups=GROUPS > 0) == value(groups=np.minimum(GROUPS, 1))


@pytest.mark.parametrize("divergence", ["cvar", "chi2", "chi2-b", "kl", "max"])
def test_one_group_is_its_mean_loss(divergence):
    expected = np.log1p(np.exp(-Y * (X @ W))).mean()
    assert value(groups=np.zeros(60), divergence=divergence) == pytest.approx(expected, rel=1e-13)


def test_groups_of_one_row_are_the_rows():
    expected = np.log1p(np.exp(-Y * (X @ W))).max()
    assert value(groups=np.arange(60), divergence="max") == pytest.approx(expected, rel=1e-14)


def test_one_class_is_a_problem_too():
    expected = max(np.log1p(np.exp(-(X @ W)))[i == GROUPS].mean() for i in range(3))
    assert value(y=np.ones(60), divergence="max") == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("features", [np.ones((60, 3)), np.zeros((60, 3))], ids=["ones", "zeros"])
def test_constant_features_are_solved(features):
    best = xrisk.solvers.exact(group_dro(features, Y, GROUPS, l2=0.1))
    assert best.value <= np.log(2.0) * (1 + 1e-12)
    assert best.stop is xrisk.Stop.CONVERGED


def test_huge_features_keep_a_finite_loss():
    assert np.isfinite(value(1e300 * X))


def test_losses_that_overflow_are_infinite_and_not_nan():
    assert value(1e300 * X, loss="squared") == np.inf


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_in_c_order_are_not_copied(dtype):
    rows = X.astype(dtype)
    assert np.shares_memory(group_dro(rows, Y, GROUPS).inner.model.rows.X, rows)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_memory_maps_are_not_copied(dtype, tmp_path):
    disk = np.memmap(tmp_path / "rows", dtype=dtype, mode="w+", shape=X.shape)
    disk[:] = X
    kept = np.memmap(tmp_path / "rows", dtype=dtype, mode="r", shape=X.shape)
    problem = group_dro(kept, Y, GROUPS)
    assert np.shares_memory(problem.inner.model.rows.X, kept)
    assert problem.value(W) == value(X.astype(dtype))


def test_sparse_rows_are_not_copied():
    rows = scipy.sparse.csr_array(X)
    kept = group_dro(rows, Y, GROUPS).inner.model.rows
    assert np.shares_memory(kept.data, rows.data)
    assert np.shares_memory(kept.indices, rows.indices)


def test_what_is_given_is_left_as_it_was():
    rows, labels = duplicated(X).tocsr(copy=True), Y.copy()
    before = rows.copy()
    group_dro(rows, labels, GROUPS)
    assert rows.nnz == before.nnz
    assert rows.data.flags.writeable
    assert labels.flags.writeable


def test_indices_outside_the_matrix_are_refused():
    rows = scipy.sparse.csr_array(X)
    rows.indices[7] = 3
    with refuses("X must be a valid sparse matrix"):
        value(rows)


ARRAYS = [np.array([1.0, 2.0]), np.zeros(0)]


@pytest.mark.parametrize("value", ARRAYS, ids=["two", "none"])
@pytest.mark.parametrize(
    ("estimator", "name"),
    [
        (xrisk.GroupDROClassifier(), "tol"),
        (xrisk.GroupDROClassifier(), "max_seconds"),
        (xrisk.TwoWayPartialAUCClassifier(), "start"),
        (xrisk.MeanVariancePortfolio(), "missing"),
    ],
)
def test_an_array_is_no_parameter(estimator, name, value):
    with refuses(f"{name} must be"):
        estimator.set_params(**{name: value}).fit(X, Y)
    estimator.set_params(**{name: type(estimator)().get_params()[name]})
