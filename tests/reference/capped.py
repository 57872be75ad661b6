"""Weights of at most ``cap`` each, as naive as can be."""

import numpy as np


def kl_capped(q, cap):
    """Cap what is too large and scale the rest to the mass that is left, until nothing is too large."""
    q, full = q / q.sum(), np.zeros(q.size, dtype=bool)
    while (q > cap * (1.0 + 1e-15)).any():
        full |= q >= cap
        q[full] = cap
        q[~full] *= (1.0 - cap * full.sum()) / q[~full].sum()
    return q
