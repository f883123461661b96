"""Proofs as JSON has them: multipliers as numbers, trees as text, family proofs as objects."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from counterpoint.numerics import FloatArray, IntArray
from counterpoint.programs.evidence import BoundProof, BoxedProof, proof_size
from counterpoint.programs.proof import OLD, ProofTrees, node_size

if TYPE_CHECKING:
    from counterpoint.programs.program import Program


def proofs_of(pieces: Sequence[BoundProof], rows: IntArray) -> list[Any]:
    """Return the proof of each of some rows, as JSON has it: a list with one object a piece.

    An object holds multipliers, trees, the family's own proof, and boxes with proofs of their own.
    The proof of a row that has multipliers alone is an array instead, (Σ sizes,), those of all
    pieces one after the other; `as_pieces` makes the list of it.
    """
    joined = np.concatenate([piece.multipliers[rows] for piece in pieces], axis=1)
    if not any(piece.trees or piece.family_proofs or piece.boxed for piece in pieces):
        return [*joined]
    sizes, proofs = [piece.multipliers.shape[1] for piece in pieces], []
    trees_by_row = [_trees(piece) for piece in pieces]
    for row, multipliers in zip(rows.tolist(), joined, strict=True):
        additions: list[dict[str, Any]] = []  # what each piece has besides its multipliers
        for piece, trees in zip(pieces, trees_by_row, strict=True):
            addition: dict[str, Any] = {"trees": trees[row]} if row in trees else {}
            if piece.family_proofs is not None:
                fields = vars(piece.family_proofs[row]).items()
                addition["own"] = {
                    k: [*v] if isinstance(v, list) else number_to_json(v) for k, v in fields
                }
            boxed = None if piece.boxed is None else piece.boxed.take(np.array([row]))
            if boxed is not None:
                addition["boxes"] = _boxes(boxed)
            additions.append(addition)
        if any(additions):
            objects = as_pieces(multipliers, sizes)
            proofs.append([o | addition for o, addition in zip(objects, additions, strict=True)])
        else:
            proofs.append(multipliers)
    return proofs


def written(piece: BoundProof) -> list[Any]:
    """Return the proof of each row of a single piece, as JSON has it."""
    n, size = piece.multipliers.shape
    return [as_pieces(proof, [size])[0] for proof in proofs_of([piece], np.arange(n))]


def _trees(piece: BoundProof) -> dict[int, list[Any]]:
    """Return the trees of each row that has some, as JSON has them."""
    out: dict[int, list[Any]] = {}
    for trees in piece.trees:
        for row, tree in trees.each():
            out.setdefault(row, []).append(_tree(tree))
    return out


def _boxes(boxed: BoxedProof) -> dict[str, Any]:
    """Return the boxes of one row: splits, in base64, and the proof of each that needs one."""
    return {"nodes": b64encode(_nodes(boxed.splits)).decode(), "leaves": written(boxed.leaves)}


def as_pieces(proof: Any, sizes: Sequence[int]) -> Any:
    """Return a row's proof from `proofs_of` as a list of one object for each piece."""
    if not isinstance(proof, np.ndarray):
        return proof
    pieces = np.split(proof, np.cumsum(sizes)[:-1])
    return [{"multipliers": [*map(number_to_json, piece.tolist())]} for piece in pieces]


