"""Example data: generated tables, returns and decision processes, and loaders of real tables.

The loaders look in the folder named by the environment variable ``XRISK_DATA``, then in ``../shared/data`` relative to
the working directory and to the root of the repository. Then they download through scikit-learn: Adult from OpenML
(data set 1590), Covertype by `sklearn.datasets.fetch_covtype`, which keeps the published order of the rows. Downloads
are kept in scikit-learn's cache. Without a network they give up within seconds and say so. The files of the Kenneth
French library are not downloaded.
"""

from xrisk.datasets.adult import load_adult as load_adult
from xrisk.datasets.covtype import load_covtype as load_covtype
from xrisk.datasets.finding import find_file as find_file
from xrisk.datasets.french import Returns as Returns
from xrisk.datasets.french import load_french as load_french
from xrisk.datasets.generators import make_groups as make_groups
from xrisk.datasets.generators import make_returns as make_returns
from xrisk.datasets.generators import make_spurious as make_spurious
from xrisk.datasets.mdp import MDP as MDP
from xrisk.datasets.mdp import make_mdp as make_mdp
from xrisk.datasets.table import Table as Table
