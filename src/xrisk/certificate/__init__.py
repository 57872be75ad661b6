"""Certificates: a proof, by weak duality, of how far a point can be from the optimum."""

from xrisk.certificate.bounds import (
    NOTHING_PROVED,
    Certificate,
    between,
    certifiable,
    certify,
    certify_measured,
    is_perfect,
)
from xrisk.certificate.cuts import Cut, Cuts, cut_at, cut_sizes, has_cuts
from xrisk.certificate.passes import Bounded, Measured, measured, refuse_unknown
from xrisk.certificate.penalties import conjugate_upper, penalty_terms, symmetric_conjugate_upper
from xrisk.certificate.rounding import (
    loss_rounding,
    outer_conjugate_terms,
    outer_terms,
    risk_terms,
    usual_outer_conjugate_terms,
    usual_outer_terms,
)

__all__ = [
    "NOTHING_PROVED",
    "Bounded",
    "Certificate",
    "Cut",
    "Cuts",
    "Measured",
    "between",
    "certifiable",
    "certify",
    "certify_measured",
    "conjugate_upper",
    "cut_at",
    "cut_sizes",
    "has_cuts",
    "is_perfect",
    "loss_rounding",
    "measured",
    "outer_conjugate_terms",
    "outer_terms",
    "penalty_terms",
    "refuse_unknown",
    "risk_terms",
    "symmetric_conjugate_upper",
    "usual_outer_conjugate_terms",
    "usual_outer_terms",
]
