"""Proofs that a relaxation has no point, without a solver, or from what one left behind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from counterpoint.engine.cases import Cases
from counterpoint.engine.evidence import Evidence
from counterpoint.engine.program import Program
from counterpoint.solvers.duals import purified

__all__ = ["contradicted", "sharpened"]


def contradicted(program: Program, case: Cases) -> Evidence | None:
    """The proof that some row alone, 0 <= a negative number, has no point; None without such a row.

    Parameters
    ----------
    program, case
        A relaxation, and one person.
    """
    affine = program.affine
    rows = np.flatnonzero(~affine.matrix.any(axis=1) & (affine.high < 0.0))
    if not len(rows):
        return None
    proof = np.zeros((1, program.size))
    proof[0, rows[0]] = 1.0
    evidence = Evidence(program, case, proof, None, np.full(1, -np.inf))
    return evidence if program.refutes(case, proof)[0] else None


def sharpened(evidence: Evidence) -> Evidence:
    """What nearly refutes one person, without the noise of the solver that found it.

    Parameters
    ----------
    evidence
        About one person.
    """
    program, ray = evidence.program, evidence.multipliers
    if program.refutes(evidence.cases, ray)[0]:
        return evidence
    return replace(evidence, multipliers=purified(program, evidence.cases, ray[0])[None, :])
