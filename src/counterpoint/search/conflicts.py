"""Why a row has no answer: a minimal set of conflicting constraints, and how far one must give.

`Conflict` says why, `Relaxation` what would give the row one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from time import thread_time
from typing import final

import numpy as np

from counterpoint.errors import InvalidInput
from counterpoint.numerics import FloatArray
from counterpoint.problem.constraints import (
    CONSTRAINTS,
    Bounds,
    Constraint,
    Immutable,
    MaxChanges,
    WithinObserved,
)
from counterpoint.problem.costs import EncodedCost
from counterpoint.problem.targets import Guarantee, Target, Tradeoff, rounded_down
from counterpoint.rows import lattice
from counterpoint.rows.features import Categorical
from counterpoint.search.feasibility import FeasibilityOracle
from counterpoint.search.query import Query
from counterpoint.search.search import highest_probability

SECONDS, IN_ALL = 0.8, 1.2
"""When the set of constraints has to be found, and all that would help, in seconds of this thread,
so that what is told does not depend on what else a machine does."""
CLOSE = 1e-4
"""How closely a bound that the row itself breaks is found, relative to how far it moves."""
EXISTS = "an answer exists if "
"""How the text of a relaxation begins."""


@final
@dataclass(frozen=True)
class Relaxation:
    """What would give a row an answer: something easier in the place of what was asked for.

    It was tried with everything else kept.

    Parameters
    ----------
    old
        A constraint, or the target.
    new
        What to ask for instead.
    text
        The same in words.
    least
        Whether it is known that less does not suffice: 99 % of the move of a bound, one change
        fewer, half the way for a `Probability`.
    """

    old: Constraint | Target
    new: Constraint | Target
    text: str
    least: bool

    def __str__(self) -> str:
        return self.text


@final
@dataclass(frozen=True)
class Conflict:
    """Why a row has no answer.

    Parameters
    ----------
    constraints
        A minimal set of constraints that together with the target exclude every answer: without
        any one of them (for `Immutable` and `WithinObserved`, for any one feature) there is an
        answer. Empty if the target alone is impossible.
    relaxed
        For each bound in the set, on either side, and for `MaxChanges`: what it alone would have to
        become for an answer to exist, with all other constraints kept, and not those of the set
        alone. None where nothing that it alone could become would do. The same of the probability
        of a `Probability` or a `Robust`.
    minimal
        False if it is not known for some smaller set whether it has an answer, because time ran
        out, say; then the set may hold more than it need.
    attainable
        For a `Probability` or a `Robust`, the highest probability that was reached within all
        constraints; None where a model's probability is not traded off, as of trees.
    """

    constraints: tuple[Constraint, ...]
    relaxed: tuple[Relaxation, ...]
    minimal: bool = True
    attainable: float | None = None

    @property
    def relaxations(self) -> tuple[str, ...]:
        """`relaxed`, in words."""
        return tuple(map(str, self.relaxed))

    def __str__(self) -> str:
        if not self.constraints:
            return self._relaxed("No point at all gives the target, even without constraints.")
        head = "These exclude every answer"
        if not self.minimal:
            head += " (it is not known whether fewer do)"
        text = f"{head}: {'; '.join(map(str, self.constraints))}."
        return self._relaxed(text)

    def _relaxed(self, text: str) -> str:
        """The text, and what would help."""
        choices = ", or if ".join(
            relaxation.removeprefix(EXISTS) for relaxation in self.relaxations
        )
        return f"{text} {EXISTS.capitalize()}{choices}." if choices else text


def conflict_of(query: Query, x: FloatArray) -> Conflict:
    """A minimal conflict by deletion: constraints without which the row stays infeasible go.

    The query's constraints are what may conflict; an `OtherLabel` must name its labels; x is
    (1, d), encoded.
    """
    start = thread_time()
    possible = FeasibilityOracle(query, x, start + SECONDS)
    needed = sorted(possible.atoms, key=_rank)
    if not possible.refuted([needed])[0]:
        possible.answers([needed])  # for its proof
    needed = _proved(possible, needed)
    before: list[Constraint] = []
    while len(needed) != len(before):  # once more where less may exclude what more does not
        before, sets = needed, [needed]
        if possible.refuted([needed])[0]:
            sets = [[atom] for atom in needed]  # few can go
            possible.answers(_but_one(needed))  # all at once: each is asked for below
        for removable in sets:
            needed = _without(removable, needed, lambda atoms: not possible.answers([atoms])[0])
    minimal = all(map(possible.has, _but_one(needed)))
    possible.end = start + IN_ALL
    attainable, probabilities = _probability(possible)
    alone = possible.refuted([[b for b in possible.atoms if b is not a] for a in needed])
    relaxed = [
        relaxation
        for atom, hopeless in zip(needed, alone, strict=True)
        if not hopeless
        for relaxation in _relaxations(possible, atom)
    ]
    return Conflict(_joined(needed), (*relaxed, *probabilities), minimal, attainable)


def _but_one(atoms: Sequence[Constraint]) -> list[list[Constraint]]:
    """The atoms without the first, without the second, and so on."""
    return [[*atoms[:i], *atoms[i + 1 :]] for i in range(len(atoms))]


def _proved(possible: FeasibilityOracle, atoms: Sequence[Constraint]) -> list[Constraint]:
    """What is left of atoms if those go, one after the other, without which a known proof holds."""
    needed, remaining = list[Constraint](), list(atoms)
    while remaining:
        goes = possible.refuted([[*needed, *fewer] for fewer in _but_one(remaining)]).tolist()
        needed += [atom for atom, can in zip(remaining, goes, strict=True) if not can]
        remaining = [atom for atom, can in zip(remaining, goes, strict=True) if can]
        many = possible.refuted([[*needed, *remaining[i + 1 :]] for i in range(len(remaining))])
        remaining = remaining[
            int(np.logical_and.accumulate(many).sum()) :
        ]  # the first ones go at once
    return [atom for atom in atoms if any(atom is other for other in needed)]


def _without(
    removable: Sequence[Constraint],
    needed: list[Constraint],
    is_impossible: Callable[[list[Constraint]], bool],
) -> list[Constraint]:
    """Return ``needed`` without those of ``removable`` that are not needed to exclude answers.

    The result is that of dropping one after the other, each only if the others still exclude every
    answer; but all are tried at once, and then by halves, which asks less often.
    """
    dropped = set(map(id, removable))
    remaining = [atom for atom in needed if id(atom) not in dropped]
    if not removable or is_impossible(remaining):
        return remaining
    if len(removable) == 1:  # without it there are answers
        return needed
    half = len(removable) // 2
    for atoms in (removable[:half], removable[half:]):
        needed = _without(atoms, needed, is_impossible)
    return needed


def _rank(atom: Constraint) -> int:
    kind = type(atom)
    return CONSTRAINTS.index(kind) if kind in CONSTRAINTS else len(CONSTRAINTS)


def _joined(atoms: Sequence[Constraint]) -> tuple[Constraint, ...]:
    """The atoms again as constraints on several features, the telling ones first."""
    frozen: dict[bool, list[Immutable]] = {}
    observed: dict[str, list[WithinObserved]] = {}
    for atom in atoms:
        if isinstance(atom, WithinObserved):
            observed.setdefault(atom.default, []).append(atom)
        elif isinstance(atom, Immutable):
            frozen.setdefault(atom.protected, []).append(atom)
    single = [a for a in atoms if not isinstance(a, Immutable | WithinObserved)]
    joined: list[Constraint] = list(reversed(single))
    joined += [group[0].only(*(a.features[0] for a in group)) for group in frozen.values()]
    joined += [group[0].only(*(a.features[0] for a in group)) for group in observed.values()]
    return tuple(joined)


def _relaxations(possible: FeasibilityOracle, atom: Constraint) -> Iterator[Relaxation]:
    """How a constraint alone would have to give, all others kept: bounds and numbers of changes."""
    if possible.is_by_price:
        return
    if isinstance(atom, MaxChanges):
        relaxation = _more_changes(possible, atom)
        if relaxation is not None:
            yield relaxation
    if isinstance(atom, Bounds) and not isinstance(possible.features[atom.feature], Categorical):
        for up in (True, False):
            relaxation = _further(possible, atom, up=up)
            if relaxation is not None:
                yield relaxation


def _more_changes(possible: FeasibilityOracle, atom: MaxChanges) -> Relaxation | None:
    """The least number of changes with which there is an answer, by bisection."""
    without = [other for other in possible.atoms if other is not atom]
    low, high, sure = int(atom.count), len(possible.features.names), True
    widest = possible.point(without)[0] if high > low else None
    if widest is None:
        return None
    moved = (widest != possible.x[0]).tolist()
    high = max(low + 1, sum(any(moved[block]) for block in possible.features.blocks))
    while high - low > 1:
        middle = (low + high) // 2
        tried = [*without, MaxChanges(middle)]
        point, refuted = possible.point(tried)
        low, high = (low, middle) if point is not None else (middle, high)
        sure &= point is not None or refuted
    new = MaxChanges(high)
    if not possible.surely([*without, new]):
        return None
    text = _said(f"{high} features may change", f"at most {atom.count}")
    return Relaxation(atom, new, text, sure)


def _further(possible: FeasibilityOracle, atom: Bounds, *, up: bool) -> Relaxation | None:
    """How much further one side of a bound would have to be, in as many digits as tell."""
    name, without = atom.feature, [other for other in possible.atoms if other is not atom]
    factual = float(possible.x[0, possible.features.columns(name).start])
    limit = min(atom.high, factual + atom.rise) if up else max(atom.low, factual - atom.fall)
    if np.isinf(limit):
        return None
    lifted = {"high": np.inf, "rise": np.inf} if up else {"low": -np.inf, "fall": np.inf}
    lifted_constraints = [*without, replace(atom, **lifted)]
    value = _nearest(possible, name, factual, limit, lifted_constraints, up=up)
    if value is None or value == limit:
        return None
    step = float(possible.query.actionable.domain.steps[possible.features.columns(name).start])
    if step > 0.0:
        value = float(lattice.nearest(factual, value, step))
    for wider in (0.0, 1e-6, 1e-4):  # shares of its move, until the model confirms the answer
        rounded = _outwards(value + wider * (value - limit), limit, up=up)
        new = _moved(atom, factual, rounded, up=up)
        if possible.surely([*without, new]):
            nearly = limit + 0.99 * (rounded - limit)  # must not suffice, if it is the least
            short = Bounds(name, high=nearly) if up else Bounds(name, low=nearly)
            tried = [*lifted_constraints, short]
            least = possible.point(tried)[1]
            way, side = ("up", "at most") if up else ("down", "at least")
            easier = f"{name} may go {way} to {_number(rounded)}"
            now = f"{side} {limit:.10g}{'' if least else '; perhaps less is enough'}"
            return Relaxation(atom, new, _said(easier, now), least)
    return None


def _nearest(
    possible: FeasibilityOracle,
    name: Hashable,
    factual: float,
    limit: float,
    constraints: Sequence[Constraint],
    *,
    up: bool,
) -> float | None:
    """The value of a feature nearest to a limit, and beyond it, at which some piece has a point.

    Between the limit and the row there is no price to find it by, but bisection. Where every change
    needs a price, as where boundaries bend, or few columns without ends may change, the other
    columns have a small one, and the value is one at which there is a point, near to the nearest.
    """
    column = possible.features.columns(name).start

    def reached(end: float, encoded_cost: EncodedCost | None = None) -> float | None:
        """The value of a point between the limit and an end."""
        within = [*constraints, Bounds(name, low=min(limit, end), high=max(limit, end))]
        point = possible.point(within, encoded_cost)[0]
        return None if point is None else float(point[column])

    if (factual > limit) if up else (factual < limit):  # the row itself is beyond
        best, last, share = reached(factual), limit, 1.0 - CLOSE
        if best is not None:
            for _ in range(12):
                middle = last + share * (best - last)
                nearer, share = reached(middle), 0.5
                best, last = (best, middle) if nearer is None else (nearer, last)
                if abs(best - last) <= CLOSE * abs(best - limit):
                    break
            return best
        limit = factual
    for others_cost in (1e-4,) if possible.bends else (0.0, 1e-4):
        weights = np.full(possible.features.width, others_cost)
        weights[column] = 1.0
        nearest = reached(np.inf if up else -np.inf, EncodedCost(weights, np.zeros(len(weights))))
        if nearest is not None:
            return nearest
    return None


def _moved(atom: Bounds, factual: float, value: float, *, up: bool) -> Bounds:
    """A bound that allows a value on one side."""
    if up:
        rise = atom.rise
        while factual + rise < value:
            rise = max(value - factual, float(np.nextafter(rise, np.inf)))
        return replace(atom, high=max(atom.high, value), rise=rise)
    fall = atom.fall
    while factual - fall > value:
        fall = max(factual - value, float(np.nextafter(fall, np.inf)))
    return replace(atom, low=min(atom.low, value), fall=fall)


def _probability(possible: FeasibilityOracle) -> tuple[float | None, list[Relaxation]]:
    """Return the highest probability that points reach, and a relaxation of the target to it.

    The probability is None if the target asks for none, or no point was found. There is no
    relaxation where the row itself has this probability, or where no answer with it is certain.
    """
    query, x = possible.query, possible.x
    target = query.target
    field, required = target.sought, target.requirement
    if field is None:
        return None, []
    end = 0.5 * (thread_time() + possible.end)
    if required.chance is None:
        reached = _highest(query.asking(target=Tradeoff(required.labels[0], 1.0)), x, end)
    else:
        reached = required.chance.attainable(query, x, end)
    if reached is None:
        return None, []
    is_exact = required.promise is Guarantee.NONE  # else it was searched for in three digits
    probability_text, sure = rounded_down(reached, 6 if is_exact else 3), False

    def with_probability(probability: float) -> FeasibilityOracle:
        wanted: Target = replace(target, **{field: probability})  # type: ignore[type-var]
        return FeasibilityOracle(query.asking(target=wanted), x, possible.end)

    relaxed = with_probability(float(probability_text))
    if is_exact and query.model.form.margin(x, relaxed.query.target)[0] >= 0.0:
        return reached, []  # the row itself has this probability
    if not relaxed.surely(query.constraints):
        return reached, []
    required_probability = getattr(target, field)
    if is_exact:  # else a search takes long
        halfway = with_probability(0.5 * (float(probability_text) + required_probability))
        sure = halfway.point(query.constraints)[1]
    text = _said(
        f"a probability of {probability_text} is enough", f"at least {required_probability:.6g}"
    )
    return reached, [Relaxation(target, relaxed.query.target, text, sure)]


def _highest(tradeoff: Query, x: FloatArray, end: float) -> float | None:
    """The highest probability that points reach; None if it has steps, or bends, or none is found.

    Such probabilities are not traded off.
    """
    try:
        pieces = tradeoff.union
    except InvalidInput:
        return None
    return highest_probability(pieces, x, end)


def _said(easier: str, now: str) -> str:
    """What would give an answer, and what holds now."""
    return f"{EXISTS}{easier} (now {now})"


def _outwards(value: float, limit: float, *, up: bool) -> float:
    """The value in six digits, or in as many as leave two of its distance to the limit exact.

    Rounded away from the limit.
    """
    digits = Decimal(value)
    fine = min(digits.adjusted() - 5, Decimal(value - limit).adjusted() - 2)
    place = Decimal(1).scaleb(max(fine, digits.adjusted() - 15))
    return float(digits.quantize(place, rounding=ROUND_CEILING if up else ROUND_FLOOR))


def _number(value: float) -> str:
    return repr(value).removesuffix(".0")
