"""Families of models, a folder each: forms, conditions, bounds, solvers and readers."""
