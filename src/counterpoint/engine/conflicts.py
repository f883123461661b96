"""Why a row has no answer: a minimal set of conflicting constraints; how far one of them must give.

A set of constraints has an answer if some point that was found meets it, and none if proofs that
were found still hold under it. Only what neither of them decides is searched. A proof is a sum of
inequalities, one for each piece of the target, that no point within the bounds of each feature
meets (Farkas); so constraints on features it does not use are superfluous straight away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from time import thread_time
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.certificate import VIOLATION, lower_bounds
from counterpoint.constraints import (
    Bounds,
    Constraint,
    Ellipsoid,
    Immutable,
    Linear,
    MaxChanges,
    Monotone,
    WithinObserved,
)
from counterpoint.costs import Price
from counterpoint.engine.answer import EXISTS, Conflict, Relaxation
from counterpoint.engine.cases import Cases
from counterpoint.engine.domains import Box, Transitions
from counterpoint.engine.evidence import Evidence, RowEvidence
from counterpoint.engine.frontier import Findings
from counterpoint.engine.pieces import Piece, Pieces
from counterpoint.engine.program import Program, kinds_region
from counterpoint.engine.question import Question
from counterpoint.engine.region import Coupling, Cut, Region
from counterpoint.engine.search import search
from counterpoint.rows.features import Categorical, Features
from counterpoint.solvers import Effort
from counterpoint.targets import Guarantee, Target

__all__ = ["conflict_of"]

FloatArray = NDArray[np.float64]
Limits = tuple[FloatArray, FloatArray]

SMALL = 1e-4
"""The price of other columns beside the one whose bound is asked about, where boundaries bend."""
HALVINGS = 12
"""How often the distance to a bound is halved."""
SECONDS, IN_ALL = 0.8, 1.2
"""When the set of constraints has to be found, and all that would help, in seconds of this thread,
so that what is told does not depend on what else a machine does."""
SHARE = 0.5
"""How much of the time that is left one search may take."""
LEADING = 4.0
"""By how many rounding errors of the model at the row a relaxation must lead to an answer."""
CLOSE = 1e-4
"""How closely a bound that the row itself breaks is found, relative to how far it moves."""
CLOSELY, CLOSEST = 1e-6, 1e-9
"""The relative gap of a search that tries a relaxation, that of an explanation; of one for it."""
NEARLY = 0.99
"""A share of a relaxation that must not suffice, if the relaxation is the least."""
WIDER = (0.0, 1e-6, 1e-4)
"""By which shares of its move a bound is moved further until the model confirms the answer."""
FIRST_TO_GO: tuple[type[Constraint], ...] = (
    WithinObserved,
    Ellipsoid,
    Linear,
    Monotone,
    MaxChanges,
    Immutable,
    Bounds,
)
"""Which constraints to try to do without first: the ones that say least about the person."""


def conflict_of(question: Question, target: Target, x: FloatArray, eps: float) -> Conflict:
    """A minimal conflict by deletion: constraints without which the row stays infeasible go.

    Parameters
    ----------
    question
        What was asked; its constraints are what may conflict.
    target
        What was wanted; an `OtherLabel` must name its labels.
    x
        (1, d) the encoded row.
    eps
        The distance from 1 to the next number where the model computes.
    """
    start = thread_time()
    possible = _Possible(question, target, x, eps, start + SECONDS)
    needed = sorted(possible.atoms, key=_rank)
    if not possible.is_refuted(needed):
        possible.answer(needed)  # for its proof
    needed = _without(needed, needed, possible.is_refuted)
    before: list[Constraint] = []
    while len(needed) != len(before):  # once more where less may exclude what more does not
        before, needed = needed, _without(needed, needed, lambda some: not possible.answer(some))
    minimal = all(possible.has([b for b in needed if b is not a]) for a in needed)
    possible.end = start + IN_ALL
    attainable, found = _probability(possible)
    relaxed = [one for atom in needed for one in _relaxations(possible, atom)]
    return Conflict(_joined(needed), (*relaxed, *found), minimal, attainable)


def _without(
    superfluous: Sequence[Constraint],
    needed: list[Constraint],
    is_impossible: Callable[[list[Constraint]], bool],
) -> list[Constraint]:
    """What is left of constraints that exclude every answer if some go that need not stay.

    The same as if they went one after the other; but many that can go, go at once.
    """
    gone = set(map(id, superfluous))
    fewer = [atom for atom in needed if id(atom) not in gone]
    if not superfluous or is_impossible(fewer):
        return fewer
    if len(superfluous) == 1:
        return needed
    half = len(superfluous) // 2
    for part in (superfluous[:half], superfluous[half:]):
        needed = _without(part, needed, is_impossible)
    return needed


def _rank(atom: Constraint) -> int:
    kind = type(atom)
    return FIRST_TO_GO.index(kind) if kind in FIRST_TO_GO else len(FIRST_TO_GO)


def _atoms(constraint: Constraint, features: Features) -> Iterator[Constraint]:
    """A constraint on several features as one constraint on each."""
    if isinstance(constraint, Immutable):
        yield from (Immutable(name) for name in constraint.features)
    elif isinstance(constraint, WithinObserved):
        yield from (constraint.only(name) for name in constraint.features or features.names)
    else:
        yield constraint


def _joined(atoms: Sequence[Constraint]) -> tuple[Constraint, ...]:
    """The atoms again as constraints on several features, the telling ones first."""
    frozen = [a.features[0] for a in atoms if isinstance(a, Immutable)]
    observed: dict[str, list[WithinObserved]] = {}
    for atom in atoms:
        if isinstance(atom, WithinObserved):
            observed.setdefault(atom.default, []).append(atom)
    rest = [a for a in atoms if not isinstance(a, Immutable | WithinObserved)]
    joined: list[Constraint] = list(reversed(rest))
    joined += [Immutable(*frozen)] if frozen else []
    joined += [some[0].only(*(a.features[0] for a in some)) for some in observed.values()]
    return tuple(joined)


@final
class _Possible:
    """What is possible for one row under sets of constraints.

    A constraint on features one by one only bounds the row's columns. So there is one program for
    each set of the other constraints, and all that differs between its questions are bounds.

    Parameters
    ----------
    question, target, x, eps
        As for `conflict_of`.
    end
        When to stop, in the seconds of ``thread_time``.
    """

    def __init__(
        self, question: Question, target: Target, x: FloatArray, eps: float, end: float
    ) -> None:
        self.question, self.target, self.x, self.eps, self.end = question, target, x, eps, end
        self.features = question.features
        self.atoms = [a for c in question.constraints for a in _atoms(c, self.features)]
        self.margin = LEADING * target.requirement.rounding(question.form, x, eps)
        self.is_by_price = target.promise is Guarantee.SELECTION
        """Whether the target depends on what points cost, and so on the constraints."""
        pieces = question.pieces(target)
        self.bends = any(p.program.nonconvex_duality is not None for p in pieces.listed)
        """Whether some piece of the target is not convex."""
        self._decides = bool(question.on_lattice(x).all())
        self._kinds = kinds_region(self.features)
        self._plain = Price(np.ones(self.features.width), np.zeros(self.features.width))
        self._regions = {id(atom): atom.region(self.features) for atom in self.atoms}
        self._known: dict[int, tuple[Constraint, Limits | None]] = {}
        self._programs: dict[object, tuple[Question, Pieces]] = {}
        self._missed: list[set[int]] = []
        """Which atoms each known point of the target misses."""
        self._had: set[frozenset[int]] = set()
        """Sets for which there is an answer, where that of one tells nothing of another."""
        self._proofs: list[list[tuple[set[int], Cut]]] = []
        """For each piece, inequalities and the atoms that they rest on beside the target."""

    def has(self, atoms: Sequence[Constraint]) -> bool:
        """Whether an answer is known."""
        ids = frozenset(map(id, atoms))
        return ids in self._had or any(ids.isdisjoint(missed) for missed in self._missed)

    def answer(self, atoms: Sequence[Constraint]) -> bool:
        """Whether there is an answer; if time runs out, as if there were."""
        if self.has(atoms):
            return True
        if self.is_refuted(atoms):
            return False
        point, refuted = self.point(atoms)
        if point is not None:
            self._keep(atoms, point)
        return not refuted

    def _keep(self, atoms: Sequence[Constraint], point: FloatArray) -> None:
        """A point at which there is an answer."""
        if self.is_by_price:
            self._had.add(frozenset(map(id, atoms)))
            return
        missed = {
            key
            for key, region in self._regions.items()
            if region.violation(point[None], self.x)[0] > VIOLATION
        }
        self._missed.append(missed - set(map(id, atoms)))

    def is_refuted(self, constraints: Sequence[Constraint]) -> bool:
        """Whether a proof that is known excludes every answer."""
        if self.is_by_price:
            return False
        pieces, case = self._asked(constraints, None)[1:]
        if pieces.lazy is not None:
            return False
        if not self._proofs:
            self._proofs = [_units(piece) for piece in pieces.listed]
        ids = set(map(id, constraints))
        for piece, proofs in zip(pieces.listed, self._proofs, strict=True):
            if piece.program.charges:
                return False
            cuts = [cut for needed, cut in proofs if needed <= ids]
            some = piece.sees(case).take(np.zeros(len(cuts), dtype=np.intp))
            if not piece.program.duality.refutes(some, Cut.stacked(cuts)).any():
                return False
        return True

    def surely(self, constraints: Sequence[Constraint]) -> bool:
        """Whether there is an answer that leads by enough to be confirmed, if it can."""
        question, pieces, case = self._asked(constraints, self.question.price)
        loose = self.is_by_price or not pieces.moves_smoothly(case)[0]
        both = (0.0 * self.margin, self.margin) if loose else (self.margin, 0.0 * self.margin)
        margin = np.stack(both, axis=1)
        found = self._search(question, pieces, case.with_margin(margin), CLOSELY)
        return found is not None and self._meets(found, constraints, question)

    def _search(
        self, question: Question, pieces: Pieces, case: Cases, gap: float
    ) -> Findings | None:
        """What is found in a share of the time that is left; None if none is."""
        left = self.end - thread_time()
        if left <= 0.0:
            return None
        band = self.target.leads(question, self.x)
        return search(pieces, case, Effort(gap, SHARE * left), band)

    def _meets(
        self, findings: Findings, constraints: Sequence[Constraint], question: Question
    ) -> bool:
        """Whether a point was found that meets the constraints as closely as an answer has to."""
        if findings.piece[0] < 0:
            return False
        regions = [c.region(self.features) for c in constraints]
        missed = [r.violation(findings.points, self.x)[0] for r in (self._kinds, *regions)]
        return max(missed) <= VIOLATION

    def point(
        self, constraints: Sequence[Constraint], price: Price | None = None
    ) -> tuple[FloatArray | None, bool]:
        """A point of some piece, if any, the cheapest if there is a price; whether none exists.

        With a margin at first, so that there is an answer where there is a point.
        """
        question, pieces, case = self._asked(constraints, price)
        margins = (self.margin, 0.0 * self.margin)
        for margin in margins[1:] if pieces.is_integral or self.is_by_price else margins:
            gap = 1.0 if price is None else CLOSEST
            findings = self._search(question, pieces, case.with_margin(margin), gap)
            if findings is None:
                break
            if self._meets(findings, constraints, question):
                return findings.points[0], False
            if _refutes(findings, with_margin=bool(margin.any())):
                self._learn(constraints, pieces, findings)
                return None, True
        return None, False

    def _learn(self, constraints: Sequence[Constraint], pieces: Pieces, findings: Findings) -> None:
        """Keep the inequalities of a search that excluded every answer."""
        if self.is_by_price or pieces.lazy is not None or not self._proofs:
            return
        ids = {id(a) for a in constraints if _couples(a.region(self.features))}
        each = findings.evidence
        if len(each) == 1 and isinstance(each[0], RowEvidence):
            each = each[0].rows[0]
        for kept, evidence in zip(self._proofs, each, strict=False):
            if not isinstance(evidence, Evidence) or evidence.program.nonconvex:
                continue
            program, multipliers = evidence.program, evidence.multipliers
            kept.append((ids, program.cut(multipliers)))
            rows = program.affine.tight + program.affine.lost > 0.0
            alone = np.zeros_like(multipliers)
            alone[:, : len(rows)] = np.where(rows, multipliers[:, : len(rows)], 0.0)
            kept.append((set(), program.cut(alone)))

    def _asked(
        self, constraints: Sequence[Constraint], price: Price | None
    ) -> tuple[Question, Pieces, Cases]:
        """The target under other constraints and another price, unless that decides who is sure."""
        bounds = [self._bounds_of(c) for c in constraints]
        coupling = [c for c, b in zip(constraints, bounds, strict=True) if b is None]
        key = (*map(id, coupling), id(price))
        if key not in self._programs:
            question = replace(self.question, constraints=tuple(coupling))
            if not self.is_by_price:
                question = replace(question, price=price or self._plain)
            pieces = (question.decided if self._decides else question.pieces)(self.target)
            self._programs[key] = question, pieces
        question, pieces = self._programs[key]
        case = question.plain.cases(self.x)
        for low, high in filter(None, bounds):
            case = case.within(low, high)
        return question, pieces, case

    def _bounds_of(self, constraint: Constraint) -> Limits | None:
        """(1, d) bounds that say all that a constraint does; None if it has to be in a program."""
        if id(constraint) not in self._known:
            region, limits = constraint.region(self.features), None
            if region.kinds <= {Box, Transitions} and not (self.is_by_price or self.bends):
                case = Program(self._plain, self._kinds & region).cases(self.x)
                limits = case.low, case.high
            self._known[id(constraint)] = constraint, limits
        return self._known[id(constraint)][1]


def _units(piece: Piece) -> list[tuple[set[int], Cut]]:
    """Nothing, and each linear row of the target in a piece, from each side, as inequalities."""
    program = piece.program
    rows = np.flatnonzero(program.affine.tight + program.affine.lost > 0.0)
    found: list[tuple[set[int], Cut]] = [(set(), program.cut(np.zeros((1, program.size))))]
    for row in rows.tolist():
        for side, limit in ((1.0, program.affine.high[row]), (-1.0, program.affine.low[row])):
            if np.isfinite(limit):
                unit = np.zeros((1, program.size))
                unit[0, row] = side
                found.append((set(), program.cut(unit)))
    return found


def _couples(region: Region) -> bool:
    return any(isinstance(condition, Coupling) for condition in region)


def _refutes(findings: Findings, *, with_margin: bool) -> bool:
    """Whether a search excluded every answer.

    What a branch and bound reports holds with the margin it was given; multipliers, without any.
    """
    reached = np.full(1, np.inf)
    if with_margin:
        return all(np.isposinf(part.bounds(reached)[0][0]) for part in findings.evidence)
    return bool(np.isposinf(lower_bounds(findings.evidence, reached)[0][0]))


def _relaxations(possible: _Possible, atom: Constraint) -> Iterator[Relaxation]:
    """How a constraint alone would have to give, all others kept: bounds and numbers of changes."""
    if possible.is_by_price:
        return
    if isinstance(atom, MaxChanges):
        found = _more_changes(possible, atom)
        if found is not None:
            yield found
    if isinstance(atom, Bounds) and not isinstance(possible.features[atom.feature], Categorical):
        for up in (True, False):
            found = _further(possible, atom, up=up)
            if found is not None:
                yield found


def _more_changes(possible: _Possible, atom: MaxChanges) -> Relaxation | None:
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
        point, refuted = (None, True) if possible.is_refuted(tried) else possible.point(tried)
        low, high = (low, middle) if point is not None else (middle, high)
        sure &= point is not None or refuted
    new = MaxChanges(high)
    if not possible.surely([*without, new]):
        return None
    text = _said(f"{high} features may change", f"at most {atom.count}")
    return Relaxation(atom, new, text, sure)


def _further(possible: _Possible, atom: Bounds, *, up: bool) -> Relaxation | None:
    """How much further one side of a bound would have to be, in as many digits as tell."""
    name, without = atom.feature, [other for other in possible.atoms if other is not atom]
    here = float(possible.x[0, possible.features.columns(name).start])
    limit = min(atom.high, here + atom.rise) if up else max(atom.low, here - atom.fall)
    if np.isinf(limit):
        return None
    stays = (
        Bounds(name, low=atom.low, fall=atom.fall)
        if up
        else Bounds(name, high=atom.high, rise=atom.rise)
    )
    others = [*without, stays]
    value = _nearest(possible, name, here, limit, others, up=up)
    if value is None or value == limit:
        return None
    step = float(possible.question.plain.steps[possible.features.columns(name).start])
    if step > 0.0:
        value = here + round((value - here) / step) * step
    for wider in WIDER:
        said = _outwards(value + wider * (value - limit), limit, up=up)
        new = _moved(atom, here, said, up=up)
        if possible.surely([*without, new]):
            nearly = limit + NEARLY * (said - limit)
            short = Bounds(name, high=nearly) if up else Bounds(name, low=nearly)
            tried = [*others, short]
            least = possible.is_refuted(tried) or possible.point(tried)[1]
            way, side = ("up", "at most") if up else ("down", "at least")
            easier = f"{name} may go {way} to {_number(said)}"
            now = f"{side} {limit:.10g}{'' if least else '; perhaps less is enough'}"
            return Relaxation(atom, new, _said(easier, now), least)
    return None


def _nearest(
    possible: _Possible,
    name: object,
    here: float,
    limit: float,
    others: Sequence[Constraint],
    *,
    up: bool,
) -> float | None:
    """The value of a feature nearest to a limit, and beyond it, at which some piece has a point.

    Where boundaries bend, every change needs a price: the other columns have a small one, and
    the value is one at which there is a point, near to the nearest.
    """
    column = possible.features.columns(name).start
    if (here > limit) if up else (here < limit):  # the row itself is beyond
        value = _between(possible, name, here, limit, others)
        if value is not None:
            return value
        limit = here
    weights = np.full(possible.features.width, SMALL if possible.bends else 0.0)
    weights[column] = 1.0
    beyond = Bounds(name, low=limit) if up else Bounds(name, high=limit)
    point, _ = possible.point([*others, beyond], Price(weights, np.zeros(len(weights))))
    return None if point is None else float(point[column])


def _between(
    possible: _Possible,
    name: object,
    here: float,
    limit: float,
    others: Sequence[Constraint],
) -> float | None:
    """The same between the limit and the row, which has no price to be found by: by bisection."""
    column = possible.features.columns(name).start

    def reached(value: float) -> float | None:
        """The value of a point between the limit and this value."""
        within = [*others, Bounds(name, low=min(limit, value), high=max(limit, value))]
        point = None if possible.is_refuted(within) else possible.point(within)[0]
        return None if point is None else float(point[column])

    best, last = reached(here), limit
    if best is None:
        return None
    for _ in range(HALVINGS):
        if abs(best - last) <= CLOSE * abs(best - limit):
            break
        middle = 0.5 * (last + best)
        nearer = reached(middle)
        best, last = (best, middle) if nearer is None else (nearer, last)
    return best


def _moved(atom: Bounds, here: float, value: float, *, up: bool) -> Bounds:
    """A bound that allows a value on one side."""
    if up:
        rise = atom.rise
        while here + rise < value:
            rise = max(value - here, float(np.nextafter(rise, np.inf)))
        return replace(atom, high=max(atom.high, value), rise=rise)
    fall = atom.fall
    while here - fall > value:
        fall = max(here - value, float(np.nextafter(fall, np.inf)))
    return replace(atom, low=min(atom.low, value), fall=fall)


def _probability(possible: _Possible) -> tuple[float | None, list[Relaxation]]:
    """The highest probability that was reached, if one was asked for, and what that would be."""
    question, target, x = possible.question, possible.target, possible.x
    end = 0.5 * (thread_time() + possible.end)
    reached = target.attainable(question, x, end)
    field = target.sought
    if reached is None or field is None:
        return None, []
    said, least, asked = _rounded_down(reached), False, getattr(target, field)

    def other(probability: float) -> _Possible:
        wanted: Target = replace(target, **{field: probability})  # type: ignore[type-var]
        return _Possible(question, wanted, x, possible.eps, possible.end)

    easier = other(float(said))
    if not easier.surely(question.constraints):
        return reached, []
    if target.promise is Guarantee.NONE:  # else a search takes long
        least = other(0.5 * (float(said) + asked)).point(question.constraints)[1]
    text = _said(f"a probability of {said} is enough", f"at least {asked:.6g}")
    return reached, [Relaxation(target, easier.target, text, least)]


def _said(easier: str, now: str) -> str:
    """What would give an answer, and what holds now."""
    return f"{EXISTS}{easier} (now {now})"


def _rounded_down(value: float) -> str:
    """Six digits, none of them too high."""
    digits = Decimal(value)
    place = Decimal(1).scaleb(digits.adjusted() - 5)
    return f"{digits.quantize(place, rounding=ROUND_FLOOR):g}"


def _outwards(value: float, limit: float, *, up: bool) -> float:
    """The value in six digits, or in as many as leave two of its distance to the limit exact.

    Rounded away from the limit.
    """
    digits = Decimal(value)
    fine = min(digits.adjusted() - 5, Decimal(value - limit).adjusted() - 2)
    place = Decimal(1).scaleb(max(fine, digits.adjusted() - 15))
    return float(digits.quantize(place, rounding=ROUND_CEILING if up else ROUND_FLOOR))


def _number(value: float) -> str:
    """All digits of a number."""
    return repr(value).removesuffix(".0")
