"""Regions of the encoded space, and the conditions whose intersection they are.

A `Domain` condition speaks of features one by one (intervals,
whole steps, one-hot groups, the number of changes), so that a separable function can be minimised
over all of them in closed form. A `Coupling` condition ties features together (linear rows, cones);
it is convex, and it knows its own duality: *any* multipliers turn it into one linear inequality
that each of its points meets (`Coupling.cut`). Everything that is ever proved here follows from
these two facts; see `counterpoint.programs`. A `Charge` is a condition that costs instead of
excluding; its multipliers turn it into a linear bound from below.

Shapes: ``n`` rows, ``d`` encoded columns, ``m`` multipliers.
"""

from counterpoint.regions.base import Charge, Condition, Coupling, Domain, NonConvex, Region
from counterpoint.regions.charges import LogLoss
from counterpoint.regions.couplings import Affine, Cone, LogSumExp, Parabola
from counterpoint.regions.domains import AtMost, Box, OneOf, Transitions, Whole
from counterpoint.regions.nearer import Nearer

__all__ = [
    "Affine",
    "AtMost",
    "Box",
    "Charge",
    "Condition",
    "Cone",
    "Coupling",
    "Domain",
    "LogLoss",
    "LogSumExp",
    "Nearer",
    "NonConvex",
    "OneOf",
    "Parabola",
    "Region",
    "Transitions",
    "Whole",
]
