"""Derive what records of answers say from their own proofs, to make records and to check them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counterpoint.certificate import (
    Claim,
    Comparison,
    Status,
    lower_bounds,
    message_of,
    relative_gap,
)
from counterpoint.families.registry import families
from counterpoint.numerics import BoolArray, FloatArray
from counterpoint.problem.targets import Guarantee, Validation
from counterpoint.programs.evidence import BoxedEvidence, Evidence, SearchedNodes
from counterpoint.programs.proof import boxes
from counterpoint.programs.proof_text import read_proofs
from counterpoint.records.record import NUMBERS, RecordedQuery
from counterpoint.search.combinations import is_empty
from counterpoint.search.search import Union

if TYPE_CHECKING:
    from counterpoint.programs.evidence import Bounding, BoundProof, BoxedProof
    from counterpoint.programs.program import Program
    from counterpoint.programs.region import Batch
    from counterpoint.search.query import Query


def concluded(
    recorded: RecordedQuery,
    x: FloatArray,
    y: FloatArray,
    validation: Validation,
    stated: Mapping[str, Any],
) -> dict[str, Any]:
    """Return what records of (n, d) rows ``x`` and answers ``y`` have to say, in columns (n,).

    ``validation`` is what the model says of the answers. Of what the records have ``stated`` only
    this counts: their proofs; which are valid, or have the target already; and what nothing but a
    search can know: that a solver reported a bound that settles the row, and which; of a row that
    nothing settles, that its optimum is local, or that time ran out.
    """
    query = recorded.query
    program, union = query.actionable, query.union
    answered, already = stated["valid"].astype(bool), stated["status"] == Status.ALREADY
    # The formulas of the program, at the row that was returned.
    objective = recorded.objective(x, y)
    numbers = {
        "cost": program.encoded_cost(y, x),
        "violation": program.violation(y, x),
        "objective": objective,
    }
    numbers |= {name: getattr(validation, name) for name in ("margin", "rounding", "probability")}
    # The proof: no point has an objective below ``proved_bound``. A row that has the target already
    # needs no proof, for no cost is below 0.
    has_proof = np.array([proof is not None for proof in stated["proof"]], dtype=bool) & ~already
    proved_bound, settled = np.zeros(len(x)), np.array(already)
    if has_proof.any():
        proofs = list(compress(stated["proof"], has_proof))
        columns = (column[has_proof] for column in (x, answered, objective))
        proved_bound[has_proof], settled[has_proof] = _proved(recorded, proofs, *columns)
    # A bound that a solver reported counts only where it settles the row and the proof does not.
    reported = (stated["claim"] == Claim.REPORTED) & ~settled
    bound = np.where(reported, np.fmax(stated["bound"], proved_bound), proved_bound)
    # An answer that keeps a constraint only up to rounding may cost less than any exact one.
    bound, proved_bound = (
        np.where(answered, np.fmin(lower, objective), lower) for lower in (bound, proved_bound)
    )
    # An answer is optimal if its gap is closed; a row without one is infeasible if its bound is
    # infinite.
    closed = settled | (relative_gap(objective, bound) <= query.effort.gap)
    conclusive = (settled | reported) & np.where(answered, closed, np.isposinf(bound))
    bound = np.where(conclusive, bound, proved_bound)
    limited = (stated["status"] == Status.LIMIT) & (query.effort.seconds is not None) & ~conclusive
    status, claim, guarantee = np.full((3, len(x)), Claim.NONE, dtype=object)
    status[:], status[answered] = Status.UNPROVED, Status.SUBOPTIMAL
    status[conclusive & ~answered], status[conclusive & answered] = (
        Status.INFEASIBLE,
        Status.OPTIMAL,
    )
    status[limited], status[already] = Status.LIMIT, Status.ALREADY
    claim[conclusive & settled], claim[conclusive & reported] = Claim.PROVED, Claim.REPORTED
    if any(piece.program.nonconvex for piece in union.listed):
        claim[(status == Status.SUBOPTIMAL) & (stated["claim"] == Claim.LOCAL)] = Claim.LOCAL
    guarantee[:] = query.target.requirement.promise
    guarantee[answered] = Guarantee.of(validation.guarantees)[answered]
    # Numbers about an answer are there only if it is.
    numbers["gap"] = relative_gap(objective, bound)
    numbers = {name: np.where(answered, values, np.nan) for name, values in numbers.items()}
    numbers |= {"bound": bound, "proved_bound": proved_bound}
    numbers["resolution"] = np.full(len(x), recorded.resolution)
    return {**numbers, "status": status, "claim": claim, "guarantee": guarantee}


def _proved(
    recorded: RecordedQuery,
    proofs: list[Any],
    x: FloatArray,
    answered: BoolArray,
    objective: FloatArray,
) -> tuple[FloatArray, BoolArray]:
    """Return the bounds (n,) that recorded proofs give, and whether they settle the rows.

    ``objective`` (n,) is that of the answer, for rows that are ``answered``.
    """
    query, union = recorded.query, recorded.query.union
    program_proofs, gap = read_proofs(proofs, union.proof_programs), query.effort.gap
    bound, cutoff = np.zeros(len(proofs)), np.where(answered, objective, np.inf)
    # A proof is about the programs of the union that was searched. For rows whose whole columns are
    # on their lattice, that is the union with ties resolved.
    on_lattice = np.zeros(len(proofs), dtype=bool)
    if query.is_discrete:
        on_lattice = query.on_lattice(x)
    lattice_union = query.lattice_union if on_lattice.any() else union
    for mask, row_union in ((~on_lattice, union), (on_lattice, lattice_union)):
        rows = np.flatnonzero(mask)
        if len(rows):
            evidence = [
                _evidence(row_union, program, recorded.cases(program, x[rows]), proof.take(rows))
                for program, proof in zip(row_union.proof_programs, program_proofs, strict=True)
            ]
            bound[rows] = lower_bounds(evidence, cutoff[rows], gap)[0]
    closed = relative_gap(objective, bound) <= gap
    return bound, np.where(answered, closed, np.isposinf(bound))


def _evidence(union: Union, program: Program, cases: Batch, proof: BoundProof) -> Bounding:
    """Read the recorded proof of a bound on one program of a target, for a batch of rows.

    Trees and a family's own proofs are read by the family that has a reader for the type of one of
    the conditions; multipliers, and trees that no family reads, are `Evidence`. Raises a ValueError
    if no family reads its own proof.
    """
    if proof.boxed is not None:  # rows that were split into boxes; each box has a proof of its own
        undivided = _evidence(union, program, cases, proof._replace(boxed=None))
        return _boxed(union, program, cases, proof.boxed, undivided)
    if proof.family_proofs is not None or proof.trees:
        for family in families():
            # regions that are too many to be listed, a lazy union, are no condition of a program
            for condition in (union.lazy, *program.region):
                if type(condition) in family.PROOFS:
                    reader = family.PROOFS[type(condition)]
                    evidence: Bounding = reader(condition, program, cases, proof)
                    return evidence
    if proof.family_proofs is not None:
        raise ValueError("there is a proof of a kind that is not known")
    return Evidence.of_proof(program, cases, proof)


def _boxed(
    union: Union, program: Program, cases: Batch, boxed: BoxedProof, undivided: Bounding
) -> BoxedEvidence:
    """Read the recorded proof of rows whose domains were split into boxes, with a proof for each.

    A leaf of the splits needs a proof of its own, unless its box is empty or excluded by a
    forbidden combination, so that it holds no answer. ``undivided`` bounds rows without boxes.
    """
    if union.combinations is None:
        raise ValueError("there are boxes in a proof, and no combination is forbidden")
    splits = boxed.splits
    node_row = splits.row[splits.tree]  # a tree for each row that was split
    low, high, _ = boxes(program, cases.take(splits.row), splits.tree, splits)
    excluded = is_empty(program.domain, low, high)
    excluded |= union.combinations.forbid(low, high, cases.x[node_row]).any(axis=1)
    leaves = np.flatnonzero(splits.is_leaf & ~excluded)
    # The proofs do not say which leaf each is of: the k-th of a row is that of its k-th leaf. Both
    # are brought into the order of the rows.
    leaves = leaves[np.argsort(node_row[leaves], kind="stable")]
    leaf_row, order = node_row[leaves], np.argsort(boxed.row, kind="stable")
    if not np.array_equal(leaf_row, boxed.row[order]):
        raise ValueError("the boxes of a proof do not fit what is proved of them")
    batches = []
    if len(leaves):
        inside = replace(cases.take(leaf_row), low=low[leaves], high=high[leaves])
        evidence = _evidence(union, program, inside, boxed.leaves.take(order))
        is_leaf = np.ones(len(leaves), dtype=bool)  # inner nodes need no proof
        batches = [SearchedNodes(leaf_row, is_leaf, [evidence])]
    return BoxedEvidence([undivided], splits, batches, order=np.arange(len(leaves)))


def messages_of(values: Mapping[str, Any], query: Query) -> NDArray[np.object_]:
    """Return the messages (n,) that follow from the other values of records.

    ``values`` are columns of n records. Rows that cannot be used have other messages, and remarks
    are added to some: both are left to the caller.
    """
    comparison = Comparison.of(is_cheapest=True, is_tradeoff=not query.target.demanding)
    has_answer = values["valid"].astype(bool)
    on_edge = has_answer & (values["margin"] < values["rounding"])
    words = (values[name].tolist() for name in ("status", "claim", "guarantee"))
    keys = [*zip(*words, has_answer.tolist(), on_edge.tolist(), strict=True)]
    messages = {
        (status, claim, guarantee, answered, edge): message_of(
            Status(status),
            Claim(claim),
            Guarantee(guarantee),
            has_answer=answered,
            on_edge=edge,
            comparison=comparison,
            gap=query.effort.gap,
        )
        for status, claim, guarantee, answered, edge in {*keys}  # few, where rows may be many
    }
    return np.array([messages[key] for key in keys], dtype=object)


def values_without_answer(n: int, resolution: float) -> dict[str, Any]:
    """Return what records of n rows that cannot be used have to say, in columns (n,)."""
    values: dict[str, Any] = {name: np.full(n, np.nan) for name in NUMBERS}
    values |= {"bound": np.zeros(n), "proved_bound": np.zeros(n)}
    words = {"status": Status.INVALID, "claim": Claim.NONE, "guarantee": Guarantee.NONE}
    values |= {name: np.full(n, word, dtype=object) for name, word in words.items()}
    return values | {"resolution": np.full(n, resolution)}
