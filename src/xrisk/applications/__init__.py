"""Problems by name: what people want to minimise, from arrays."""

from xrisk.applications.arguments import LOSSES
from xrisk.applications.groups import group_dro, group_index
from xrisk.applications.hard import HardInstance, hard_nonsmooth, hard_smooth

__all__ = ["LOSSES", "HardInstance", "group_dro", "group_index", "hard_nonsmooth", "hard_smooth"]
