"""Least squares over a domain: accelerated steps find the face of the minimiser, Newton's method the point on it."""
# mypy: disable-error-code="empty-body"

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from xrisk.annotations import Domain, Inner, Loss, Outer
from xrisk.certificate.penalties import bound_conjugate
from xrisk.compile import canonical, worthwhile
from xrisk.functions import Hyperplane, Identity, NoPenalty, Squared, penalty_conjugate, penalty_convexity
from xrisk.functions.faces import Face, domain_of, face_of, linear_of
from xrisk.functions.parameters import positive
from xrisk.functions.restricted import with_ridge
from xrisk.generic import generic
from xrisk.inner.groups import Groups
from xrisk.inner.oracle import Oracles, inner_count, inner_dim, inner_samples, inner_size
from xrisk.inner.passes import (
    add_hessian,
    adjoint,
    as_linear_groups,
    column_sizes,
    pass_loss,
    scores_at,
    scores_only,
    walk,
)
from xrisk.inner.visitors import SmoothedTerms
from xrisk.problem import Problem, apply_prox, penalty_at
from xrisk.solvers.base import Stop
from xrisk.solvers.card import FULL_PASSES, MethodCard, Need, require
from xrisk.solvers.full_batch import full_batch

EPS = float(np.finfo(np.float64).eps)
MAX_VARIABLES = 5000  # the Hessian is dense
STEPS = 10  # accelerated steps between two on a face
TRIES = 4  # steps on a face, each from the end of the last one
STUCK = 20  # iterations in a row without progress, after which rounding has ended it
LEAST = 1e-12  # of the size of the problem: a gap that is none, where the optimum is zero
FAR = 1e13  # times the size of the problem that an objective may fall
ENDINGS = (None, Stop.CONVERGED, Stop.ROUNDING, Stop.UNBOUNDED)  # by the number a state keeps


@generic
def loss_is_square(loss: Loss) -> bool:
    """Whether the loss is ½(z − y)²."""


loss_is_square.otherwise(lambda loss: False)
loss_is_square.of(Squared)(lambda loss: True)


@generic
def outer_is_mean(f: Outer) -> bool:
    """Whether the outer function leaves the mean of the inner values as it is."""


outer_is_mean.otherwise(lambda f: False)
outer_is_mean.of(Identity)(lambda f: True)


@generic
def domain_is_flat(domain: Domain) -> bool:
    """Whether the domain is all of a plane, which has no face but itself."""


domain_is_flat.otherwise(lambda domain: False)
domain_is_flat.of(NoPenalty)(lambda domain: True)
domain_is_flat.of(Hyperplane)(lambda domain: True)


def is_bounded(domain: Domain, d: int) -> bool:
    """Whether a domain of known faces, which treats all d coordinates alike, is bounded."""
    return bool(penalty_conjugate(domain, np.eye(1, d)[0]) < np.inf)


class LeastSquares(NamedTuple):
    """½ wᵀQw + ⟨c, w⟩ + constant + penalty(w), the ridge and the linear term of the penalty known."""

    problem: Problem
    inner: Inner
    Q: np.ndarray  # (d, d) of the rows
    c: np.ndarray  # (d,) of the rows
    constant: float  # of the rows
    ridge: float  # of the penalty
    linear: np.ndarray  # (d,) of the penalty
    domain: Domain
    bounded: bool  # the domain
    steepness: float  # a bound on the curvature
    linear_size: float  # about how much the linear term can change the objective
    columns: np.ndarray  # (d,) root mean squares
    centre: np.ndarray  # (d,) zero: nothing is centred
    passes: np.ndarray  # (2,) full passes made so far, for values and for gradients
    prepared: np.ndarray  # (2,) those of preparing it