def _node(options: int) -> np.dtype[Any]:
    """Return how the split of a node is written, see `Splits`; the options by bit."""
    bits = ("options", "u1", (-(-options // 8),))
    return np.dtype([("kind", "u1"), ("column", "<u4"), ("value", "<f8"), bits])


def _tree(tree: ProofTrees) -> dict[str, Any]:
    """Return the tree of one row: its splits and the multipliers of its leaves, in base64."""
    return {
        "bound": number_to_json(float(tree.bound[0])),
        "nodes": b64encode(_nodes(tree)).decode(),
        "multipliers": b64encode(tree.multipliers[tree.is_leaf].astype("<f8").tobytes()).decode(),
    }


def _nodes(tree: ProofTrees) -> bytes:
    """Return the splits of one row's tree as bytes."""
    nodes = np.zeros(len(tree.kind), _node(tree.options.shape[1]))
    nodes["kind"], nodes["column"], nodes["value"] = tree.kind, tree.column, tree.value
    nodes["options"] = np.packbits(tree.options, axis=1)
    return nodes.tobytes()


def _read_tree(tree: Mapping[str, Any], program: Program) -> ProofTrees:
    """Read the tree of one row; raise a ValueError if it is none."""
    if tree.keys() != {"bound", "nodes", "multipliers"}:
        raise ValueError(OLD)
    splits = _read_splits(tree["nodes"], program)
    leaves = np.frombuffer(b64decode(tree["multipliers"], validate=True), "<f8")
    multipliers = np.zeros((len(splits.kind), node_size(program)))
    multipliers[splits.is_leaf] = leaves.reshape(int(splits.is_leaf.sum()), node_size(program))
    return splits._replace(bound=numbers_from_json([tree["bound"]]), multipliers=multipliers)


def _read_splits(text: Any, program: Program) -> ProofTrees:
    """Read the splits of one row's tree, which has no multipliers yet; ValueError if it is none."""
    count = int((~program.domain.numeric).sum())
    nodes = np.frombuffer(b64decode(text, validate=True), _node(count))
    return ProofTrees(
        row=np.zeros(1, np.intp),
        bound=np.zeros(1),
        kind=nodes["kind"].astype(np.intp),
        column=nodes["column"].astype(np.intp),
        value=nodes["value"],
        options=np.unpackbits(nodes["options"], axis=1, count=count).astype(bool),
        multipliers=np.zeros((len(nodes), 0)),
    )


def _read_boxes(boxes: Sequence[tuple[int, Any]], program: Program) -> BoxedProof | None:
    """Read the boxes of rows (each with its row) and their proofs; None if no row has any."""
    if not boxes:
        return None
    splits, row, leaves = list[ProofTrees](), list[int](), list[Any]()
    for i, table in boxes:
        if table.keys() != {"nodes", "leaves"}:
            raise ValueError("the boxes of a proof hold a key that is none of theirs")
        splits.append(_read_splits(table["nodes"], program)._replace(row=np.array([i])))
        row += [i] * len(table["leaves"])
        leaves += [[leaf] for leaf in table["leaves"]]
    if any("boxes" in leaf for (leaf,) in leaves):
        raise ValueError("the boxes of a proof are split again")
    none = BoundProof.without_multipliers(program, 0)
    proofs = read_proofs(leaves, [program])[0] if leaves else none
    return BoxedProof(ProofTrees.joined(splits), np.array(row, dtype=np.intp), proofs)


def read_proofs(proofs: Sequence[Any], programs: Sequence[Program]) -> list[BoundProof]:
    """Return the proofs of n rows for each piece, from one recorded proof a row.

    Recorded proofs are those of `proofs_of`. Raise a ValueError if they are not of the programs of
    these pieces.
    """
    sizes = [proof_size(program) for program in programs]
    flat = [proof if isinstance(proof, np.ndarray) else _flat(proof, sizes) for proof in proofs]
    if not sizes or any(len(multipliers) != sum(sizes) for multipliers in flat):
        raise ValueError(f"expected {sum(sizes)} multipliers")
    whole = np.concatenate(flat).reshape(len(proofs), -1)
    if not np.isfinite(whole).all():
        raise ValueError("expected finite multipliers")
    multipliers, out = np.split(whole, np.cumsum(sizes)[:-1], axis=1), list[BoundProof]()
    for s, program in enumerate(programs):
        # arrays hold multipliers alone
        pieces = [proof[s] if isinstance(proof, list) else {} for proof in proofs]
        trees = [(i, tree) for i, piece in enumerate(pieces) for tree in piece.get("trees", ())]
        boxes = [(i, piece["boxes"]) for i, piece in enumerate(pieces) if "boxes" in piece]
        family_proofs = [piece.get("own") for piece in pieces]
        has_family_proofs = any(proof is not None for proof in family_proofs)
        out.append(
            BoundProof(
                multipliers[s],
                _chunks(trees, program),
                family_proofs if has_family_proofs else None,
                _read_boxes(boxes, program),
            )
        )
    return out


def _flat(proof: Any, sizes: Sequence[int]) -> FloatArray:
    """Return the multipliers of all pieces of a row's proof, one after the other."""
    if not isinstance(proof, list) or len(proof) != len(sizes):
        raise ValueError("the proof is of another number of pieces than the target has")
    if any(piece.keys() - {"multipliers", "trees", "own", "boxes"} for piece in proof):
        raise ValueError("a piece of the proof holds a key that is none of its own")
    if [len(piece["multipliers"]) for piece in proof] != [*sizes]:
        raise ValueError("a piece of the proof has another number of multipliers")
    return np.array([v for piece in proof for v in piece["multipliers"]], dtype=np.float64)


def _chunks(trees: list[tuple[int, Any]], program: Program) -> list[ProofTrees]:
    """Return trees, each given with its row, in chunks to check at once: some 16 MiB of text."""
    chunk = np.cumsum([len(tree["multipliers"]) for _, tree in trees], dtype=np.intp) >> 24
    ends = [0, *(np.flatnonzero(np.diff(chunk)) + 1).tolist(), len(trees)]
    read = [_read_tree(tree, program)._replace(row=np.array([row])) for row, tree in trees]
    return [ProofTrees.joined(read[a:b]) for a, b in pairwise(ends) if a < b]


def number_to_json(value: Any) -> Any:
    """Return a number as JSON has it: null for NaN, words for infinities."""
    if isinstance(value, float) and not np.isfinite(value):
        return None if np.isnan(value) else "inf" if value > 0 else "-inf"
    return value


def numbers_from_json(values: Sequence[Any]) -> FloatArray:
    """Return numbers (n,) that `number_to_json` wrote; raise a ValueError if one is none."""
    words = {None: np.nan, "inf": np.inf, "-inf": -np.inf}
    plain = [words[v] if v is None or isinstance(v, str) else v for v in values]
    if any(isinstance(v, bool) or not isinstance(v, int | float) for v in plain):
        raise ValueError("expected a number")
    return np.array(plain, dtype=np.float64)
