"""Values of the states of a Markov decision process under a fixed policy."""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.utils.validation import _check_y, check_consistent_length, validate_data

from xrisk.annotations import Matrix, Spec, Vector
from xrisk.applications.chain_arguments import Names, chain_of, finite_rewards
from xrisk.applications.policy import averaged_problem, penalty_on, residual_problem, residual_squares, state_features
from xrisk.certificate import NOTHING_PROVED, is_perfect
from xrisk.certificate.least_squares import STEPS, ProvedPoint, Squares, certify_squares, ridge_lower_bound
from xrisk.data.matrices import refuse_broken
from xrisk.data.rows import refuse_masked
from xrisk.estimators.base import FITTED, SOLVING, LinearRobust, Training
from xrisk.estimators.callbacks import with_callbacks
from xrisk.estimators.parameters import check_parameters
from xrisk.estimators.proving import at_proof, in_time, stop_of
from xrisk.functions import NoPenalty
from xrisk.inner import Generated
from xrisk.problem import Problem
from xrisk.run import Result, Runs, Stop
from xrisk.solvers.card import suits
from xrisk.solvers.newton.smoothed import SAME

SAMPLINGS = ("simulator", "uniform", "exact")  # the first that a solver can use


class Observed(NamedTuple):
    """What is known beside the features."""

    chain: Spec
    weight: Any  # of the states, None if equal


@dataclass(eq=False, repr=False, kw_only=True)
class PolicyEvaluator(LinearRobust):
    __doc__ = (
        """Values φᵀw of states: min over w of mean_s (φₛᵀw − E[r + γ φ_{s′}ᵀw])² + (l2/2)‖w‖², s′ the successor of s.

    The expectation over the successors stands inside the square: this is the squared Bellman residual of the policy
    itself, not of single transitions, whose square would have their variance beside it. From observed transitions the
    expectation is the mean over those of a state, so states should be left more than once.

    Parameters
    ----------
    discount : float
        γ, at least 0 and below 1.
    l2 : float
        Strength of the penalty (l2/2)‖w‖².
"""
        + SOLVING
        + """
    Attributes
    ----------
    coef_ : ndarray (features,)
        w; the value of a state is φᵀw. ``intercept_`` is zero.
    n_left_out_ : int
        States that are never left, of which nothing follows and no residual is known.
"""
        + FITTED
        + """
    Notes
    -----
    Without a penalty the certificate closes where the residuals determine w and are not almost zero, for up to 2,000
    features. Where values fit without residual the fit ends when the objective is 1e-12 of the mean square of the
    rewards about their mean.

    A solver spec is run on sampled successors: drawn from the transitions, or uniformly with weights if the solver
    asks for samples that are equally likely.

    Examples
    --------
    >>> import numpy as np
    >>> import xrisk
    >>> P = [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.0, 0.0, 0.0]]  # the episode ends in the last state
    >>> model = xrisk.PolicyEvaluator(0.8).fit(np.eye(3), transitions=P, rewards=[1.0, 1.0, 0.5])
    >>> model.predict(np.eye(3)).round(4)
    array([3. , 2. , 0.5])
    """
    )

    discount: float = field(default=0.9, kw_only=False)
    l2: float = 0.0

    fit_intercept: ClassVar[bool] = False
    _attributes: ClassVar[tuple[str, ...]] = ("coef_", "intercept_", "n_left_out_")

    @with_callbacks
    def fit(
        self,
        X: Matrix,
        y: Vector = None,
        *,
        transitions: Any = None,
        rewards: Vector = None,
        state_weight: Vector = None,
    ) -> Any:
        """Fit the values.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix (states, features)
            φ. The rows A = Φ − γPΦ are new numbers, stored as X is, dense or sparse. Many dense rows of few successors
            are computed whenever they are read, and X, float32 or float64 or a memory map in C order, is not copied.
        y : array (states,), optional
            The rewards of leaving the states, if they are not given as ``rewards``.
        transitions : array or sparse matrix (states, states), tuple of two index arrays, or generated; optional
            Probabilities, whose rows sum to one, or to zero where the episode ends; or (states, successors) as they
            were observed, −1 for the end of an episode; or what `xrisk.datasets.make_mdp` generates. Without it the
            rows of X are one trajectory in their order: each is followed by the next, and the last one, of which no
            successor is known, has no residual.
        rewards : array (states,), (states, states) or (transitions,), or sparse matrix, optional
            Of leaving a state, of a transition, or of each observed transition.
        state_weight : array (states,), optional
            What the residual of a state counts in the mean, for ``solver="auto"``. These are not weights of rows as
            scikit-learn has them: to leave out a row is to leave out a state that others lead to.

        Returns
        -------
        self
        """
        return self._fitted(self._observed(X, y, transitions, rewards, state_weight))

    def _observed(self, X: Matrix, y: Vector, transitions: Any, rewards: Vector, state_weight: Vector) -> Training:
        check_parameters(self)
        if state_weight is not None and not isinstance(self.solver, str):
            raise ValueError("state_weight must be None for a solver that samples, solver='auto' takes weights")
        refuse_masked("X", X)
        refuse_broken("X", X)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], order="C")
        states = X.shape[0]
        if y is not None:
            y = _check_y(y, y_numeric=True, estimator=self)
            check_consistent_length(X, y)
        if transitions is None:
            transitions = _trajectory(states)
        _refuse_unclear_rewards(y, rewards, transitions)
        chain = _of_rewards(transitions, rewards, states) if y is None else _of_targets(transitions, y)
        return Training(X, y, np.zeros(0), None, Observed(chain, state_weight))

    def _problem(self, training: Training) -> Problem:
        features, (chain, weight) = state_features(training.X), training.metadata
        if isinstance(self.solver, str):
            return averaged_problem(chain, features, self.discount, penalty_on(self.l2), weight)
        return self._sampled(chain, features)

    def _sampled(self, chain: Spec, features: Any) -> Problem:
        """The problem with the first way to sample that the solver can use; if there is none it says why not."""
        penalty = penalty_on(self.l2)
        for sampling in SAMPLINGS:
            problem = residual_problem(chain, features, self.discount, penalty, sampling)
            if suits(self.solver, problem):
                return problem
        return residual_problem(chain, features, self.discount, penalty, SAMPLINGS[0])

    def _proved(self, problem: Problem, result: Result, training: Training, runs: Runs) -> Result:
        """The result proved of the residuals themselves: rewritten, the objective errs by rounding."""
        F = self._squares(training)

        def prove(hurried: bool) -> ProvedPoint:
            tol, steps = np.inf if hurried else self.tol, STEPS if isinstance(self.solver, str) else 0
            return certify_squares(F, NoPenalty(), partial(ridge_lower_bound, F), result.w, tol=tol, steps=steps)

        proof = in_time(problem, result, runs, prove) or ProvedPoint(result.w, result.value, NOTHING_PROVED)
        known, stop = proof.certificate, stop_of(result)
        if known.relative <= self.tol:
            stop = Stop.CONVERGED
        elif stop in (Stop.CONVERGED, Stop.PERFECT, Stop.ROUNDING):
            stop = Stop.PERFECT if is_perfect(known, _spread(F)) else Stop.ROUNDING
        return replace(at_proof(result, proof), stop=stop)

    def _squares(self, training: Training) -> Squares:
        features, (chain, weight) = state_features(training.X), training.metadata
        with np.errstate(over="ignore", invalid="ignore"):  # infinities are bounds as well
            return residual_squares(chain, features, self.discount, self.l2, weight)

    def _keep(self, problem: Problem, result: Result, training: Training) -> None:
        super()._keep(problem, result, training)
        self.n_left_out_ = training.X.shape[0] - training.metadata.chain.counted()

    def _advice(self, result: Result) -> str:
        if not (self.l2 or isinstance(self.solver, str)):
            return "without a penalty only solver='auto' proves a bound, with l2 > 0 every solver may"
        if not self.l2 and result.stop is Stop.ROUNDING:
            return (
                "without a penalty a proof needs features of which none is a combination of others and residuals that "
                "are not almost zero, with l2 > 0 it does not"
            )
        return super()._advice(result)

    def _n_scores(self) -> int:
        return 1

    def _model(self, w: np.ndarray, training: Training) -> dict[str, Any]:
        return {name: value[0] for name, value in super()._model(w, training).items()}

    def predict(self, X: Matrix) -> np.ndarray:
        """The value of each state, φᵀw."""
        return self._scores(X)[:, 0]