class FacesState(NamedTuple):
    w: np.ndarray  # (d,) iterate
    ahead: np.ndarray  # (d,) where the next accelerated step starts
    speed: float = 1.0  # of the acceleration, 1 at its start
    value: float = np.inf  # objective
    gap: float = np.inf  # bound on value − optimum, up to the rounding of the rows
    best: float = np.inf  # the smallest gap so far
    since: int = 0  # iterations since it or the objective was last found smaller
    ended: int = 0  # 0 while running
    values: int = 0  # full passes for values
    gradients: int = 0  # full passes for gradients
    t: int = 0  # iterations


def are_squares(problem: Problem) -> bool:
    """Whether the problem is a mean of squared losses of linear scores, and a penalty."""
    g = as_linear_groups(problem.inner)
    return bool(add_hessian.implemented(g) and outer_is_mean(problem.outer) and loss_is_square(pass_loss(g)))


@generic
def has_no_targets(g: Inner) -> bool:
    """Whether all targets are zero, so that squared losses are a quadratic form."""


has_no_targets.otherwise(lambda g: False)
has_no_targets.of(Groups)(lambda g: not g.model.target.any())


def is_quadratic(problem: Problem) -> bool:
    """Whether the problem is a quadratic, such as those of `quadratic`, on a domain on which `Faces` takes few steps.

    The face of a domain that is neither bounded nor flat may take as many steps to find as there are variables.
    """
    domain, d = domain_of(problem.penalty), inner_size(problem.inner)
    if not (d <= MAX_VARIABLES and LEAST_SQUARES.met(problem) and has_no_targets(as_linear_groups(problem.inner))):
        return False
    return domain_is_flat(domain) or is_bounded(domain, d)


LEAST_SQUARES = Need(
    "least squares with a ridge, on a domain of known faces",
    lambda problem: are_squares(problem) and bool(face_of.implemented(domain_of(problem.penalty))),
    "penalty",
)


class Faces(NamedTuple):
    """Least squares over a domain: accelerated projected gradients [1]_ to find the face, then Newton on it [2]_.

    The Hessian is computed once, in a pass over the rows; after that an iteration costs ten products with it and a
    Cholesky factor of its part on the face. A run ends when the Fenchel gap at the gradient is at most ``tol``
    relative to the objective. The last step is usually exact.

    Parameters
    ----------
    tol : float
        Accepted gap relative to the objective.

    References
    ----------
    .. [1] Beck and Teboulle, A fast iterative shrinkage-thresholding algorithm, 2009; restarted where a step and the
       momentum point apart (O'Donoghue and Candès, 2015).
    .. [2] Moré and Toraldo, On the solution of large quadratic programming problems with bound constraints, 1991.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> from xrisk.applications import quadratic
    >>> from xrisk.functions import Simplex
    >>> from xrisk.solvers.faces import Faces
    >>> problem = quadratic(np.diag([1.0, 2.0, 4.0]), [1.0, 0.5, 0.0], penalty=Simplex())
    >>> xrisk.minimize(problem, Faces(), budget=xrisk.Budget(iterations=100)).w.round(6)
    array([0.833333, 0.166667, 0.      ])
    """

    tol: float = 1e-9

    def card(self) -> MethodCard:
        return MethodCard(
            "faces",
            "Beck and Teboulle 2009, Moré and Toraldo 1991",
            "ours",
            values="all, once",
            gradients="all, once",
            rate="finite once the face is right",
            needs=(FULL_PASSES, LEAST_SQUARES),
        )

    def prepare(self, problem: Problem) -> tuple[LeastSquares, Any]:
        positive("tol", self.tol)
        if not are_squares(problem):
            got = f"{type(problem.inner).__name__} under {type(problem.outer).__name__}"
            raise ValueError(f"faces needs squared losses under Identity, such as those of quadratic(), got {got}")
        require(problem, self.card())
        d = inner_size(problem.inner)
        if d > MAX_VARIABLES:
            raise ValueError(f"Faces takes at most {MAX_VARIABLES} variables, got {d}")
        return least_squares(canonical(problem)), self

    def first(self, task: LeastSquares, x: np.ndarray) -> FacesState:
        w = x.astype(np.float64)
        apply_prox(task.domain, w, 1.0)
        return _at(task, self, FacesState(w, w.copy()), w)

    def dual(self, problem: LeastSquares, state: FacesState) -> np.ndarray:
        return np.ones((inner_count(problem.inner), inner_dim(problem.inner)))

    def oracles(self, problem: LeastSquares, t: int) -> Oracles:
        samples = inner_samples(problem.inner)
        return Oracles(samples, samples)


