"""Solvers of programs with quadratic conditions: closed forms, local search, SCIP."""
