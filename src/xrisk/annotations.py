"""Names for annotations: the part that a spec plays, and what users hand over.

A spec is a named tuple, and generic functions find out which one it is when they are called. No checker can follow
that, so these names are for readers; the verbs of a part are in the file that its comment names.
"""

from typing import Any, TypeAlias

Spec: TypeAlias = Any  # a named tuple of numbers, arrays and other specs
Loss: TypeAlias = Any  # functions/loss/generics.py
Outer: TypeAlias = Any  # functions/outer/generics.py, functions/block/generics.py; or a risk
Risk: TypeAlias = Any  # functions/risk.py
Penalty: TypeAlias = Any  # functions/penalty.py; or a domain
Domain: TypeAlias = Any  # functions/domain.py
Rows: TypeAlias = Any  # data/rows.py
Inner: TypeAlias = Any  # inner/oracle.py
State: TypeAlias = Any  # of a solver: arrays, whole numbers and further states
Schedule: TypeAlias = Any  # a number, or a spec of solvers/schedules.py

Solver: TypeAlias = Any  # a named tuple with the protocol of solvers/base.py, attached by its decorator
Matrix: TypeAlias = Any  # rows × columns: an array, a DataFrame, a sparse matrix, a memory map
Vector: TypeAlias = Any  # a number or a label for each row: an array, a column of a DataFrame, a list
Labels: TypeAlias = Any  # the group of each row: one column, several or a DataFrame
Frame: TypeAlias = Any  # a pandas DataFrame, which the core does not import
Estimator: TypeAlias = Any  # a model with scikit-learn's interface, ours or another
Seed: TypeAlias = Any  # an integer, a generator of random numbers or None
