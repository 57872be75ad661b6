"""Losses for PyTorch that drop into any training loop: worst groups, rare positives, the tail of the loss, rankings.

``import xrisk.torch as xt``. Nothing else of the package imports torch.
"""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError("xrisk.torch needs PyTorch: pip install 'xrisk[torch]'") from error

from xrisk.torch.aucm import AUCLoss as AUCLoss
from xrisk.torch.aucm import AUCMLoss as AUCMLoss
from xrisk.torch.batches import ClassBatches as ClassBatches
from xrisk.torch.batches import GroupBatches as GroupBatches
from xrisk.torch.compositional import CompositionalLoss as CompositionalLoss
from xrisk.torch.contrastive import ContrastiveLoss as ContrastiveLoss
from xrisk.torch.contrastive import RobustContrastiveLoss as RobustContrastiveLoss
from xrisk.torch.dro import DROLoss as DROLoss
from xrisk.torch.functions import Discount as Discount
from xrisk.torch.functions import LogMeanExp as LogMeanExp
from xrisk.torch.functions import Quotient as Quotient
from xrisk.torch.functions import Sigmoid as Sigmoid
from xrisk.torch.groups import GroupDROLoss as GroupDROLoss
from xrisk.torch.labels import PerLabel as PerLabel
from xrisk.torch.partial import PartialAUCLoss as PartialAUCLoss
from xrisk.torch.proximal import ProximalPoint as ProximalPoint
from xrisk.torch.push import PNormPushLoss as PNormPushLoss
from xrisk.torch.push import TopPushLoss as TopPushLoss
from xrisk.torch.rankings import AveragePrecisionLoss as AveragePrecisionLoss
from xrisk.torch.rankings import ListwiseLoss as ListwiseLoss
from xrisk.torch.rankings import NDCGLoss as NDCGLoss
from xrisk.torch.rows import Indexed as Indexed
from xrisk.torch.two_way import TwoWayPartialAUCLoss as TwoWayPartialAUCLoss
from xrisk.torch.two_way_rules import PAUCIRule as PAUCIRule
from xrisk.torch.two_way_rules import SONXRule as SONXRule
from xrisk.torch.two_way_rules import SOTARule as SOTARule
from xrisk.torch.two_way_rules import SOTAsRule as SOTAsRule
from xrisk.torch.two_way_rules import STACORule as STACORule
