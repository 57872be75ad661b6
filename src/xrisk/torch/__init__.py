"""Losses for PyTorch that drop into any training loop: worst groups, rare positives, the tail of the loss, rankings.

``import xrisk.torch as xt``. Nothing else of the package imports torch.
"""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError("xrisk.torch needs PyTorch: pip install 'xrisk[torch]'") from error

from xrisk.torch.batches import ClassBatches as ClassBatches
from xrisk.torch.batches import GroupBatches as GroupBatches
from xrisk.torch.dro import DROLoss as DROLoss
from xrisk.torch.groups import GroupDROLoss as GroupDROLoss
from xrisk.torch.proximal import ProximalPoint as ProximalPoint
from xrisk.torch.rows import Indexed as Indexed
