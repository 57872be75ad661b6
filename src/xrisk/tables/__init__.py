"""Tables: files that are read, columns that are encoded, rows to train on and to validate on.

Reading files, in `xrisk.tables.read`, needs pandas; the rest does not.
"""

from xrisk.tables.columns import CategoryColumn as CategoryColumn
from xrisk.tables.columns import GroupColumn as GroupColumn
from xrisk.tables.columns import NumberColumn as NumberColumn
from xrisk.tables.encoding import TableEncoding as TableEncoding
from xrisk.tables.encoding import learn_encoding as learn_encoding
from xrisk.tables.encoding import learn_groups as learn_groups
from xrisk.tables.model import RankedClasses as RankedClasses
from xrisk.tables.model import TableModel as TableModel
from xrisk.tables.rows import Part as Part
from xrisk.tables.rows import parts as parts
