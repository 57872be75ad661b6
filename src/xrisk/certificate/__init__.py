"""Certificates: a proof, by weak duality, of how far a point can be from the optimum."""

from xrisk.certificate.bounds import Certificate, between, certifiable, certify
from xrisk.certificate.pairs import PairSlopes

__all__ = ["Certificate", "PairSlopes", "between", "certifiable", "certify"]
