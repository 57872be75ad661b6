"""Least squares over a domain: accelerated steps find the face of the minimiser, Newton's method the point on it."""

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from xrisk.certificate.penalties import bound_conjugate
from xrisk.compile import canonical, worthwhile
from xrisk.functions import Hyperplane, Identity, NonNegative, NoPenalty, Squared, penalty_conjugate, penalty_convexity
from xrisk.functions.faces import Face, domain_of, face_of, linear_of
from xrisk.functions.restricted import with_ridge
from xrisk.inner.oracle import Oracles, inner_count, inner_dim, inner_samples, inner_size
from xrisk.inner.passes import Scores, add_hessian, adjoint, as_linear_groups, pass_loss, scores_at, walk
from xrisk.inner.visitors import SmoothedTerms
from xrisk.problem import Problem, apply_prox, penalty_at
from xrisk.solvers.base import Stop, check_positive, register_full_batch
from xrisk.solvers.card import FULL_PASSES, MethodCard, Need, require
from xrisk.solvers.method import register

EPS = float(np.finfo(np.float64).eps)
MAX_VARIABLES = 5000  # the Hessian is dense
STEPS = 10  # accelerated steps between two on a face
TRIES = 4  # steps on a face, each from where the last one has left it
STUCK = 20  # iterations in a row that bring nothing, after which rounding has ended progress
LEAST = 1e-12  # of the size of the problem: a gap that is none, where the optimum is zero
FAR = 1e13  # times the size of the problem that an objective may fall
ENDINGS = (None, Stop.CONVERGED, Stop.ROUNDING, Stop.UNBOUNDED)  # by the number a state keeps
UNLIMITED = (NoPenalty, Hyperplane, NonNegative)


class LeastSquares(NamedTuple):
    """½ wᵀQw + ⟨c, w⟩ + constant + penalty(w), the ridge and the linear term of the penalty known."""

    problem: Problem
    inner: Any
    Q: np.ndarray  # (d, d) of the rows
    c: np.ndarray  # (d,) of the rows
    constant: float  # of the rows
    ridge: float  # of the penalty
    linear: np.ndarray  # (d,) of the penalty
    domain: Any
    steepness: float  # a bound on the curvature
    size: float  # about how much the linear term can change the objective


class FacesState(NamedTuple):
    w: np.ndarray  # (d,) iterate
    ahead: np.ndarray  # (d,) where the next accelerated step starts
    speed: float  # of the acceleration, 1 at its start
    value: float  # objective
    gap: float  # bound on value − optimum, up to the rounding of the rows
    best: float  # the smallest gap so far
    since: int  # iterations since it or the objective was last found smaller
    ended: int  # 0 while running
    values: int  # full passes for values
    gradients: int  # full passes for gradients
    t: int  # iterations


def _are_squares(problem: Problem) -> bool:
    g = as_linear_groups(problem.inner)
    return bool(add_hessian.implemented(g) and type(problem.outer) is Identity and type(pass_loss(g)) is Squared)


LEAST_SQUARES = Need(
    "least squares with a ridge, on a domain of known faces",
    lambda problem: _are_squares(problem) and bool(face_of.implemented(domain_of(problem.penalty))),
    "penalty",
)


