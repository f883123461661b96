"""The cheapest point over a union of programs, for whole batches.

`Frontier` holds what is known of each row and takes up the most promising pieces first. Few pieces
are `Listed`: closed forms for all rows and all pieces at once, then complete solvers for the rows
whose piece could still be the cheapest. What cannot be listed, or has conditions that no solver
takes, is searched as its wing says: a `LazyUnion`, a condition, `Leads` that depend on where the
answer is.
"""

from __future__ import annotations

from counterpoint.engine.cases import Cases
from counterpoint.engine.evidence import Leads
from counterpoint.engine.frontier import Findings, Frontier, Way
from counterpoint.engine.listed import Listed
from counterpoint.engine.pieces import Aim, Piece, Pieces
from counterpoint.solvers import Effort
from counterpoint.wings import wings

__all__ = ["Aim", "Findings", "Piece", "Pieces", "search"]


def search(pieces: Pieces, cases: Cases, effort: Effort, leads: Leads | None = None) -> Findings:
    """The cheapest point of any piece, for each row.

    Parameters
    ----------
    pieces
        The union.
    cases
        The rows, as the programs see them but for what pieces say of features one by one.
    effort
        When to stop.
    leads
        The lead that is needed where the point is; None if the union says all.
    """
    frontier = Frontier(cases, effort)
    return frontier.run(_way(frontier, pieces, leads))


def _way(frontier: Frontier, pieces: Pieces, leads: Leads | None) -> Way:
    """How a wing searches what only it knows; else all pieces one after the other."""
    conditions = (kind for piece in pieces.listed for kind in piece.program.kinds)
    for kind in (type(leads), type(pieces.lazy), *conditions):
        for wing in wings():
            if kind in wing.WAYS:
                way: Way = wing.WAYS[kind](frontier, pieces, leads)
                return way
    return Listed(frontier, pieces.listed)
