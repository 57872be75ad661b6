"""Tables: files that are read, columns that are encoded, rows to train on and to validate on.

Reading files, in `xrisk.tables.read`, needs pandas; the rest does not.
"""

from xrisk.tables.columns import CategoryColumn, GroupColumn, NumberColumn
from xrisk.tables.encoding import TableEncoding, learn_encoding, learn_groups
from xrisk.tables.model import RankedClasses, TableModel
from xrisk.tables.rows import Part, parts

__all__ = [
    "CategoryColumn",
    "GroupColumn",
    "NumberColumn",
    "Part",
    "RankedClasses",
    "TableEncoding",
    "TableModel",
    "learn_encoding",
    "learn_groups",
    "parts",
]