class Faces(NamedTuple):
    """Least squares over a domain: accelerated projected gradients [1]_ to find the face, then Newton on it [2]_.

    The Hessian is computed once, in a pass over the rows; after that an iteration costs ten products with it and a
    Cholesky factor of its part on the face. A run ends when the Fenchel gap at the gradient is at most ``tol``
    relative to the objective. As a rule the last step is exact.

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
        check_positive("tol", self.tol)
        if not _are_squares(problem):
            got = f"{type(problem.inner).__name__} under {type(problem.outer).__name__}"
            raise ValueError(f"faces needs squared losses under Identity, such as those of quadratic(), got {got}")
        require(problem, self.card())
        d = inner_size(problem.inner)
        if d > MAX_VARIABLES:
            raise ValueError(f"Faces takes at most {MAX_VARIABLES} variables, got {d}")
        return least_squares(canonical(problem)), self

    def start(self, problem: Problem, w: np.ndarray) -> np.ndarray:
        return w

    def init(self, problem: LeastSquares, x: np.ndarray, rng: np.random.Generator) -> FacesState:
        w = x.astype(np.float64)
        apply_prox(problem.domain, w, 1.0)
        state = FacesState(w, w.copy(), 1.0, np.inf, np.inf, np.inf, 0, 0, 1, 1, 0)
        return _at(problem, self, state, w)

    def advance(self, problem: LeastSquares, state: FacesState, n_steps: int, rng: Any) -> FacesState:
        for _ in range(n_steps):
            if state.ended:
                return state
            state = faces_step(problem, self, state)
        return state

    def solution(self, state: FacesState) -> np.ndarray:
        return state.w

    def dual(self, problem: LeastSquares, state: FacesState) -> np.ndarray:
        return np.ones((inner_count(problem.inner), inner_dim(problem.inner)))

    def oracles(self, problem: LeastSquares, t: int) -> Oracles:
        samples = inner_samples(problem.inner)
        return Oracles(samples, samples)


register({"faces": Faces()})
register_full_batch(Faces, ENDINGS, "faces")


def least_squares(problem: Problem) -> LeastSquares:
    """The quadratic that the rows add up to, in one pass for its value and gradient at zero and one for its Hessian."""
    g, d = as_linear_groups(problem.inner), inner_size(problem.inner)
    n = inner_count(g) * inner_dim(g)
    z, share = scores_at(g, np.zeros(d)), np.full(n, 1.0 / inner_count(g))
    visit = SmoothedTerms(0.0), Scores(z, z, z[:, 0], z[:, 0], np.ones(n))
    seen, Q = walk(g, *visit, share), np.zeros((d, d))
    add_hessian(g, *visit, share, seen.coefs[-1], Q)
    ridge = float(penalty_convexity(problem.penalty))
    c, linear, held = adjoint(g, seen.coefs), linear_of(problem.penalty, d), np.diag(Q) + ridge
    steepness = min(_norm(Q), float(np.abs(Q).sum(axis=1).max())) + ridge
    steepness = steepness or float(np.abs(c + linear).max()) or 1.0
    # a column that rounding alone has kept from being constant holds nothing
    held = np.where(held > EPS * held.max(initial=0.0), held, steepness)
    size = float(np.max((c + linear) ** 2 / (2.0 * held)))
    domain, constant = domain_of(problem.penalty), float(share @ seen.sums[:, 1])
    reach = float(penalty_conjugate(domain, np.abs(c + linear)))
    if 0.0 < reach < np.inf:
        ridged = float(penalty_conjugate(with_ridge(domain, ridge), np.abs(c + linear))) if ridge > 0.0 else reach
        size = min(reach, ridged) if ridged > 0.0 else size
    return LeastSquares(problem, g, Q, c, constant, ridge, linear, domain, steepness, size)


def _norm(Q: np.ndarray) -> float:
    """Frobenius norm, of numbers whose squares overflow or vanish too."""
    size = float(np.abs(Q).max())
    return size * float(np.linalg.norm(Q / size)) if size > 0.0 else 0.0


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
    return _at(task, solver, state._replace(ahead=ahead, speed=speed, t=state.t + 1), w)


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
    """The minimiser on the face of w, or the point on the way there where that leaves the face; projected if better."""
    face = face_of(task.domain, w)
    move = face_move(task, w, face)
    whole = w + move
    apply_prox(task.domain, whole, 1.0)
    crossed = face.moving & (np.sign(w + move) == -np.sign(w)) & (w != 0.0)
    if not crossed.any() or type(task.domain) in (NoPenalty, Hyperplane) or _value(task, whole) < _value(task, w):
        return whole
    part = float((-w[crossed] / move[crossed]).min())
    short = np.where(crossed & (w + part * move == 0.0), 0.0, w + part * move)
    apply_prox(task.domain, short, 1.0)
    return short


def face_move(task: LeastSquares, w: np.ndarray, face: Face) -> np.ndarray:
    """Newton's step (d,) on the face: H m + g = Aᵀλ, A m = totals − A w on the coordinates that move."""
    at, move = np.flatnonzero(face.moving), np.zeros(w.size)
    if not at.size:
        return move
    g = (task.Q @ w + task.ridge * w + task.c + task.linear)[at]
    H = task.Q[np.ix_(at, at)]
    H[np.diag_indices(at.size)] += task.ridge
    scale = 1.0 / np.sqrt(np.where(np.diag(H) > 0.0, np.diag(H), 1.0))
    factor = _factor(H * scale * scale[:, None])
    if factor is None:
        return move
    A = face.A[:, at]
    solved = scale[:, None] * cho_solve(factor, scale[:, None] * np.column_stack([g, A.T]), check_finite=False)
    free, normals = -solved[:, 0], solved[:, 1:]
    if len(A):
        short = face.totals - A @ w[at] - A @ free
        free = free + normals @ np.linalg.lstsq(A @ normals, short, rcond=None)[0]
    move[at] = free
    return move if np.isfinite(move).all() else np.zeros(w.size)


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
    # of large terms that cancel, what rounding leaves of the objective goes up and down without an end
    noise = 1e-13 * (abs(value) + float(np.abs(task.c + task.linear) @ np.abs(w)))
    better = gap < 0.9 * state.best or not value >= state.value - noise
    since, ended = 0 if better else state.since + 1, 0
    if gap <= max(solver.tol * abs(value), LEAST * task.size):
        ended = ENDINGS.index(Stop.CONVERGED)
    elif type(task.domain) in UNLIMITED and not _value(task, w) >= -FAR * task.size:
        ended = ENDINGS.index(Stop.UNBOUNDED)
    elif since > STUCK:
        ended = ENDINGS.index(Stop.ROUNDING)
    return state._replace(w=w, value=value, gap=gap, best=min(gap, state.best), since=since, ended=ended)
