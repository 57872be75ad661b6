"""Projections onto {q: Σ q = total, 0 ≤ q ≤ cap}, Euclidean and Kullback–Leibler, and its support point, O(n log n)."""

import math

import numpy as np

from xrisk.compile import kernel

RUN = 16  # values that are sorted by insertion


@kernel
def descending_order(v):
    """Indices that sort ``v`` in descending order, with equal values in their old order.

    This is our own merge sort: Numba takes longer to compile NumPy's sorts than all that uses them.
    """
    n, width = v.size, RUN
    order, other = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    for i in range(n):
        k = i
        while k % RUN > 0 and v[order[k - 1]] < v[i]:
            order[k] = order[k - 1]
            k -= 1
        order[k] = i
    while width < n:
        for low in range(0, n, 2 * width):
            middle, high = min(low + width, n), min(low + 2 * width, n)
            a, b = low, middle
            for k in range(low, high):
                if b >= high or (a < middle and not v[order[a]] < v[order[b]]):
                    other[k] = order[a]
                    a += 1
                else:
                    other[k] = order[b]
                    b += 1
        order, other, width = other, order, 2 * width
    return order


@kernel
def ascending(v):
    """A sorted copy."""
    order, out = descending_order(v), np.empty(v.size)
    for r in range(v.size):
        out[v.size - 1 - r] = v[order[r]]
    return out


@kernel
def simplex_threshold(v, total):
    """(top, θ) with Σ_j (v_j − top − θ)₊ = total and top = max v.

    Kept apart because θ is of the size of ``total``: added to a large ``top`` it would be rounded away.
    """
    top = v.max()
    descending = ascending(v)[::-1]
    theta = -total
    cumulative = 0.0
    for r in range(v.size):
        shifted = descending[r] - top
        if shifted <= theta:
            break
        cumulative += shifted
        theta = (cumulative - total) / (r + 1)
    return top, theta


@kernel
def project_simplex(v, total):
    """Nearest point of {q ≥ 0: Σ q = total} to ``v`` (shape (n,)), in place."""
    top, theta = simplex_threshold(v, total)
    for j in range(v.size):
        v[j] = max(v[j] - top - theta, 0.0)


@kernel
def project_capped_simplex(v, total, cap):
    """Nearest point of {0 ≤ q ≤ cap: Σ q = total} to ``v`` (shape (n,)), in place; needs n·cap ≥ total.

    A shortfall of n·cap below total by rounding (relative 1e-9) gives the uniform point.
    """
    n = v.size
    if n * cap <= total * (1.0 + 1e-12):
        if n * cap < total * (1.0 - 1e-9):
            raise ValueError("cap is too small: the coordinates cannot sum to total")
        v[:] = total / n
        return
    order = descending_order(v)
    # a gap wider than cap acts as one of cap: the upper side is full before the lower side gets any; cut, so that
    # far apart values do not round the threshold away
    descending = np.zeros(n)
    for r in range(1, n):
        descending[r] = descending[r - 1] - min(v[order[r - 1]] - v[order[r]], cap)
    theta = _capped_threshold(descending, total, cap)
    for r in range(n):
        v[order[r]] = min(max(descending[r] - theta, 0.0), cap)


@kernel
def _capped_threshold(descending, total, cap):
    """θ with Σ_j clip(v_j − θ, 0, cap) = total, for v sorted descending; lowers θ from one breakpoint to the next."""
    n = descending.size
    entered, capped, theta, filled = 1, 0, descending[0], 0.0
    while capped < n:
        enters = descending[entered] if entered < n else -np.inf
        caps = descending[capped] - cap if capped < entered else -np.inf
        following = max(enters, caps)
        gained = (entered - capped) * (theta - following) if entered > capped else 0.0
        if filled + gained >= total:
            break
        filled += gained
        theta = following
        if enters >= caps:
            entered += 1
        else:
            capped += 1
    if entered == capped:
        return theta
    # from the sets alone, without the rounding of the walk
    return (descending[capped:entered].sum() - (total - cap * capped)) / (entered - capped)


@kernel
def kl_project_capped_simplex(q, cap):
    """argmin of Σ p log(p/q) over {p: Σ p = 1, 0 ≤ p ≤ cap}, in place; q ≥ 0 need not sum to one.

    The k largest become cap, the others are scaled to the remaining mass. If too few entries are
    positive (the divergence is infinite on the whole set), the remaining mass is spread evenly.
    """
    n = q.size
    if n * cap <= 1.0 + 1e-12:
        if n * cap < 1.0 - 1e-9:
            raise ValueError("cap is too small: the weights cannot sum to one")
        q[:] = 1.0 / n
        return
    order = descending_order(q)
    tail = np.zeros(n + 1)
    for r in range(n - 1, -1, -1):
        tail[r] = tail[r + 1] + q[order[r]]
    k = 0
    while k < n - 1 and q[order[k]] * (1.0 - k * cap) > cap * tail[k]:
        k += 1
    left = max(1.0 - k * cap, 0.0)
    for r in range(n):
        if r < k:
            q[order[r]] = cap
        else:
            q[order[r]] = q[order[r]] / tail[k] * left if tail[k] > 0.0 else left / (n - k)


@kernel
def normalise_logs(logq):
    """log q − log Σ q, in place."""
    top, total = logq.max(), 0.0
    for i in range(logq.size):
        total += math.exp(logq[i] - top)
    for i in range(logq.size):
        logq[i] = (logq[i] - top) - math.log(total)  # in one sum, a large top would round the other away


@kernel
def kl_project_logs(logq, cap):
    """`kl_project_capped_simplex` from logarithms to logarithms, in place.

    Weights too large or too small for a float64 keep their ratios; none overflows or becomes zero for good.
    """
    n = logq.size
    if n * cap <= 1.0 + 1e-12:
        if n * cap < 1.0 - 1e-9:
            raise ValueError("cap is too small: the weights cannot sum to one")
        for i in range(n):
            logq[i] = -math.log(n)
        return
    if cap >= 1.0:
        normalise_logs(logq)
        return
    order = descending_order(logq)
    tail = np.ones(n)  # Σ of the r-th largest and those below it, over the r-th largest
    for r in range(n - 2, -1, -1):
        tail[r] += tail[r + 1] * math.exp(logq[order[r + 1]] - logq[order[r]])
    k = 0
    # by rounding, caps may fill all of the mass and leave none for the others
    while (k + 1) * cap < 1.0 - 1e-12 and 1.0 - k * cap > cap * tail[k]:
        k += 1
    top, left = logq[order[k]], math.log((1.0 - k * cap) / tail[k])
    for r in range(n):
        logq[order[r]] = math.log(cap) if r < k else (logq[order[r]] - top) + left


@kernel
def fill_from_top(v, total, cap, q):
    """argmax of ⟨v, q⟩ over {0 ≤ q ≤ cap: Σ q = total} into ``q``: the largest v first, equal ones share evenly."""
    order = descending_order(v)
    left = total
    start = 0
    q[:] = 0.0
    while start < v.size and left > 0.0:
        stop = start + 1
        while stop < v.size and v[order[stop]] == v[order[start]]:
            stop += 1
        share = min(cap, left / (stop - start))
        for r in range(start, stop):
            q[order[r]] = share
        left -= share * (stop - start)
        start = stop
