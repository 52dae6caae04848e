"""The cheapest placement as a mathematical problem: pure data in, an assignment with a bound out."""

from dovetail.search.optimum.clauses import Clause, Literal
from dovetail.search.optimum.hitting import Optimum, ProofOptions, prove
from dovetail.search.optimum.problem import Assignment, Demands, PricedWire, Problem
from dovetail.search.optimum.programme import Solution, solve

__all__ = [
    "Assignment",
    "Clause",
    "Demands",
    "Literal",
    "Optimum",
    "PricedWire",
    "Problem",
    "ProofOptions",
    "Solution",
    "prove",
    "solve",
]
