"""Proofs as JSON has them: multipliers as numbers, trees as text, family proofs as objects."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from counterpoint.numerics import FloatArray, IntArray
from counterpoint.programs.evidence import BoundProof, BoxedProof, proof_size
from counterpoint.programs.proof import LEAF, OLD, ProofTrees, node_size

if TYPE_CHECKING:
    from counterpoint.programs.program import Program


def proofs_of(pieces: Sequence[BoundProof], rows: IntArray) -> list[Any]:
    """What proves the bound of each row, for each piece: multipliers, trees, a family's own proof.

    And boxes with proofs of their own. An array of the multipliers of all pieces, if there is
    nothing else.
    """
    whole = np.concatenate([piece.multipliers[rows] for piece in pieces], axis=1)
    if not any(piece.trees or piece.family_proofs or piece.boxed for piece in pieces):
        return [*whole]
    sizes, out = [piece.multipliers.shape[1] for piece in pieces], []
    trees = [_trees(piece) for piece in pieces]
    for row, flat in zip(rows.tolist(), whole, strict=True):
        tables: list[dict[str, Any]] = [{"trees": t[row]} if row in t else {} for t in trees]
        for piece, table in zip(pieces, tables, strict=True):
            if piece.family_proofs is not None:
                fields = vars(piece.family_proofs[row]).items()
                table["own"] = {k: [*v] if isinstance(v, list) else told(v) for k, v in fields}
            boxed = None if piece.boxed is None else piece.boxed.take(np.array([row]))
            if boxed is not None:
                table["boxes"] = _boxes(boxed)
        both = zip(as_pieces(flat, sizes), tables, strict=True)
        out.append([piece | table for piece, table in both] if any(tables) else flat)
    return out


def _trees(piece: BoundProof) -> dict[int, list[Any]]:
    """Row → its trees, as JSON has them."""
    out: dict[int, list[Any]] = {}
    for trees in piece.trees:
        for row, tree in trees.each():
            out.setdefault(row, []).append(_tree(tree))
    return out


def _boxes(boxed: BoxedProof) -> dict[str, Any]:
    """The boxes of one row: their splits, in base64, and a proof of each that needs one."""
    count = len(boxed.row)
    proofs = proofs_of([boxed.leaves], np.arange(count)) if count else []
    sizes = [boxed.leaves.multipliers.shape[1]]
    leaves = [as_pieces(proof, sizes)[0] for proof in proofs]
    return {"nodes": b64encode(_nodes(boxed.splits)).decode(), "leaves": leaves}


def as_pieces(proof: Any, sizes: Sequence[int]) -> Any:
    """A proof as JSON has it: a list of pieces."""
    if not isinstance(proof, np.ndarray):
        return proof
    pieces = np.split(proof, np.cumsum(sizes)[:-1])
    return [{"multipliers": [*map(told, piece.tolist())]} for piece in pieces]


def _node(options: int) -> np.dtype[Any]:
    """Return how the split of a node is written, see `ProofTrees`; options by bit."""
    bits = ("options", "u1", (-(-options // 8),))
    return np.dtype([("kind", "u1"), ("what", "<u4"), ("where", "<f8"), bits])


def _tree(trees: ProofTrees) -> dict[str, Any]:
    """The tree of one row: its splits and the multipliers of its leaves, in base64."""
    multipliers = trees.multipliers[trees.kind == LEAF].astype("<f8")
    return {
        "bound": told(float(trees.bound[0])),
        "nodes": b64encode(_nodes(trees)).decode(),
        "multipliers": b64encode(multipliers.tobytes()).decode(),
    }


def _nodes(trees: ProofTrees) -> bytes:
    """How the nodes of one row's tree are split."""
    nodes = np.zeros(len(trees.kind), _node(trees.options.shape[1]))
    nodes["kind"], nodes["what"], nodes["where"] = trees.kind, trees.what, trees.where
    nodes["options"] = np.packbits(trees.options, axis=1)
    return nodes.tobytes()


def _read_tree(tree: Mapping[str, Any], program: Program) -> ProofTrees:
    """The tree of one row that JSON says; ValueError if it is none."""
    if tree.keys() != {"bound", "nodes", "multipliers"}:
        raise ValueError(OLD)
    splits, size = _read_splits(tree["nodes"], program), node_size(program)
    leaves = np.frombuffer(b64decode(tree["multipliers"], validate=True), "<f8")
    is_leaf = splits.kind == LEAF
    vectors = np.zeros((len(is_leaf), size))
    vectors[is_leaf] = leaves.reshape(int(is_leaf.sum()), size)
    return splits._replace(bound=numbers([tree["bound"]]), multipliers=vectors)


