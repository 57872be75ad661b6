"""Certificates: a proof, by weak duality, of how far a point can be from the optimum."""

from xrisk.certificate.bounds import NOTHING_PROVED as NOTHING_PROVED
from xrisk.certificate.bounds import Certificate as Certificate
from xrisk.certificate.bounds import between as between
from xrisk.certificate.bounds import certifiable as certifiable
from xrisk.certificate.bounds import certify as certify
from xrisk.certificate.bounds import certify_measured as certify_measured
from xrisk.certificate.bounds import is_perfect as is_perfect
from xrisk.certificate.cuts import Cut as Cut
from xrisk.certificate.cuts import Cuts as Cuts
from xrisk.certificate.cuts import cut_at as cut_at
from xrisk.certificate.cuts import cut_sizes as cut_sizes
from xrisk.certificate.cuts import has_cuts as has_cuts
from xrisk.certificate.passes import Measured as Measured
from xrisk.certificate.passes import measured as measured
from xrisk.certificate.passes import refuse_unknown as refuse_unknown
from xrisk.certificate.penalties import conjugate_upper as conjugate_upper
from xrisk.certificate.penalties import penalty_terms as penalty_terms
from xrisk.certificate.penalties import symmetric_conjugate_upper as symmetric_conjugate_upper
from xrisk.certificate.rounding import loss_rounding as loss_rounding
from xrisk.certificate.rounding import outer_conjugate_terms as outer_conjugate_terms
from xrisk.certificate.rounding import outer_terms as outer_terms
from xrisk.certificate.rounding import risk_terms as risk_terms
from xrisk.certificate.rounding import usual_outer_conjugate_terms as usual_outer_conjugate_terms
from xrisk.certificate.rounding import usual_outer_terms as usual_outer_terms
