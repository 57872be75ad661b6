"""Portfolios with scikit-learn's face."""

import warnings
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from xrisk.annotations import Domain, Matrix, Vector
from xrisk.applications.arguments import as_number
from xrisk.applications.portfolio import (
    BLOCK,
    Moments,
    domain_penalty,
    mean_variance,
    mean_variance_of_moments,
    mean_variance_of_rows,
    moments,
    portfolio_domain,
    returns_squares,
)
from xrisk.certificate import NOTHING_PROVED, Certificate, between
from xrisk.certificate.least_squares import (
    STEPS,
    ProvedPoint,
    Squares,
    certify_squares,
    conjugate_lower_bound,
    whitening,
)
from xrisk.estimators.base import (
    FITTED,
    SOLVING,
    USER,
    LinearRobust,
    Training,
    linear_scores,
)
from xrisk.estimators.callbacks import with_callbacks
from xrisk.estimators.parameters import check_parameters
from xrisk.estimators.proving import at_proof, in_time, stop_of
from xrisk.functions import Hyperplane, NonNegative, NoPenalty, SolidSimplex, penalty_conjugate, penalty_convexity
from xrisk.functions.parameters import require
from xrisk.problem import Problem
from xrisk.run import Result, Runs, Stop
from xrisk.solvers.card import suits

ZERO = 1e-12  # a gap that is none, of how much the returns can change the objective: an optimum of zero has no digits
EXACT = 1e-9  # what is asked of a method whose last step is exact, whatever the tolerance
FAR = 1e6  # times what single assets bring: no portfolio does so but by assets that are almost the same
UNLIMITED = (NoPenalty, Hyperplane, NonNegative)
NULL = 1e-10  # relative, of an eigenvalue that counts as zero, and of a part of the mean


class Holdings(NamedTuple):
    """What a portfolio is made of."""

    kept: np.ndarray  # (assets,) mask of those it may hold
    moments: Moments  # of these
    left_out: tuple[str, ...]  # names of the others


