"""Proofs as JSON has them: multipliers as numbers, trees as text, family proofs as objects."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from counterpoint.numerics import FloatArray, IntArray
from counterpoint.programs.evidence import Kept, kept_size
from counterpoint.programs.proof import Proof, node_size

if TYPE_CHECKING:
    from counterpoint.programs.program import Program

__all__ = ["as_pieces", "kept_of", "numbers", "proofs_of", "told"]


def proofs_of(pieces: Sequence[Kept], rows: IntArray) -> list[Any]:
    """What proves the bound of each row, for each piece: multipliers, trees, a family's own proof.

    An array of the multipliers of all pieces, if there is nothing else.
    """
    whole = np.concatenate([piece.multipliers[rows] for piece in pieces], axis=1)
    if not any(piece.trees or piece.family_proofs for piece in pieces):
        return [*whole]
    sizes, out = [piece.multipliers.shape[1] for piece in pieces], []
    trees = [_trees(piece) for piece in pieces]
    for row, flat in zip(rows.tolist(), whole, strict=True):
        tables: list[dict[str, Any]] = [{"trees": t[row]} if row in t else {} for t in trees]
        for piece, table in zip(pieces, tables, strict=True):
            if piece.family_proofs is not None:
                fields = vars(piece.family_proofs[row]).items()
                table["own"] = {k: [*v] if isinstance(v, list) else told(v) for k, v in fields}
        both = zip(as_pieces(flat, sizes), tables, strict=True)
        out.append([piece | table for piece, table in both] if any(tables) else flat)
    return out


def _trees(piece: Kept) -> dict[int, list[Any]]:
    """Row → its trees, as JSON has them."""
    out: dict[int, list[Any]] = {}
    for rows, proof in piece.trees:
        for j, row in enumerate(rows.tolist()):
            tree = proof if len(rows) == 1 else proof.take(np.array([j]))
            if len(tree.row):
                out.setdefault(row, []).append(_tree(tree))
    return out


def as_pieces(proof: Any, sizes: Sequence[int]) -> Any:
    """A proof as JSON has it: a list of pieces."""
    if not isinstance(proof, np.ndarray):
        return proof
    pieces = np.split(proof, np.cumsum(sizes)[:-1])
    return [{"multipliers": [*map(told, piece.tolist())]} for piece in pieces]


def _tree(proof: Proof) -> dict[str, Any]:
    """A tree of one row: its nodes as numbers, little-endian in base64, the root first.

    Each is its two children (−1 for none), bounds from below and above, which features are forced
    to change, multipliers, and of a full quadratic price the point whose tangent bounds it.
    """
    fields = proof.children, proof.low, proof.high, proof.forced, proof.multipliers
    nodes = np.column_stack(fields).astype("<f8")
    text = b64encode(nodes.tobytes()).decode()
    return {"ceiling": told(float(proof.ceiling[0])), "nodes": text}


def _together(trees: Sequence[tuple[int, Any]], size: int, d: int) -> tuple[IntArray, Proof]:
    """Trees of one row each, with which rows, as one proof; ValueError if they are none."""
    texts, width = [b64decode(tree["nodes"], validate=True) for _, tree in trees], 2 + 3 * d + size
    counts = np.array([len(text) for text in texts])
    if not counts.all() or (counts % (8 * width)).any():
        raise ValueError("the nodes of a tree do not fit the target")
    nodes = np.frombuffer(b"".join(texts), "<f8").reshape(-1, width)
    children, *boxes = np.split(nodes, [2, 2 + d, 2 + 2 * d, 2 + 3 * d], axis=1)
    low, high, forced, multipliers = boxes
    if np.isnan(nodes[:, : 2 + 2 * d]).any() or (np.abs(children) > len(nodes)).any():
        raise ValueError("a node of a tree has no box, or no children")
    row = np.repeat(np.arange(len(trees)), counts // (8 * width))
    root = np.searchsorted(row, np.arange(len(trees)))
    children = np.where(children < 0.0, -1, children + root[row, None]).astype(np.intp)
    ceiling = numbers([tree["ceiling"] for _, tree in trees])
    rows = np.array([i for i, _ in trees])
    return rows, Proof(row, low, high, forced != 0.0, multipliers, children, root, ceiling)


def kept_of(proofs: Sequence[Any], programs: Sequence[Program]) -> list[Kept]:
    """What proves the bounds of rows, piece by piece; ValueError if it is not of these pieces."""
    sizes = [kept_size(program) for program in programs]
    trees: list[list[tuple[int, Any]]] = [[] for _ in sizes]
    of_families: list[list[Any]] = [[None] * len(proofs) for _ in sizes]
    flat = [proof if isinstance(proof, np.ndarray) else _flat(proof, sizes) for proof in proofs]
    if not sizes or any(len(proof) != sum(sizes) for proof in flat):
        raise ValueError(f"expected {sum(sizes)} multipliers")
    whole = np.concatenate(flat).reshape(len(proofs), -1)
    if not np.isfinite(whole).all():
        raise ValueError("expected finite multipliers")
    for i, proof in enumerate(proofs):
        for s, piece in enumerate(proof) if isinstance(proof, list) else ():
            trees[s] += [(i, tree) for tree in piece.get("trees", ())]
            of_families[s][i] = piece.get("own")
    multipliers = np.split(whole, np.cumsum(sizes)[:-1], axis=1)
    return [
        Kept(
            piece,
            _chunks(grown, node_size(program), program.width),
            None if its.count(None) == len(its) else its,
        )
        for piece, grown, its, program in zip(
            multipliers, trees, of_families, programs, strict=True
        )
    ]


def _flat(proof: Any, sizes: Sequence[int]) -> FloatArray:
    """The multipliers of all pieces of a proof."""
    if not isinstance(proof, list) or len(proof) != len(sizes):
        raise ValueError("the proof is of another number of pieces than the target has")
    if any(piece.keys() - {"multipliers", "trees", "own"} for piece in proof):
        raise ValueError("a piece of the proof holds a key that is none of its own")
    if [len(piece["multipliers"]) for piece in proof] != [*sizes]:
        raise ValueError("a piece of the proof has another number of multipliers")
    return np.array([v for piece in proof for v in piece["multipliers"]], dtype=np.float64)


def _chunks(trees: list[tuple[int, Any]], size: int, d: int) -> list[tuple[IntArray, Proof]]:
    """Trees together, which are checked at once: some 16 MiB of them."""
    reached = np.cumsum([len(tree["nodes"]) for _, tree in trees], dtype=np.intp) >> 24
    ends = [0, *(np.flatnonzero(np.diff(reached)) + 1).tolist(), len(trees)]
    return [_together(trees[a:b], size, d) for a, b in pairwise(ends) if a < b]


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