def least_squares(problem: Problem) -> LeastSquares:
    """The quadratic that the rows add up to, in one pass for its value and gradient at zero and one for its Hessian."""
    g, d = as_linear_groups(problem.inner), inner_size(problem.inner)
    n = inner_count(g) * inner_dim(g)
    visit, share = (SmoothedTerms(0.0), scores_only(g, scores_at(g, np.zeros(d)))), np.full(n, 1.0 / inner_count(g))
    found, Q = walk(g, *visit, share), np.zeros((d, d))
    add_hessian(g, *visit, share, found.coefs[-1], Q)
    ridge = float(penalty_convexity(problem.penalty))
    c, linear, curvature = adjoint(g, found.coefs), linear_of(problem.penalty, d), np.diag(Q) + ridge
    steepness = min(_norm(Q), float(np.abs(Q).sum(axis=1).max())) + ridge
    steepness = steepness or float(np.abs(c + linear).max()) or 1.0
    # a column that is constant up to rounding has no curvature
    curvature = np.where(curvature > EPS * curvature.max(initial=0.0), curvature, steepness)
    size = float(np.max((c + linear) ** 2 / (2.0 * curvature)))
    domain, constant = domain_of(problem.penalty), float(share @ found.sums[:, 1])
    limit = float(penalty_conjugate(domain, np.abs(c + linear)))  # of the linear term over the domain
    if 0.0 < limit < np.inf:
        ridged = float(penalty_conjugate(with_ridge(domain, ridge), np.abs(c + linear))) if ridge > 0.0 else limit
        size = min(limit, ridged) if ridged > 0.0 else size
    passes = np.ones((2, 2), dtype=np.int64)
    return LeastSquares(
        problem, g, Q, c, constant, ridge, linear, domain, is_bounded(domain, d), steepness, size, column_sizes(g),
        np.zeros(d), *passes,
    )  # fmt: skip


def _norm(Q: np.ndarray) -> float:
    """Frobenius norm, of numbers whose squares overflow or vanish too."""
    size = float(np.abs(Q).max())
    return size * float(np.linalg.norm(Q / size)) if size > 0.0 else 0.0


@full_batch({"faces": Faces()}, FacesState, ENDINGS, "faces", Oracles(0, 0))
def faces_step(task: LeastSquares, solver: Faces, state: FacesState) -> FacesState:
    """Ten accelerated steps, then Newton's step on the face that they have led to."""
    w, ahead, speed = accelerated(task, state.w, state.ahead, state.speed)
    if _value(task, w) > state.value:  # momentum may overshoot: once more, without
        w, ahead, speed = accelerated(task, state.w, state.w.copy(), 1.0)
    for _ in range(TRIES):
        better = on_face(task, w)
        if not _value(task, better) < _value(task, w):
            break
        w, ahead, speed = better, better.copy(), 1.0
    return _at(task, solver, state._replace(ahead=ahead, speed=speed), w)


def accelerated(
    task: LeastSquares, w: np.ndarray, ahead: np.ndarray, speed: float
) -> tuple[np.ndarray, np.ndarray, float]:
    """Ten projected gradient steps with momentum."""
    for _ in range(STEPS):
        x = ahead - (task.Q @ ahead + task.ridge * ahead + task.c + task.linear) / task.steepness
        apply_prox(task.domain, x, 1.0)
        if float((ahead - x) @ (x - w)) > 0.0:
            speed = 1.0
        faster = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * speed * speed))
        ahead, w, speed = x + (speed - 1.0) / faster * (x - w), x, faster
    return w, ahead, speed


