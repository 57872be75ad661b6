"""Rankings: a linear score s that puts positives above negatives and stresses one end of the list.

Every problem here is made of gᵢ(w) = meanⱼ ℓ(sᵢ − sⱼ), a row i against all rows j. The score has no intercept: it would
cancel in every difference. Weights of rows are not supported: a weight on pairs has no agreed meaning.
"""

from typing import Any

import numpy as np

from xrisk.annotations import Inner, Loss, Matrix, Outer, Vector
from xrisk.applications.arguments import CLASS_LOSSES, as_number, by_name, checked_problem, penalty_of, signs_of
from xrisk.data.products import less_offset
from xrisk.data.rows import row_count, row_numbers, row_size
from xrisk.functions import CVaRRisk, Identity, MaxRisk, Power, Scaled, Softplus, loss_domain
from xrisk.functions.proximal import Anchored
from xrisk.inner import Pairs, as_rows
from xrisk.inner.passes import column_sizes, pass_loss
from xrisk.inner.sigmoid_pairs import SigmoidPairs, between_rates
from xrisk.inner.tail import tail_of
from xrisk.problem import Problem


def partial_auc(
    X: Matrix, y: Vector, *, min_tpr: float, loss: Loss = "logistic", l1: float = 0.0, l2: float = 0.0
) -> Problem:
    """Partial AUC with TPR ≥ min_tpr: the mean of the k largest Lᵢ(w) = meanⱼ ℓ(sᵢ − sⱼ), i positive, j negative.

    k = ⌊n₊ (1 − min_tpr)⌋ positives are still missing when the true positive rate reaches min_tpr. As ℓ does not
    increase, the k positives with the largest Lᵢ are the k with the lowest scores.

    Parameters
    ----------
    X : array or sparse matrix (rows, d)
        Float32, float64 and memory maps in C order are not copied.
    y : array (rows,)
        −1 and 1.
    min_tpr : float
        In [0, 1); 0 is the whole area under the curve.
    loss : str or loss spec
        ℓ(t), of the margin t of a pair: a word of `xrisk.applications.CLASS_LOSSES`, or the spec itself.
    l1, l2 : float
        Strengths of the penalty l1‖w‖₁ + (l2/2)‖w‖².

    Returns
    -------
    Problem
        min over w of ρ(L₁(w), …) + r(w) with ρ = min_c c + (1/k) Σᵢ (Lᵢ − c)₊.

    Notes
    -----
    Wang and Yang, ALEXR, equations (2.3)–(2.5); there the term "+ c" is missing, without which the infimum is 0.

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk.applications import partial_auc
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), [-1, 1, -1, 1]
    >>> round(partial_auc(X, y, min_tpr=0.5, loss="hinge").value(np.ones(1)), 6)  # the positive at 1
    1.0
    """
    rows, positive, negative = _sides(X, y)
    k = _lowest(positive.size, min_tpr)
    return _penalised(Pairs(rows, positive, negative, _loss(loss)), CVaRRisk(k / positive.size), l1, l2)


def two_way_partial_auc(
    X: Matrix,
    y: Vector,
    *,
    min_tpr: float,
    max_fpr: float,
    loss: Loss = "squared_hinge",
    l1: float = 0.0,
    l2: float = 0.0,
) -> Problem:
    """Two-way partial AUC, TPR ≥ min_tpr and FPR ≤ max_fpr: the mean loss of the hardest pairs.

    Only the k₁ = ⌊n₊ (1 − min_tpr)⌋ positives with the lowest scores and the k₂ = ⌊n₋ max_fpr⌋ negatives with the
    highest scores count: the part of the ROC curve where both rates are in their ranges.

    Parameters
    ----------
    X, y, l1, l2
        As for `partial_auc`.
    min_tpr : float
        In [0, 1).
    max_fpr : float
        In (0, 1]; 1 is `partial_auc`.
    loss : str or loss spec
        As for `partial_auc`; it must not increase.

    Returns
    -------
    Problem
        min over w of the mean of the k₁ largest gᵢ(w), gᵢ the mean of the k₂ largest ℓ(sᵢ − sⱼ), plus r(w).

    Notes
    -----
    Zhu et al., When AUC meets DRO, ICML 2022; Zhou et al., Stochastic primal-dual double block-coordinate for two-way
    partial AUC maximization, TMLR 2025, with θ₀ = k₁/n₊ and θ₁ = k₂/n₋, so that loss and metric use the same pairs.
    If the hard pairs cannot be separated on average, the minimiser is w = 0, with the objective ℓ(0).

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk.applications import two_way_partial_auc
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), [-1, 1, -1, 1]
    >>> two_way_partial_auc(X, y, min_tpr=0.5, max_fpr=0.5).value(np.ones(1))  # the positive at 1, the negative at 2
    4.0
    """
    rows, positive, negative = _sides(X, y)
    lowest, highest = _lowest(positive.size, min_tpr), _highest(negative.size, max_fpr)
    inner = tail_of(Pairs(rows, positive, negative, _not_increasing(loss)), highest)
    return _penalised(inner, CVaRRisk(lowest / positive.size), l1, l2)