def _spread(F: Squares) -> float:
    """The mean square of the rewards about their mean, beside which a perfect fit leaves next to nothing.

    Rewards that are all the same are measured by what they are instead.
    """
    rewards = F.residuals(np.zeros(F.linear.size), False).value
    apart = rewards - F.share @ rewards / F.share.sum()
    if np.abs(apart).max() <= SAME * np.abs(rewards).max():
        apart = rewards
    return F.factor * float(F.share @ apart**2)


def _trajectory(states: int) -> tuple[np.ndarray, np.ndarray]:
    if states < 2:
        raise ValueError(
            "X must hold at least two states for a trajectory, got 1 sample: transitions say what else follows"
        )
    return np.arange(states - 1), np.arange(1, states)


def _refuse_unclear_rewards(y: Vector, rewards: Vector, transitions: Any) -> None:
    if y is not None and rewards is not None:
        raise ValueError("rewards must be given once, got y and rewards")
    if y is None and rewards is None and not isinstance(transitions, Generated):
        raise ValueError(
            "PolicyEvaluator requires y to be passed, but the target y is None: give the rewards as y or as rewards"
        )


def _of_rewards(transitions: Any, rewards: Vector, states: int) -> Any:
    return chain_of(transitions, rewards, states, Names("transitions", "rewards", "X"))


def _of_targets(transitions: Any, y: np.ndarray) -> Any:
    """The chain with rewards of the states, also where as many transitions are observed."""
    chain: Spec = chain_of(transitions, np.zeros(y.size), y.size, Names("transitions", "y", "X"))
    return chain._replace(leaving=finite_rewards(y, "y")[chain.order[: chain.counted()]])
