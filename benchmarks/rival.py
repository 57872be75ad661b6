"""What a good engineer would write instead: NumPy, SciPy's L-BFGS-B, a smoothed risk, a weak-duality bound.

The risk over the groups' mean logistic losses is smoothed by ``mu``·n/2·‖q − 1/n‖² over its dual set, which is
quadratic for CVaR and the maximum; χ² and KL are smooth as they are. ``mu`` falls until the gap between the objective
and the dual value of the smoothed weights and the losses' slopes is within the tolerance. No allowance for rounding.
"""

import numpy as np
from scipy.optimize import minimize


def capped(u, mu, cap):
    """The maximiser q of ⟨q, u⟩ − mu·n/2·‖q − 1/n‖² over the simplex with q ≤ cap, by bisection."""
    n = u.size
    low, high = u.min() - mu * n * cap - 1.0, u.max() + mu
    for _ in range(100):
        c = 0.5 * (low + high)
        q = np.clip((u - c) / (mu * n) + 1.0 / n, 0.0, cap)
        low, high = (c, high) if q.sum() > 1.0 else (low, c)
    return q / q.sum()


def weights(u, divergence, alpha, lam, mu):
    """q and the value of the risk there, smoothed where it is not smooth by itself."""
    n = u.size
    if divergence == "kl":
        q = np.exp((u - u.max()) / lam)
        q /= q.sum()
        return q, lam * np.log(np.exp((u - u.max()) / lam).mean()) + u.max()
    if divergence == "chi2":
        q = capped(u, lam, 1.0)
        return q, q @ u - 0.5 * lam * n * ((q - 1.0 / n) ** 2).sum()
    q = capped(u, mu, 1.0 if divergence == "max" else max(1.0 / (alpha * n), 1.0 / n))
    return q, q @ u - 0.5 * mu * n * ((q - 1.0 / n) ** 2).sum()


def rival(X, y, groups, divergence="cvar", alpha=0.1, lam=1.0, l2=1e-3, tol=1e-3, intercept=False):
    """Parameters (with the intercept last), objective and lower bound of group DRO; groups are codes 0, …, n − 1."""
    n, d, sizes = int(groups.max()) + 1, X.shape[1], np.bincount(groups)
    bound, mu, ftol, w = -np.inf, 0.3, 1e-6, np.zeros(d + intercept)

    def losses(w):
        m = y * (X @ w[:d] + (w[d] if intercept else 0.0))
        e = np.exp(-np.abs(m))
        u = np.bincount(groups, np.maximum(-m, 0.0) + np.log1p(e), n) / sizes
        return m, u, -y * np.where(m > 0.0, e, 1.0) / (1.0 + e)

    def smoothed(w):
        _, u, slopes = losses(w)
        q, value = weights(u, divergence, alpha, lam, mu)
        s = (q / sizes)[groups] * slopes
        grad = X.T @ s + l2 * w[:d]
        return value + 0.5 * l2 * w[:d] @ w[:d], np.append(grad, s.sum()) if intercept else grad

    while True:
        w = minimize(smoothed, w, jac=True, method="L-BFGS-B", options={"maxiter": 1000, "ftol": ftol}).x
        _, u, slopes = losses(w)
        q, _ = weights(u, divergence, alpha, lam, mu)
        value = weights(u, divergence, alpha, lam, 1e-12)[1] + 0.5 * l2 * w[:d] @ w[:d]
        if intercept:  # slopes are made smaller on the heavier side, so that the intercept has no pull
            adjoint = (q / sizes)[groups] * slopes
            up, down = adjoint[adjoint > 0].sum(), -adjoint[adjoint < 0].sum()
            slopes = slopes * np.where(slopes > 0.0, min(1.0, down / up), min(1.0, up / down))
        p = np.clip(-slopes * y, 1e-300, 1.0)
        conjugate = p * np.log(p) + (1.0 - p) * np.log1p(-np.minimum(p, 1.0 - 1e-16))
        inner = (q / sizes) @ np.bincount(groups, conjugate, n)
        penalty = 0.5 / l2 * np.sum((X.T @ ((q / sizes)[groups] * slopes)) ** 2)
        cost = {
            "kl": lam * np.sum(q * np.log(np.maximum(n * q, 1e-300))),
            "chi2": 0.5 * lam * n * ((q - 1 / n) ** 2).sum(),
        }
        bound = max(bound, -cost.get(divergence, 0.0) - inner - penalty)
        if value - bound <= tol * value or mu < 1e-9:
            return w, value, bound
        mu, ftol = 0.25 * mu, max(0.3 * ftol, 1e-15)