def sigmoid_partial_auc(
    X: Matrix, y: Vector, *, min_tpr: float, max_fpr: float, anchor: float = 0.0, center: Any = None
) -> Problem:
    """Two-way partial AUC with the bounded loss σ(sⱼ − sᵢ): a smooth share of the hardest pairs in the wrong order.

    A pair that no model can put in order costs at most one, however wrong it is. The problem is not convex: a local
    method such as `xrisk.solvers.Descent` improves a model that is good already, and ``anchor`` keeps it near.

    Parameters
    ----------
    X : array or sparse matrix (rows, d)
        Float32, float64 and memory maps in C order are not copied.
    y : array (rows,)
        −1 and 1.
    min_tpr, max_fpr : float
        As for `two_way_partial_auc`, whose pairs these are.
    anchor : float
        Strength of (anchor/2) Σⱼ (sizeⱼ (wⱼ − centerⱼ))², sizeⱼ that of column j about its mean.
    center : array (d,), optional
        Zero by default.

    Returns
    -------
    Problem
        min over w of the mean of σ(sⱼ − sᵢ) over the k₁ lowest positives i and the k₂ highest negatives j, plus r(w).

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk.applications import sigmoid_partial_auc
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), [-1, 1, -1, 1]
    >>> round(sigmoid_partial_auc(X, y, min_tpr=0.5, max_fpr=0.5).value(np.ones(1)), 6)  # σ(2 − 1)
    0.731059
    """
    rows, positive, negative = _sides(X, y)
    _lowest(positive.size, min_tpr)
    _highest(negative.size, max_fpr)
    selected = between_rates(Pairs(rows, positive, negative), min_tpr, max_fpr)
    return anchored(selected, as_number("anchor", anchor), np.zeros(row_size(rows)) if center is None else center)


def anchored(selected: SigmoidPairs, anchor: float, center: np.ndarray) -> Problem:
    """The problem of pairs that are selected already."""
    sizes = column_sizes(selected)
    scales = np.where(sizes > 0.0, sizes, 1.0)
    return Problem(selected, Identity(), Anchored(anchor, np.asarray(center, dtype=np.float64), scales))


def _lowest(n: int, min_tpr: Any) -> int:
    """How many of n positives are still missing at the true positive rate min_tpr."""
    share = as_number("min_tpr", min_tpr)
    if not 0.0 <= share < 1.0:
        raise ValueError(f"min_tpr must lie in [0, 1), got {min_tpr}")
    return _some(n * (1.0 - share), f"min_tpr must be at most {1.0 - 1.0 / n:.6g} for {n} positives, got {min_tpr}")


def _highest(n: int, max_fpr: Any) -> int:
    """How many of n negatives are included at the false positive rate max_fpr."""
    share = as_number("max_fpr", max_fpr)
    if not 0.0 < share <= 1.0:
        raise ValueError(f"max_fpr must lie in (0, 1], got {max_fpr}")
    return _some(n * share, f"max_fpr must be at least {1.0 / n:.6g} for {n} negatives, got {max_fpr}")


def _some(rows: float, refusal: str) -> int:
    k = int(np.floor(rows + 1e-9))  # 10·(1 − 0.9) rounds to below 1
    if k < 1:
        raise ValueError(f"{refusal}: none would be left to rank")
    return k


def p_norm_push(
    X: Matrix,
    y: Vector,
    *,
    p: float = 4.0,
    outer: str = "negatives",
    loss: Loss = "exponential",
    l1: float = 0.0,
    l2: float = 0.0,
) -> Problem:
    """p-norm push: the mean over i of gᵢ(w)^p, gᵢ a row's mean loss against the other class.

    In Rudin's push the outer mean is over negatives: a negative above many positives has a large gᵢ, and the power
    increases its weight, which removes negatives from the top of the list. With positives outside, positives are
    removed from the bottom of the list.

    Parameters
    ----------
    X, y, l1, l2
        As for `partial_auc`.
    p : float
        At least 1; 1 is the area under the ROC curve.
    outer : {"negatives", "positives"}
        Whose mean losses are raised to the power.
    loss : str or loss spec
        As for `partial_auc`; it must not be negative.

    Notes
    -----
    Rudin, The p-norm push, JMLR 2009, with negatives outside; Wang and Yang, ALEXR, section 2.3, with positives
    outside, where the mean inside is over negatives (printed with 1/n₊ over positives) and the power is that of (u)₊.

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk.applications import p_norm_push
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), [-1, 1, -1, 1]
    >>> p_norm_push(X, y, p=2, loss="hinge").value(np.ones(1))  # gaps (0, 0) and (2, 0): (0² + 1²)/2
    0.5
    """
    rows, positive, negative = _sides(X, y)
    power = as_number("p", p)
    if not 1.0 <= power < np.inf:
        raise ValueError(f"p must be finite and at least 1, got {p}")
    spec = _loss(loss)
    sides = {
        "negatives": Pairs(rows, negative, positive, spec, -1.0),
        "positives": Pairs(rows, positive, negative, spec, 1.0),
    }
    if not isinstance(outer, str):
        raise TypeError(f"outer must be one of {', '.join(sides)}, got {outer!r}")
    return _penalised(by_name("outer", outer, sides), Power(power) if power > 1.0 else Identity(), l1, l2)


