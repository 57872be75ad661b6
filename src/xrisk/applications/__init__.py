"""Applications: problems built from arrays."""

from xrisk.applications.arguments import AMBIGUITIES as AMBIGUITIES
from xrisk.applications.arguments import CLASS_LOSSES as CLASS_LOSSES
from xrisk.applications.arguments import DIVERGENCES as DIVERGENCES
from xrisk.applications.arguments import LOSSES as LOSSES
from xrisk.applications.arguments import NUMBER_LOSSES as NUMBER_LOSSES
from xrisk.applications.groups import group_dro as group_dro
from xrisk.applications.groups import group_index as group_index
from xrisk.applications.hard import HardInstance as HardInstance
from xrisk.applications.hard import hard_gradient as hard_gradient
from xrisk.applications.hard import hard_nonsmooth as hard_nonsmooth
from xrisk.applications.hard import hard_smooth as hard_smooth
from xrisk.applications.policy import averaged_bellman as averaged_bellman
from xrisk.applications.policy import bellman as bellman
from xrisk.applications.portfolio import mean_variance as mean_variance
from xrisk.applications.portfolio import mean_variance_of_moments as mean_variance_of_moments
from xrisk.applications.quadratic import quadratic as quadratic
from xrisk.applications.ranking import p_norm_push as p_norm_push
from xrisk.applications.ranking import partial_auc as partial_auc
from xrisk.applications.ranking import precision_at_k as precision_at_k
from xrisk.applications.ranking import sigmoid_partial_auc as sigmoid_partial_auc
from xrisk.applications.ranking import top_push as top_push
from xrisk.applications.ranking import two_way_partial_auc as two_way_partial_auc
from xrisk.applications.robust import averaged_logistic as averaged_logistic
from xrisk.applications.robust import robust_logistic as robust_logistic
from xrisk.applications.samples import sample_dro as sample_dro
from xrisk.applications.tasks import multi_task as multi_task
