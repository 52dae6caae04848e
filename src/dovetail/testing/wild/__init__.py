"""Random operators with attributes, shapes and ranges as uneven as real ones.

for op in WILD_OPERATORS:
    case = wild_operator(op, seed)
    ...case.graph() is its float graph; dovetail.testing.cases.quantized(case, precision) the quantised one
"""

from dovetail.testing.wild.table import WILD_OPERATORS, wild_operator
from dovetail.testing.wild.values import wild_range

__all__ = ["WILD_OPERATORS", "wild_operator", "wild_range"]