def precision_at_k(
    X: Matrix, y: Vector, *, k: int, loss: Loss = "logistic", l1: float = 0.0, l2: float = 0.0
) -> Problem:
    """Precision and recall at k: the mean over positives i of log(1 + exp(rankᵢ(w) − k)), rankᵢ = Σⱼ ℓ(sᵢ − sⱼ).

    The sum is over all rows j. With the indicator of sⱼ ≥ sᵢ for ℓ, rankᵢ is the place of positive i in the list. The
    share of positives beyond place k is 1 − recall at k, and precision at k is recall at k times n₊/k, so both have
    the same surrogate.

    Parameters
    ----------
    X, y, loss, l1, l2
        As for `partial_auc`.
    k : int
        Length of the top of the list, from 1 to the number of rows.

    Returns
    -------
    Problem
        With inner functions gᵢ = rankᵢ/N, means over all N rows, and f(u) = log(1 + exp(N u − k)): samples of gᵢ are
        unbiased.

    Notes
    -----
    Wang and Yang, ALEXR, section 2.3; there "− k" stands inside the sum over j. A row is compared with itself too,
    which adds ℓ(0) to every rank. A convex ℓ overestimates ranks: if they are far beyond k, f is linear there, and the
    problem is that of the area under the curve.

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk.applications import precision_at_k
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), [-1, 1, -1, 1]
    >>> round(precision_at_k(X, y, k=2, loss="hinge").value(np.ones(1)), 6)  # rank 1+2+3 and 1: log(1+e⁴), log(1+e⁻¹)
    2.165706
    """
    rows, positive, _ = _sides(X, y)
    n = row_count(rows)
    if as_number("k", k) not in range(1, n + 1):
        raise ValueError(f"k must be a whole number from 1 to the number of rows, {n}, got {k}")
    inner = Pairs(rows, positive, row_numbers(np.arange(n), n), _loss(loss))
    return _penalised(inner, Scaled(Softplus(), slope=float(n), shift=-float(k)), l1, l2)


def top_push(X: Matrix, y: Vector, *, loss: Loss = "squared_hinge", l1: float = 0.0, l2: float = 0.0) -> Problem:
    """TopPush: the mean over positives i of ℓ(sᵢ − maxⱼ sⱼ), every positive against the highest negative j.

    A positive without loss is above all negatives, at the top of the list.

    Parameters
    ----------
    X, y, l1, l2
        As for `partial_auc`.
    loss : str or loss spec
        As for `partial_auc`; it must not increase.

    Returns
    -------
    Problem
        min over w of maxⱼ gⱼ(w) + r(w), gⱼ = meanᵢ ℓ(sᵢ − sⱼ) the mean loss of negative j.

    Notes
    -----
    Li, Jin and Zhou, Top rank optimization in linear time, NIPS 2014, with ℓ of the margin where they
    have it of minus the margin; theirs is the squared hinge. As ℓ does not increase, the highest negative is the worst
    for every positive, and the mean of the maxima is the maximum of the means: the p-norm push whose p is infinite,
    except for the root. Their method takes time linear in the rows, ours in the pairs.

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk.applications import top_push
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), [-1, 1, -1, 1]
    >>> top_push(X, y).value(np.ones(1))  # 1 and 3 against the negative at 2: (2² + 0²)/2
    2.0
    """
    rows, positive, negative = _sides(X, y)
    return _penalised(Pairs(rows, negative, positive, _not_increasing(loss), -1.0), MaxRisk(), l1, l2)


def _sides(X: Matrix, y: Vector) -> tuple[Any, np.ndarray, np.ndarray]:
    """Rows, those of them that are positive and those that are negative."""
    rows = as_rows(X)
    n = row_count(rows)
    y = signs_of(y, n)
    positive, negative = np.flatnonzero(y == 1), np.flatnonzero(y == -1)
    if positive.size == 0 or negative.size == 0:
        raise ValueError(f"y must hold both −1 and 1, got {int(y[0])} alone")
    # an offset cancels in every difference of scores, but not its rounding
    return less_offset(rows), row_numbers(positive, n), row_numbers(negative, n)


def _loss(loss: Loss) -> Any:
    return by_name("loss", loss, CLASS_LOSSES)


def _not_increasing(loss: Loss) -> Any:
    spec = _loss(loss)
    if not (loss_domain.implemented(spec) and loss_domain(spec, 1.0)[1] <= 0.0):
        raise ValueError(f"loss must not increase with the margin, and say so by loss_domain, got {loss!r}")
    return spec


def _penalised(inner: Inner, outer: Outer, l1: float, l2: float) -> Problem:
    return checked_problem(inner, outer, penalty_of(l1, l2, False, pass_loss(inner)))
