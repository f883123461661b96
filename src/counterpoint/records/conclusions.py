"""What records of answers say, as their own proofs show: made and checked by the same functions."""

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
    verdict: Validation,
    stated: Mapping[str, Any],
) -> dict[str, Any]:
    """What records of (n, d) rows and answers have to say, in columns of shape (n,).

    The verdict is the model's own on the answers. Of what a record ``said`` only this counts: its
    proof, whether it is valid or already, and what nothing but a search can know: that a solver
    reported a bound that settles the row, and which; of a row that nothing settles, that its
    optimum is local, or that time ran out.
    """
    query = recorded.query
    program, pieces = query.actionable, query.union
    answered, already = stated["valid"].astype(bool), stated["status"] == Status.ALREADY
    # By the formulas, at the row that was returned: what the change costs, by how much it breaks
    # constraints, what was minimised.
    cost_cutoff = recorded.cost_cutoff(x, y)
    numbers = {
        "cost": program.encoded_cost(y, x),
        "violation": program.violation(y, x),
        "objective": cost_cutoff,
    }
    numbers |= {name: getattr(verdict, name) for name in ("margin", "rounding", "probability")}
    # By its proof: no point costs less than ``least``. Of a row that stays nothing has to be
    # proved, for no cost is below 0.
    has_proof = np.array([proof is not None for proof in stated["proof"]], dtype=bool) & ~already
    least, settled = np.zeros(len(x)), np.array(already)
    if has_proof.any():
        proofs = list(compress(stated["proof"], has_proof))
        columns = (column[has_proof] for column in (x, answered, cost_cutoff))
        least[has_proof], settled[has_proof] = _proved(recorded, proofs, *columns)
    # A reported bound counts where it settles the row and its own proof does not.
    reported = (stated["claim"] == Claim.REPORTED) & ~settled
    bound = np.where(reported, np.fmax(stated["bound"], least), least)
    bound, least = (np.where(answered, np.fmin(b, cost_cutoff), b) for b in (bound, least))
    # An answer is optimal if its gap is closed; without one, an infinite bound refutes the row.
    small = settled | (relative_gap(cost_cutoff, bound) <= query.effort.gap)
    sure = (settled | reported) & np.where(answered, small, np.isposinf(bound))
    bound = np.where(sure, bound, least)  # of what is not settled only what is proved is said
    gap = relative_gap(cost_cutoff, bound)
    limited = (stated["status"] == Status.LIMIT) & (query.effort.seconds is not None) & ~sure
    status, claim, promised = np.full((3, len(x)), Claim.NONE, dtype=object)
    status[:], status[answered] = Status.UNPROVED, Status.SUBOPTIMAL
    status[sure & ~answered], status[sure & answered] = Status.INFEASIBLE, Status.OPTIMAL
    status[limited], status[already] = Status.LIMIT, Status.ALREADY
    claim[sure & settled], claim[sure & reported] = Claim.PROVED, Claim.REPORTED
    if any(piece.program.nonconvex for piece in pieces.listed):
        claim[(status == Status.SUBOPTIMAL) & (stated["claim"] == Claim.LOCAL)] = Claim.LOCAL
    promised[:] = query.target.requirement.promise
    promised[answered] = Guarantee.of(verdict.guarantees)[answered]
    numbers = {k: np.where(answered, v, np.nan) for k, v in {**numbers, "gap": gap}.items()}
    numbers |= {"bound": bound, "proved_bound": least}
    numbers["resolution"] = np.full(len(x), recorded.resolution)
    words = {"status": status, "claim": claim, "guarantee": promised}
    return {**numbers, **words, "proved": settled}


