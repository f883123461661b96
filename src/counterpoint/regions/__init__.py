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

from counterpoint.regions.base import (
    Charge,
    Condition,
    Coupling,
    Cut,
    Domain,
    NonConvex,
    Region,
    Supported,
)
from counterpoint.regions.cells import Cells
from counterpoint.regions.chance import Chance
from counterpoint.regions.charges import LogLoss
from counterpoint.regions.couplings import Affine, Cone, LogSumExp
from counterpoint.regions.domains import AtMost, Box, OneOf, Transitions, Whole
from counterpoint.regions.faceted import Faceted
from counterpoint.regions.lead import Lead
from counterpoint.regions.nearer import Nearer
from counterpoint.regions.quadrics import Quadrics
from counterpoint.regions.wavelimit import WaveLimit
from counterpoint.regions.waves import Waves

__all__ = [
    "Affine",
    "AtMost",
    "Box",
    "Cells",
    "Chance",
    "Charge",
    "Condition",
    "Cone",
    "Coupling",
    "Cut",
    "Domain",
    "Faceted",
    "Lead",
    "LogLoss",
    "LogSumExp",
    "Nearer",
    "NonConvex",
    "OneOf",
    "Quadrics",
    "Region",
    "Supported",
    "Transitions",
    "WaveLimit",
    "Waves",
    "Whole",
]
