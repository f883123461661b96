"""What is claimed for answers, and whether it holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from common.report import Claim

from counterpoint import Guarantee
from counterpoint.certificate import SURE as SURE_OF
from private.methods import METHODS
from private.results import NONE, SELECTION, Results, interval_of, right
from private.simulation import Cell, Tally, pooled

__all__ = ["SURE", "claims", "unclaimed"]

SURE = 1e-3
"""A method breaks its promise where its wrong answers are less likely than this, over all cells."""


def claims(every: Sequence[Results]) -> list[Claim]:
    """What of all this is claimed."""
    promised = [(m, c, t) for one in every for m, c, t in one.promising()]
    lowest = min((t.surprise for _, _, t in promised), default=1.0)
    level = SURE / max(len(promised), 1)
    answers = sum(t.found for _, _, t in promised)
    wrong = sum(t.wrong for _, _, t in promised)
    expected = sum((1.0 - t.p) * len(t.answers) for _, _, t in promised)
    others = [
        (method, cell, tally)
        for one in every
        for method in METHODS[one.kind]
        for cell, tally in one.of(method)
        if SELECTION not in tally.guarantees and "" not in tally.guarantees
    ]
    texts = _told(others)
    overclaimed = sum(SURE_OF[Guarantee.SELECTION] in text for text in texts)
    return [
        *_of_paper(every),
        Claim(
            "what claims the probability for a point that was chosen keeps it: validity >= p",
            "",
            f"{wrong} wrong of {answers} answers where {expected:.0f} were allowed; the worst of "
            f"{len(promised)} cells has a chance of {lowest:.2g} (less than {level:.1g} would "
            "break it)",
            lowest >= level,
        ),
        Claim(
            "what does not keep it does not claim it",
            "",
            f"{overclaimed} of {len(texts)} such answers are said to be as sure as was asked",
            overclaimed == 0
            and all(SURE_OF[Guarantee.SELECTION] in text for text in _told(promised)),
        ),
    ]


def _told(some: Sequence[tuple[str, Cell, Tally]]) -> list[str]:
    """What is printed of the answers."""
    return [one.text for _, _, tally in some for one in tally.answers if one.text]


def unclaimed(every: Sequence[Results]) -> list[Claim]:
    """How sure answers to the paper's rule are where it asks for too little."""
    some = [t for one in every for _, t in one.of("segment, paper's rule", 0.6)]
    held = [tally.guarantees for tally in some if tally.found]
    if not held:
        return []
    none, every_one = sum(one.get(NONE, 0) for one in held), sum(sum(one.values()) for one in held)
    return [
        Claim(
            "the paper's rule at p = 0.6 has probability 0.6",
            "yes",
            f"no: {none} of {every_one} answers are less sure, by the law of the noise",
            agrees=False,
        )
    ]


def _of_paper(every: Sequence[Results]) -> Iterator[Claim]:
    """Real validity of what the paper proposes."""
    names = {
        "fourier": ("segment, paper's rule", "Algorithm 1, as printed"),
        "linear": ("paper's cone program",),
    }
    for one in every:
        for name in names[one.kind]:
            both = pooled([tally for _, tally in one.of(name, 0.9)])
            what = f"explanations hold for the true model with the confidence asked for: {name}"
            yield Claim(what, "90 %", right(both), interval_of(both)[1] >= 0.9)