def _proved(
    recorded: RecordedQuery,
    proofs: list[Any],
    x: FloatArray,
    answered: BoolArray,
    cost_cutoff: FloatArray,
) -> tuple[FloatArray, BoolArray]:
    """Return the bounds (n,) that recorded proofs give, and whether they settle the rows.

    ``cost_cutoff`` (n,) is what was minimised, at the answer of rows that are ``answered``.
    """
    query, pieces = recorded.query, recorded.query.union
    piece_proofs, gap = read_proofs(proofs, pieces.proof_programs), query.effort.gap
    bound, cutoff = np.zeros(len(proofs)), np.where(answered, cost_cutoff, np.inf)
    # Where whole columns are on their lattice, ties are decided there: as when it was answered.
    on_lattice = np.zeros(len(proofs), dtype=bool)
    if query.is_discrete:
        on_lattice = query.on_lattice(x)
    ties_resolved = query.lattice_union if on_lattice.any() else pieces
    for mask, union in ((~on_lattice, pieces), (on_lattice, ties_resolved)):
        block = np.flatnonzero(mask)
        if len(block):
            evidence = [
                _evidence(union, program, recorded.cases(program, x[block]), proof.take(block))
                for program, proof in zip(union.proof_programs, piece_proofs, strict=True)
            ]
            bound[block] = lower_bounds(evidence, cutoff[block], gap)[0]
    small = relative_gap(cost_cutoff, bound) <= gap
    return bound, np.where(answered, small, np.isposinf(bound))


def _evidence(union: Union, program: Program, cases: Batch, proof: BoundProof) -> Bounding:
    """What bounds one piece of the target: multipliers and trees, or what its family reads."""
    if proof.boxed is not None:
        whole = _evidence(union, program, cases, proof._replace(boxed=None))
        return _boxed(union, program, cases, proof.boxed, whole)
    for family in families() if proof.family_proofs is not None or proof.trees else ():
        for condition in (union.lazy, *program.region):
            if type(condition) in family.PROOFS:
                bounds: Bounding = family.PROOFS[type(condition)](condition, program, cases, proof)
                return bounds
    if proof.family_proofs is not None:
        raise ValueError("there is a proof of a kind that is not known")
    return Evidence.of_proof(program, cases, proof)


def _boxed(
    union: Union, program: Program, cases: Batch, boxed: BoxedProof, whole: Bounding
) -> BoxedEvidence:
    """What bounds one piece in boxes that cover the domains of some rows.

    What a forbidden combination excludes, and what is empty, holds no answer.
    """
    if union.combinations is None:
        raise ValueError("there are boxes in a proof, and no combination is forbidden")
    splits = boxed.splits
    row = splits.row[splits.tree]
    low, high, _ = boxes(program, cases.take(splits.row), splits.tree, splits)
    excluded = is_empty(program.domain, low, high)
    excluded |= union.combinations.forbid(low, high, cases.x[row]).any(axis=1)
    leaf = np.flatnonzero(splits.is_leaf & ~excluded)
    leaf = leaf[np.argsort(row[leaf], kind="stable")]
    order = np.argsort(boxed.row, kind="stable")
    if not np.array_equal(row[leaf], boxed.row[order]):
        raise ValueError("the boxes of a proof do not fit what is proved of them")
    batches = []
    if len(leaf):
        inside = replace(cases.take(row[leaf]), low=low[leaf], high=high[leaf])
        evidence = _evidence(union, program, inside, boxed.leaves.take(order))
        batches = [SearchedNodes(row[leaf], np.ones(len(leaf), dtype=bool), [evidence])]
    return BoxedEvidence([whole], splits, batches, np.arange(len(leaf)))


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
    messages = {}
    for key in {*keys}:  # of which there are few, and rows may be many
        status, claim, guarantee, answered, edge = key
        messages[key] = message_of(
            Status(status),
            Claim(claim),
            Guarantee(guarantee),
            has_answer=answered,
            on_edge=edge,
            comparison=comparison,
            gap=query.effort.gap,
        )
    return np.array([messages[key] for key in keys], dtype=object)


def nothing(n: int, resolution: float) -> dict[str, Any]:
    """What records of n rows that cannot be used have to say."""
    out: dict[str, Any] = {name: np.full(n, np.nan) for name in NUMBERS}
    out |= {"bound": np.zeros(n), "proved_bound": np.zeros(n), "proved": np.zeros(n, dtype=bool)}
    words = {"status": Status.INVALID, "claim": Claim.NONE, "guarantee": Guarantee.NONE}
    out |= {name: np.full(n, word, dtype=object) for name, word in words.items()}
    return out | {"resolution": np.full(n, resolution)}
