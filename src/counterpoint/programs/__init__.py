"""Programs: regions of the encoded space, costs over them, and the bounds that multipliers prove.

A `Domain` condition speaks of features one by one (intervals, whole steps, one-hot groups, the
number of changes), so that a separable function can be minimised over all of them in closed form. A
`Coupling` condition ties features together (linear rows, cones); it is convex, and it knows its own
duality: *any* multipliers turn it into one linear inequality that each of its points meets
(`Coupling.cut`). All proofs follow from these two facts; see `counterpoint.programs.program`.
`LogLoss` is a coupling that excludes no point: it is a term of the objective, which its multipliers
bound from below.

Shapes: ``n`` rows, ``d`` encoded columns, ``m`` multipliers.
"""
