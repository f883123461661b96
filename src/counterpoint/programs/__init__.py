"""The engine: regions of the encoded space, programs over them, what multipliers prove, the search.

A `Domain` condition speaks of features one by one (intervals, whole steps, one-hot groups, the
number of changes), so that a separable function can be minimised over all of them in closed form. A
`Coupling` condition ties features together (linear rows, cones); it is convex, and it knows its own
duality: *any* multipliers turn it into one linear inequality that each of its points meets
(`Coupling.cut`). Everything that is ever proved follows from these two facts; see
`counterpoint.programs.program`. `LogLoss` is a coupling that charges instead of excluding; its
multipliers bound the charge from below.

Shapes: ``n`` rows, ``d`` encoded columns, ``m`` multipliers.
"""