def on_face(task: LeastSquares, w: np.ndarray) -> np.ndarray:
    """The minimiser on the face of w; if it lies outside, its projection or, if that is worse, where the face ends."""
    face = face_of(task.domain, w)
    step = face_step(task, w, face)
    whole = w + step
    apply_prox(task.domain, whole, 1.0)
    crossed = face.moving & (np.sign(w + step) == -np.sign(w)) & (w != 0.0)
    if not crossed.any() or domain_is_flat(task.domain) or _value(task, whole) < _value(task, w):
        return whole
    part = float((-w[crossed] / step[crossed]).min())
    short = np.where(crossed & (w + part * step == 0.0), 0.0, w + part * step)
    apply_prox(task.domain, short, 1.0)
    return short


def face_step(task: LeastSquares, w: np.ndarray, face: Face) -> np.ndarray:
    """Newton's step s (d,) on the face: H s + g = Aᵀλ, A s = totals − A w on the coordinates that move."""
    at, step = np.flatnonzero(face.moving), np.zeros(w.size)
    if not at.size:
        return step
    g = (task.Q @ w + task.ridge * w + task.c + task.linear)[at]
    H = task.Q[np.ix_(at, at)]
    H[np.diag_indices(at.size)] += task.ridge
    scale = 1.0 / np.sqrt(np.where(np.diag(H) > 0.0, np.diag(H), 1.0))
    factor = _factor(H * scale * scale[:, None])
    if factor is None:
        return step
    A = face.A[:, at]
    solved = scale[:, None] * cho_solve(factor, scale[:, None] * np.column_stack([g, A.T]), check_finite=False)
    free, normals = -solved[:, 0], solved[:, 1:]
    if len(A):
        short = face.totals - A @ w[at] - A @ free
        free = free + normals @ np.linalg.lstsq(A @ normals, short, rcond=None)[0]
    step[at] = free
    return step if np.isfinite(step).all() else np.zeros(w.size)


def _factor(H: np.ndarray) -> Any:
    """Cholesky factor of H, whose diagonal is one, with the least ridge that makes it definite; None if none does."""
    for ridge in (0.0, 1e-14, 1e-12, 1e-10, 1e-8):
        try:
            return cho_factor(H + ridge * np.eye(len(H)), lower=True, check_finite=False)
        except LinAlgError:
            continue
    return None


def _value(task: LeastSquares, w: np.ndarray) -> float:
    """The objective at a point of the domain."""
    return float(0.5 * w @ (task.Q @ w) + (task.c + task.linear) @ w + 0.5 * task.ridge * (w @ w))


def _at(task: LeastSquares, solver: Faces, state: FacesState, w: np.ndarray) -> FacesState:
    """The state at w, and whether that is good enough."""
    r, gradient = task.problem.penalty, task.Q @ w + task.c
    rows, penalty = float(0.5 * w @ (gradient + task.c)) + task.constant, penalty_at(r, w)
    value = rows + penalty
    conjugate = float(worthwhile(bound_conjugate, w.size, r)(r, -gradient, np.zeros(w.size)))
    gap = max(float(penalty + conjugate + gradient @ w), 0.0)
    # where large terms cancel, rounding makes the objective rise and fall without end
    noise = 1e-13 * (abs(value) + float(np.abs(task.c + task.linear) @ np.abs(w)))
    better = gap < 0.9 * state.best or not value >= state.value - noise
    since, ended = 0 if better else state.since + 1, None
    if gap <= max(solver.tol * abs(value), LEAST * task.linear_size):
        ended = Stop.CONVERGED
    elif not (task.bounded or _value(task, w) >= -FAR * task.linear_size):
        ended = Stop.UNBOUNDED
    elif since > STUCK:
        ended = Stop.ROUNDING
    best = min(gap, state.best)
    return state._replace(w=w, value=value, gap=gap, best=best, since=since, ended=ENDINGS.index(ended))