def _read_splits(text: Any, program: Program) -> ProofTrees:
    """The splits of one row's tree, without multipliers; ValueError if they are none."""
    count = int((~program.domain.numeric).sum())
    nodes = np.frombuffer(b64decode(text, validate=True), _node(count))
    kind, what = nodes["kind"].astype(np.intp), nodes["what"].astype(np.intp)
    options = np.unpackbits(nodes["options"], axis=1, count=count).astype(bool)
    none = np.zeros((len(kind), 0))
    return ProofTrees(np.zeros(1, np.intp), np.zeros(1), kind, what, nodes["where"], options, none)


def _read_boxes(boxes: Sequence[tuple[int, Any]], program: Program) -> BoxedProof | None:
    """The boxes of rows, and what is proved in them; None if no row has any."""
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
    none = BoundProof(np.zeros((0, proof_size(program))))
    proofs = read_proofs(leaves, [program])[0] if leaves else none
    return BoxedProof(ProofTrees.joined(splits), np.array(row, dtype=np.intp), proofs)


def read_proofs(proofs: Sequence[Any], programs: Sequence[Program]) -> list[BoundProof]:
    """Return what proves the bounds of rows for each piece, from the rows' recorded proofs.

    Raises a ValueError if the proofs are not of the programs of these pieces.
    """
    sizes = [proof_size(program) for program in programs]
    trees: list[list[tuple[int, Any]]] = [[] for _ in sizes]
    boxes: list[list[tuple[int, Any]]] = [[] for _ in sizes]
    family_proofs: list[list[Any]] = [[None] * len(proofs) for _ in sizes]
    flat = [proof if isinstance(proof, np.ndarray) else _flat(proof, sizes) for proof in proofs]
    if not sizes or any(len(proof) != sum(sizes) for proof in flat):
        raise ValueError(f"expected {sum(sizes)} multipliers")
    whole = np.concatenate(flat).reshape(len(proofs), -1)
    if not np.isfinite(whole).all():
        raise ValueError("expected finite multipliers")
    for i, proof in enumerate(proofs):
        for s, piece in enumerate(proof) if isinstance(proof, list) else ():
            trees[s] += [(i, tree) for tree in piece.get("trees", ())]
            family_proofs[s][i] = piece.get("own")
            boxes[s] += [(i, piece["boxes"])] if "boxes" in piece else []
    multipliers = np.split(whole, np.cumsum(sizes)[:-1], axis=1)
    return [
        BoundProof(
            multipliers[s],
            _chunks(trees[s], program),
            None if all(proof is None for proof in family_proofs[s]) else family_proofs[s],
            _read_boxes(boxes[s], program),
        )
        for s, program in enumerate(programs)
    ]


def _flat(proof: Any, sizes: Sequence[int]) -> FloatArray:
    """The multipliers of all pieces of a proof."""
    if not isinstance(proof, list) or len(proof) != len(sizes):
        raise ValueError("the proof is of another number of pieces than the target has")
    if any(piece.keys() - {"multipliers", "trees", "own", "boxes"} for piece in proof):
        raise ValueError("a piece of the proof holds a key that is none of its own")
    if [len(piece["multipliers"]) for piece in proof] != [*sizes]:
        raise ValueError("a piece of the proof has another number of multipliers")
    return np.array([v for piece in proof for v in piece["multipliers"]], dtype=np.float64)


def _chunks(trees: list[tuple[int, Any]], program: Program) -> list[ProofTrees]:
    """Trees with their rows together, which are checked at once: some 16 MiB of them."""
    reached = np.cumsum([len(tree["multipliers"]) for _, tree in trees], dtype=np.intp) >> 24
    ends = [0, *(np.flatnonzero(np.diff(reached)) + 1).tolist(), len(trees)]
    read = [_read_tree(tree, program)._replace(row=np.array([row])) for row, tree in trees]
    return [ProofTrees.joined(read[a:b]) for a, b in pairwise(ends) if a < b]


def told(value: Any) -> Any:
    """A number as JSON has it."""
    if isinstance(value, float) and not np.isfinite(value):
        return None if np.isnan(value) else "inf" if value > 0 else "-inf"
    return value


def numbers(values: Sequence[Any]) -> FloatArray:
    """(n,) numbers from `told`; ValueError if one is none."""
    words = {None: np.nan, "inf": np.inf, "-inf": -np.inf}
    plain = [words[v] if v is None or isinstance(v, str) else v for v in values]
    if any(isinstance(v, bool) or not isinstance(v, int | float) for v in plain):
        raise ValueError("expected a number")
    return np.array(plain, dtype=np.float64)
