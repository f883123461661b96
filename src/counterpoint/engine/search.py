"""The cheapest point over a union of programs, for whole batches.

`Frontier` holds what is known of each row and takes up the most promising pieces first. Few pieces
are `Listed`: closed forms for all people and all pieces at once, then complete solvers for the
people whose piece could still be the cheapest. Thousands are `Celled`: a lower bound for each at a
glance, and rows of the few that could be the cheapest only when they are needed. Conditions
that are known by their half-spaces are approached from outside (`Outer`). Scores of random features
are searched on segments and by descents (`Smooth`).
"""

from __future__ import annotations

from counterpoint.engine.cases import Cases
from counterpoint.engine.frontier import Findings, Frontier
from counterpoint.engine.listed import Listed
from counterpoint.engine.pieces import Aim, Piece, Pieces
from counterpoint.prototypes.celled import Celled
from counterpoint.robust.bounds.fourier import Sweeps
from counterpoint.robust.bounds.linear import Band, Leads
from counterpoint.robust.search.outer import Outer
from counterpoint.robust.search.smooth import Smooth
from counterpoint.solvers import Effort

__all__ = ["Aim", "Findings", "Piece", "Pieces", "rise", "search"]


def search(pieces: Pieces, cases: Cases, effort: Effort) -> Findings:
    """The cheapest point of any piece, for each row.

    Parameters
    ----------
    pieces
        The union.
    cases
        The people, as the programs see them but for what pieces say of features one by one.
    effort
        When to stop.
    """
    frontier = Frontier(cases, effort)
    if any(piece.waves for piece in pieces.listed):
        return frontier.run(Smooth(frontier, pieces.listed, pieces.aim, None))
    if any(piece.supported for piece in pieces.listed):
        return frontier.run(Outer(frontier, pieces.listed))
    if pieces.cells is None:
        return frontier.run(Listed(frontier, pieces.listed))
    return frontier.run(Celled(frontier, pieces.program, pieces.cells))


def rise(pieces: Pieces, cases: Cases, effort: Effort, leads: Leads) -> Findings:
    """The cheapest point that leads by what is needed where it is, for each row.

    Parameters
    ----------
    pieces
        The target without a lead.
    cases
        The people.
    effort
        When to stop.
    leads
        The lead that is needed.
    """
    frontier = Frontier(cases, effort)
    match leads:
        case Band():
            return frontier.run(Outer(frontier, pieces.listed, leads.regions))
        case Sweeps():
            return frontier.run(Smooth(frontier, pieces.listed, pieces.aim, leads))
        case _:
            raise TypeError(f"Expected leads of counterpoint; got {leads!r}.")
