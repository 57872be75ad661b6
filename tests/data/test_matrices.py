"""Sparse matrices with wrong indices are refused before any compiled loop reads them; odd but right ones are taken."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone, is_classifier

import xrisk
from xrisk.data.matrices import refuse_broken
from xrisk.inner import as_rows

DENSE = np.array(
    [[1.0, 0.0, 2.0], [0.0, 3.0, 0.0], [0.0, -1.0, 0.5], [4.0, 0.0, 0.0], [0.0, 0.0, 1.0], [2.0, 1.0, 0.0]]
)
Y = np.array([1, -1, 1, -1, 1, -1])
FAR = 10**9


def csr(**changed):
    """The matrix with some of its arrays replaced, as a hand or a damaged file would."""
    X = scipy.sparse.csr_array(DENSE)
    for name, value in changed.items():
        setattr(X, name, value)
    return X


def entry(array, position, value):
    changed = array.astype(np.int64)
    changed[position] = value
    return changed


def far_csc():
    X = scipy.sparse.csc_array(DENSE)
    X.indices[2] = FAR
    return X


def far_coo(matrix=scipy.sparse.coo_array):
    X = matrix(DENSE)
    X.coords[1][2] = FAR
    return X


def far_bsr():
    X = scipy.sparse.bsr_array(DENSE, blocksize=(2, 1))
    X.indices[2] = FAR
    return X


def long_dia():
    X = scipy.sparse.dia_array(DENSE)
    X.offsets = X.offsets[:-1]
    return X


def far_lil():
    X = scipy.sparse.lil_array(DENSE)
    X.rows[1] = [FAR]
    return X


def uneven_lil():
    X = scipy.sparse.lil_array(DENSE)
    X.data[1] = [1.0, 2.0, 3.0]
    return X


def far_dok():
    X = scipy.sparse.dok_array(DENSE)
    X._dict[(FAR, 1)] = 1.0
    return X


GOOD = csr()
BROKEN = {
    "far column": lambda: csr(indices=entry(GOOD.indices, 2, FAR)),
    "negative column": lambda: csr(indices=entry(GOOD.indices, 2, -1)),
    "column of the width": lambda: csr(indices=entry(GOOD.indices, 2, 3)),
    "far indptr": lambda: csr(indptr=entry(GOOD.indptr, 2, FAR)),
    "far last indptr": lambda: csr(indptr=entry(GOOD.indptr, -1, FAR)),
    "negative indptr": lambda: csr(indptr=entry(GOOD.indptr, 2, -5)),
    "indptr that decreases": lambda: csr(indptr=entry(GOOD.indptr, 2, 0)),
    "unsigned indptr that decreases": lambda: csr(indptr=entry(GOOD.indptr, 2, 0).astype(np.uint32)),
    "late first indptr": lambda: csr(indptr=entry(GOOD.indptr, 0, 1)),
    "short indptr": lambda: csr(indptr=GOOD.indptr[:-1]),
    "long indptr": lambda: csr(indptr=np.append(GOOD.indptr, GOOD.indptr[-1])),
    "short indices": lambda: csr(indices=GOOD.indices[:-1]),
    "short data": lambda: csr(data=GOOD.data[:-1]),
    "fractional indices": lambda: csr(indices=GOOD.indices + 0.5),
    "data in two dimensions": lambda: csr(data=GOOD.data[:, None]),
    "CSC": far_csc,
    "COO": far_coo,
    "COO matrix": lambda: far_coo(scipy.sparse.coo_matrix),
    "BSR": far_bsr,
    "DIA": long_dia,
    "LIL": far_lil,
    "uneven LIL": uneven_lil,
    "DOK": far_dok,
}
every_broken = pytest.mark.parametrize("make", BROKEN.values(), ids=BROKEN)

ESTIMATORS = [
    xrisk.GroupDROClassifier(),
    xrisk.GroupDRORegressor(),
    xrisk.DROClassifier(),
    xrisk.DRORegressor(),
    xrisk.RobustLogisticRegression(),
    xrisk.PNormPushClassifier(),
    xrisk.PrecisionAtKClassifier(),
    xrisk.TopPushClassifier(),
    xrisk.TwoWayPartialAUCClassifier(),
    xrisk.PartialAUCClassifier(surrogate="logistic"),
    xrisk.MultiTaskGroupDROClassifier(),
    xrisk.PolicyEvaluator(),
]
every_estimator = pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda each: type(each).__name__)
METHODS = ("predict", "decision_function", "predict_proba", "predict_log_proba", "score")


def fitted(estimator):
    """A model of three columns, without a fit."""
    model, coef = clone(estimator), np.array([1.0, -2.0, 0.5])
    model.n_features_in_, model.coef_, model.intercept_ = 3, coef, np.float64(0.25)
    if is_classifier(model):
        model.coef_, model.intercept_, model.classes_ = coef[None], np.array([0.25]), np.array([-1, 1])
        model.threshold_, model.probability_ = 0.0, np.array([1.0, 0.0])
    return model


def refused(name="X"):
    return pytest.raises(ValueError, match=rf"^{name} must be a valid sparse matrix of shape \(\d+, \d+\), .*\Z")


def test_every_estimator_that_takes_sparse_rows_is_here():
    shown = [getattr(xrisk, name) for name in xrisk.__all__]
    faces = {each for each in shown if isinstance(each, type) and hasattr(each, "get_params")}
    assert {type(each) for each in ESTIMATORS} == {
        each for each in faces if each().__sklearn_tags__().input_tags.sparse
    }


@every_broken
@every_estimator
def test_a_broken_matrix_is_refused_by_every_fit(estimator, make):
    with refused():
        clone(estimator).fit(make(), Y)


@every_broken
@every_estimator
def test_a_broken_matrix_is_refused_by_every_method_of_a_model(estimator, make):
    model = fitted(estimator)
    for name in METHODS:
        if hasattr(model, name):
            with refused():
                getattr(model, name)(make(), *([Y] if name == "score" else []))


APPLICATIONS = {
    "group_dro": lambda X: xrisk.group_dro(X, Y, Y),
    "sample_dro": lambda X: xrisk.applications.sample_dro(X, Y),
    "partial_auc": lambda X: xrisk.applications.partial_auc(X, Y, min_tpr=0.5),
    "two_way_partial_auc": lambda X: xrisk.applications.two_way_partial_auc(X, Y, min_tpr=0.5, max_fpr=0.5),
    "p_norm_push": lambda X: xrisk.applications.p_norm_push(X, Y),
    "precision_at_k": lambda X: xrisk.applications.precision_at_k(X, Y, k=2),
    "top_push": lambda X: xrisk.applications.top_push(X, Y),
    "robust_logistic": lambda X: xrisk.applications.robust_logistic(X, Y),
    "multi_task": lambda X: xrisk.applications.multi_task(X, Y, Y, Y),
}


@every_broken
@pytest.mark.parametrize("state", APPLICATIONS.values(), ids=APPLICATIONS)
def test_a_broken_matrix_is_refused_by_every_application(state, make):
    with refused():
        state(make())


def squared(make):
    """The broken matrix with three columns of zeros beside it: as many as it has rows."""
    X = make()
    X._shape = (6, 6)
    return X


SQUARE = [name for name in BROKEN if name not in ("column of the width", "CSC", "BSR", "DIA")]


@pytest.mark.parametrize("name", SQUARE)
def test_broken_transitions_and_rewards_are_refused(name):
    chain = scipy.sparse.csr_array(np.eye(6))
    with refused("transitions"):
        xrisk.PolicyEvaluator().fit(DENSE, transitions=squared(BROKEN[name]), rewards=np.ones(6))
    with refused("rewards"):
        xrisk.PolicyEvaluator().fit(DENSE, transitions=chain, rewards=squared(BROKEN[name]))
    with refused("P"):
        xrisk.applications.bellman(squared(BROKEN[name]), np.ones(6), DENSE)


@every_broken
def test_broken_features_are_refused(make):
    with refused("features"):
        xrisk.applications.bellman(scipy.sparse.csr_array(np.eye(6)), np.ones(6), make())


def repeated():
    """Every entry in two halves, the columns of a row out of order."""
    order = np.concatenate(
        [np.arange(low, high)[::-1] for low, high in zip(GOOD.indptr, GOOD.indptr[1:], strict=False)]
    )
    data, indices = np.repeat(GOOD.data[order] / 2, 2), np.repeat(GOOD.indices[order], 2)
    return scipy.sparse.csr_array((data, indices, 2 * GOOD.indptr), shape=DENSE.shape)


def stale():
    """Repeated entries beside a flag that says there are none."""
    X = repeated()
    X.has_canonical_format = True
    return X


RIGHT = {
    "repeated and unsorted": repeated,
    "a stale flag": stale,
    "wide indptr": lambda: csr(indptr=GOOD.indptr.astype(np.int64)),
    "wide indices": lambda: csr(indices=GOOD.indices.astype(np.int64)),
    "unsigned": lambda: csr(indices=GOOD.indices.astype(np.uint32)),
    "room at the end": lambda: csr(
        data=np.append(GOOD.data, 9.0), indices=np.append(GOOD.indices, 77).astype(np.int32)
    ),
    **{
        f"{form}_{kind}": lambda form=form, kind=kind: getattr(scipy.sparse, f"{form}_{kind}")(DENSE)
        for form in ("csr", "csc", "coo", "bsr", "dia", "lil", "dok")
        for kind in ("array", "matrix")
    },
}
every_right = pytest.mark.parametrize("make", RIGHT.values(), ids=RIGHT)


@every_right
def test_odd_but_right_matrices_are_the_rows_that_they_mean(make):
    rows = as_rows(make())
    kept = scipy.sparse.csr_array((rows.data, rows.indices, rows.indptr), shape=DENSE.shape)
    assert kept.has_canonical_format
    np.testing.assert_array_equal(kept.toarray(), DENSE)


@every_right
@every_estimator
def test_odd_but_right_matrices_are_scored_as_the_dense_one(estimator, make):
    model = fitted(estimator)
    np.testing.assert_allclose(model.predict(make()), model.predict(DENSE), rtol=1e-12)


@every_right
def test_odd_but_right_features_and_rewards_are_the_dense_ones(plain, make):
    wide = scipy.sparse.hstack([make(), scipy.sparse.csr_array((6, 3))])
    chain, w = scipy.sparse.csr_array(np.eye(6)), np.ones(3)
    for features, rewards in ((make(), np.ones(6)), (DENSE, wide)):
        dense = rewards if isinstance(rewards, np.ndarray) else rewards.toarray()
        found = xrisk.applications.averaged_bellman(chain, rewards, features).value(w)
        assert found == pytest.approx(xrisk.applications.averaged_bellman(chain, dense, DENSE).value(w))


@every_broken
def test_checking_changes_nothing(make):
    X = make()
    before = dict(vars(X))
    with refused():
        refuse_broken("X", X)
    assert vars(X).keys() == before.keys()
    assert all(vars(X)[name] is value for name, value in before.items())