@dataclass(eq=False, repr=False, kw_only=True)
class MeanVariancePortfolio(LinearRobust):
    __doc__ = (
        """Portfolio of largest ⟨r̄, w⟩ − risk_aversion·wᵀΣw − (l2/2)‖w‖², r̄ and Σ mean and covariance of returns.

    Parameters
    ----------
    risk_aversion : float
        The price of variance, positive. Returns in percent have variances 10,000 times those of fractions.
    long_only : bool
        Whether weights must not be negative.
    budget : float, optional
        What the weights sum to; None leaves that free.
    leverage : float, optional
        The most that absolute weights may sum to; None for no limit.
    l2 : float
        Strength of a penalty that spreads the weights; the score of held-out returns may choose it.
    missing : {"rows", "assets", "error"}
        Of a missing return (NaN) leave out the period, with a warning, or the asset, or refuse it.
"""
        + SOLVING
        + """
    Attributes
    ----------
    weights_ : ndarray (assets,)
        The portfolio.
    mean_ : ndarray (assets,)
        Mean returns; NaN of assets left out.
    expected_return_, variance_ : float
        Of the portfolio over the periods of the fit.
    left_out_ : tuple of str
        Assets that were left out because a return is missing.
"""
        + FITTED
        + """
    Examples
    --------
    >>> import xrisk
    >>> from xrisk.datasets import make_returns
    >>> returns = make_returns(500, 4, random_state=0).returns
    >>> portfolio = xrisk.MeanVariancePortfolio(risk_aversion=2.0).fit(returns)
    >>> round(float(portfolio.weights_.sum()), 9), portfolio.certificate_.relative <= 1e-6
    (1.0, True)
    """
    )

    risk_aversion: float = field(default=1.0, kw_only=False)
    long_only: bool = True
    budget: float | None = 1.0
    leverage: float | None = None
    l2: float = 0.0
    missing: str = "rows"
    tol: float = 1e-6

    _attributes: ClassVar[tuple[str, ...]] = ("weights_",)

    @with_callbacks
    def fit(self, X: Matrix, y: Vector = None, sample_weight: Vector = None) -> Any:
        """Fit the portfolio.

        Parameters
        ----------
        X : array or DataFrame (periods, assets)
            Returns. Float32, float64 and memory maps are not copied where none is missing.
        y : None
            Ignored.
        sample_weight : array (periods,), optional
            Weights of the periods.

        Returns
        -------
        self
        """
        check_parameters(self)
        X = self._returns(X)
        weight = None if sample_weight is None else _check_sample_weight(sample_weight, X, ensure_non_negative=True)
        return self._fitted(self._complete(X, weight))

    def _returns(self, X: Matrix, reset: bool = True) -> np.ndarray:
        """Returns as an array, NaN where one is missing or masked."""
        if isinstance(X, np.ma.MaskedArray):
            X = np.ma.filled(X.astype(np.result_type(X.dtype, np.float32)), np.nan)
        try:
            return validate_data(self, X, dtype=[np.float64, np.float32], ensure_all_finite="allow-nan", reset=reset)
        except np.exceptions.DTypePromotionError as error:
            raise ValueError("X must hold returns alone, got a column of dates: make it the index") from error

    def _complete(self, X: np.ndarray, weight: np.ndarray | None) -> Training:
        """The returns without those that are missing."""
        gaps, kept = self._gaps(X), np.ones(X.shape[1], dtype=bool)
        if gaps.rows.any() and self.missing == "rows":
            X, weight = _without(X, gaps.rows, weight)
        elif gaps.rows.any():
            kept = ~gaps.columns
            if not kept.any():
                raise ValueError("X must have an asset without missing returns where missing='assets', every one has")
            X = X[:, kept]
        if weight is not None and not weight.any():
            raise ValueError("sample_weight must have a positive sum, got 0.0")
        if weight is not None:
            weight = weight / weight.max()  # the sum of large ones would overflow
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused
            found = moments(X, weight)
        if not (np.isfinite(found.mean).all() and np.isfinite(found.covariance).all()):
            raise ValueError("X must have returns whose squares are finite: scale them down")
        left_out = tuple(name for name, is_kept in zip(_names(self), kept, strict=True) if not is_kept)
        return Training(X, np.zeros(0), np.zeros(0), weight, Holdings(kept, found, left_out))

    def _problem(self, training: Training) -> Problem:
        X, weight, holdings = training.X, training.weight, training.metadata
        self._check_budget(holdings.moments)
        terms = {
            "risk_aversion": self.risk_aversion,
            "l2": self.l2,
            "domain": portfolio_domain(self.long_only, self.budget, self.leverage),
        }
        if not isinstance(self.solver, str):
            if weight is not None:
                raise ValueError("sample_weight needs solver='auto': other methods sample all periods alike")
            return self._sampled(X, terms)
        if len(X) > X.shape[1]:
            problem = mean_variance_of_moments(*holdings.moments, **terms)
        else:
            share = np.full(len(X), 1.0 / len(X)) if weight is None else weight / weight.sum()
            deviations = (X - holdings.moments.mean) * np.sqrt(share)[:, None]
            problem = mean_variance_of_rows(deviations, holdings.moments.mean, **terms)
        if penalty_convexity(problem.penalty) == 0.0 and _is_unbounded(terms["domain"], holdings.moments):
            self._refuse_unbounded(terms["domain"], training)
        return problem

    def _check_budget(self, known: Moments) -> None:
        if self.budget is None:
            return
        total, risk = abs(as_number("budget", self.budget)), as_number("risk_aversion", self.risk_aversion)
        size = max(risk * float(np.diag(known.covariance).max()), as_number("l2", self.l2), 1.0)
        fits = np.isfinite(total * total * size) or not np.isfinite([total, size]).all()  # else said elsewhere
        require(fits, "budget", self.budget, "smaller, for the objective to be finite")

    def _sampled(self, X: np.ndarray, terms: dict[str, Any]) -> Problem:
        """The problem with the deviations sampled, or exact for a solver that cannot use that."""
        problem = mean_variance(X, **terms)
        if suits(self.solver, problem):
            return problem
        exact = mean_variance(X, **terms, sampling="exact")
        return exact if suits(self.solver, exact) else problem

    def _refuse_unbounded(self, domain: Domain, training: Training) -> None:
        """Raise where a direction with a mean return has no variance; one that is only small leaves an optimum."""
        if isinstance(domain, NonNegative) or whitening(self._squares(training), domain is not None) is None:
            raise ValueError(self._no_minimum())

    def _no_minimum(self) -> str:
        return (
            "the objective has no optimum: some portfolio without variance up to rounding has a positive mean return, "
            "and may be held without limit; l2 > 0, leverage, or a budget with long_only=True would give it one"
        )

    def _proved(self, problem: Problem, result: Result, training: Training, runs: Runs) -> Result:
        """The result proved of the returns themselves: the covariance has lost half of their digits."""
        if result.stop is Stop.UNBOUNDED:
            raise ValueError(self._no_minimum())
        limits = portfolio_domain(self.long_only, self.budget, self.leverage)
        domain, lower = limits, partial(conjugate_lower_bound, penalty=domain_penalty(self.l2, limits))
        if limits is None:
            domain = NoPenalty()
        F, ours = self._squares(training), isinstance(self.solver, str)

        def prove(hurried: bool) -> ProvedPoint:
            if ours and _holds_nothing(domain, F, training.X):
                return ProvedPoint(np.zeros(result.w.size), 0.0, between(0.0, 0.0))
            tol, steps = np.inf if hurried else EXACT, STEPS if ours else 0
            return certify_squares(F, domain, lower, result.w, tol=tol, steps=steps)

        proof = in_time(problem, result, runs, prove) or ProvedPoint(result.w, result.value, NOTHING_PROVED)
        reach = _reach(domain, F)
        if isinstance(domain, UNLIMITED) and proof.value < -FAR * reach and self._is_rounding(F, proof, training.X):
            raise ValueError(self._no_minimum())
        return replace(at_proof(result, proof), stop=self._stop(stop_of(result), proof.certificate, reach))

    def _is_rounding(self, F: Squares, proof: ProvedPoint, X: np.ndarray) -> bool:
        """Whether a portfolio that brings so much does so by the rounding of the returns, or nothing is known of it."""
        if not proof.certificate.relative <= self.tol:
            return True
        spread = float(np.sqrt(F.share @ F.residuals(proof.w, True).value ** 2))
        sizes = linear_scores(np.abs(X), np.abs(proof.w)[None, :])[:, 0]
        return spread <= 4.0 * float(np.finfo(X.dtype).eps) * float(np.sqrt(F.share @ sizes**2))

    def _stop(self, ended: Stop, known: Certificate, reach: float) -> Stop:
        if known.relative <= self.tol:
            return Stop.CONVERGED
        if known.gap <= ZERO * reach:
            return Stop.OPTIMAL
        return Stop.ROUNDING if ended is Stop.CONVERGED else ended

    def _squares(self, training: Training) -> Squares:
        known = training.metadata.moments
        terms = {"risk_aversion": self.risk_aversion, "l2": self.l2}
        with np.errstate(over="ignore", invalid="ignore"):  # infinities are bounds as well
            return returns_squares(training.X, training.weight, known, **terms)

    def _advice(self, result: Result) -> str:
        if not self.l2 and self.leverage is None and not np.isfinite(result.certificate.relative):
            return "the covariance is singular, and l2 > 0, leverage, or a budget with long_only=True gives a bound"
        if result.stop is Stop.ROUNDING:
            smaller = "" if self.leverage is None else "a smaller leverage, "
            return f"{smaller}a larger l2 or a larger tol may help"
        return super()._advice(result)

    def _packed(self) -> np.ndarray:
        return self.weights_.copy()

    def _model(self, w: np.ndarray, training: Training) -> dict[str, Any]:
        holdings = training.metadata
        weights, mean = np.zeros(holdings.kept.size), np.full(holdings.kept.size, np.nan)
        weights[holdings.kept], mean[holdings.kept] = w, holdings.moments.mean
        return {
            "weights_": weights,
            "mean_": mean,
            "expected_return_": float(holdings.moments.mean @ w),
            "variance_": max(float(w @ holdings.moments.covariance @ w), 0.0),
            "left_out_": holdings.left_out,
        }

    def _check_shapes(self) -> None:
        if self.weights_.shape != (self.n_features_in_,):
            raise ValueError(f"weights_ must have {self.n_features_in_} numbers, got shape {self.weights_.shape}")

    def _gaps(self, X: np.ndarray) -> "Gaps":
        """Where returns are missing; refuses them where they are to be."""
        gaps = _missing_cells(X)
        if gaps.rows.any() and self.missing == "error":
            periods = f"{int(gaps.rows.sum())} of {len(X)} periods"
            raise ValueError(f"X must have no missing returns where missing='error', NaN is in {periods}")
        return gaps

    def predict(self, X: Matrix) -> np.ndarray:
        """The return of the portfolio in each period: X @ weights_.

        Assets that it does not hold may be missing. Where one is that it does hold, the return is NaN, and a warning
        names the asset.
        """
        check_is_fitted(self)
        X = self._returns(X, reset=False)
        gaps, used = self._gaps(X), self.weights_ != 0.0
        if not gaps.rows.any():
            return X @ self.weights_
        found = X[:, used] @ self.weights_[used]
        if (gaps.columns & used).any():
            name = _names(self)[int(np.flatnonzero(gaps.columns & used)[0])]
            periods = f"{int(np.isnan(found).sum())} of {len(X)} periods"
            warnings.warn(
                f"the return of {name} or another asset with a weight is missing in {periods}, and that of the "
                "portfolio is NaN there",
                stacklevel=2,
            )
        return found

    def score(self, X: Matrix, y: Vector = None, sample_weight: Vector = None) -> float:
        """Mean less risk_aversion times variance of the portfolio's returns where they are known; larger is better."""
        found = self.predict(X)
        known = ~np.isnan(found)
        if not known.any():
            raise ValueError("X must have a period in which every asset with a weight has a return, none has")
        weight = None if sample_weight is None else _check_sample_weight(sample_weight, X, ensure_non_negative=True)
        weight = None if weight is None else weight[known]
        mean = float(np.average(found[known], weights=weight))
        return mean - self.risk_aversion * float(np.average((found[known] - mean) ** 2, weights=weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing != "error"
        tags.input_tags.sparse = False
        tags.target_tags.required = False
        return tags


def _names(portfolio: MeanVariancePortfolio) -> list[str]:
    """Of the assets: those of the columns, or x0, x1, …"""
    names = getattr(portfolio, "feature_names_in_", None)
    return [f"x{j}" for j in range(portfolio.n_features_in_)] if names is None else [str(name) for name in names]


class Gaps(NamedTuple):
    """Where returns are missing."""

    rows: np.ndarray  # (periods,)
    columns: np.ndarray  # (assets,)


def _missing_cells(X: np.ndarray) -> Gaps:
    rows, columns = np.zeros(X.shape[0], dtype=bool), np.zeros(X.shape[1], dtype=bool)
    step = max(BLOCK // X.shape[1], 1)
    for low in range(0, len(X), step):
        block = X[low : low + step]
        if np.isnan(block.sum()):  # opposite infinities were refused
            cells = np.isnan(block)
            rows[low : low + step] = cells.any(axis=1)
            columns |= cells.any(axis=0)
    return Gaps(rows, columns)


def _without(X: np.ndarray, incomplete: np.ndarray, weight: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
    if incomplete.all():
        raise ValueError(
            f"X must have a period without missing returns, all {len(X)} have one: missing='assets' leaves out the "
            "assets instead"
        )
    warnings.warn(
        f"{int(incomplete.sum())} of {len(X)} periods have missing returns and were left out", stacklevel=USER + 1
    )
    return X[~incomplete], None if weight is None else weight[~incomplete]


def _holds_nothing(domain: Domain, F: Squares, X: np.ndarray) -> bool:
    """Whether w = 0 is sure to be optimal: of long positions without a budget, if no mean return is positive."""
    if not isinstance(domain, NonNegative | SolidSimplex):
        return False
    unclear = np.flatnonzero(F.linear < F.linear_error)
    return all(X[:, j].max() <= 0.0 for j in unclear)


def _reach(domain: Domain, F: Squares) -> float:
    """About how much returns of this size can change the objective."""
    with np.errstate(over="ignore", invalid="ignore"):
        return _finite_reach(domain, F)


def _finite_reach(domain: Domain, F: Squares) -> float:
    linear = F.linear - F.linear.mean() if isinstance(domain, Hyperplane) else F.linear
    sizes = np.abs(linear) + F.norms
    curvature = F.factor * F.norms**2 + 0.5 * F.l2
    free = float(np.max(np.divide(sizes**2, 4.0 * curvature, out=np.zeros_like(curvature), where=curvature > 0.0)))
    limited = float(penalty_conjugate(domain, sizes))
    return min(free, limited) if free > 0.0 else limited if limited < np.inf else 0.0


def _is_unbounded(domain: Domain, known: Moments) -> bool:
    """Whether mean returns grow without limit in a direction without variance; of a domain without bounds only."""
    if isinstance(domain, NonNegative):  # of more than one asset the solver finds it
        return bool((known.mean[np.diag(known.covariance) == 0.0] > 0.0).any())
    if not (domain is None or isinstance(domain, Hyperplane)):
        return False
    size = np.sqrt(np.where(np.diag(known.covariance) > 0.0, np.diag(known.covariance), 1.0))
    values, vectors = np.linalg.eigh(known.covariance / size / size[:, None])
    flat = vectors[:, values <= NULL * max(float(values[-1]), 0.0)] / size[:, None]
    if isinstance(domain, Hyperplane) and flat.size:  # of these only what leaves the sum as it is
        across = flat.sum(axis=0)
        flat = flat @ (np.eye(across.size) - np.outer(across, across) / max(float(across @ across), 1e-300))
    lengths = np.abs(flat).T @ np.abs(known.mean)
    return bool((np.abs(flat.T @ known.mean) > 1e3 * NULL * np.maximum(lengths, 1e-300)).any())
