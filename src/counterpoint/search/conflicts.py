"""Conflicts say why a row has no answer: which constraints exclude it, and how far one must give.

Constraints conflict in *atoms*: those on several features, such as `Immutable`, are taken apart
into one for each. `FeasibilityOracle` says whether there is an answer under some of them.
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
from counterpoint.programs.losses import LogLoss
from counterpoint.rows import lattice
from counterpoint.rows.features import Categorical
from counterpoint.search.feasibility import FeasibilityOracle
from counterpoint.search.query import Query
from counterpoint.search.search import search
from counterpoint.solvers.base import DEFAULT_GAP, Effort

SECONDS, IN_ALL = 0.8, 1.2
"""Seconds after which the search for the set ends, and that for all relaxations. They are those of
this thread, so that a conflict does not depend on what else a machine does."""
EXISTS = "an answer exists if "
"""How the text of a relaxation begins."""


@final
@dataclass(frozen=True)
class Relaxation:
    """An easier constraint or target that gives a row an answer, with everything else kept.

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
            return self._with_relaxations(
                "No point at all gives the target, even without constraints."
            )
        head = "These exclude every answer"
        if not self.minimal:
            head += " (it is not known whether fewer do)"
        text = f"{head}: {'; '.join(map(str, self.constraints))}."
        return self._with_relaxations(text)

    def _with_relaxations(self, text: str) -> str:
        """Return the text, and what would give an answer."""
        choices = ", or if ".join(
            relaxation.removeprefix(EXISTS) for relaxation in self.relaxations
        )
        return f"{text} {EXISTS.capitalize()}{choices}." if choices else text


def conflict_of(query: Query, x: FloatArray) -> Conflict:
    """Find a minimal conflict by deletion: constraints without which the row stays infeasible go.

    Constraints on several features are split into *atoms*, one for each feature. The query's
    constraints are those that may conflict; an `OtherLabel` must name its labels; x is (1, d),
    encoded.
    """
    start = thread_time()
    oracle = FeasibilityOracle(query, x, start + SECONDS)
    needed = sorted(oracle.atoms, key=_rank)
    if not oracle.refuted([needed])[0]:
        oracle.answers([needed])  # a search leaves a proof, which may do without most atoms
    needed = _needed_by_proof(oracle, needed)
    # Until none goes any more: where the target depends on the cost (see `Robust`), an answer may
    # exist with a constraint, and none without it.
    previous: list[Constraint] = []
    while len(needed) != len(previous):
        previous, groups = needed, [needed]
        if oracle.refuted([needed])[0]:
            # The proof was cut down already, so few atoms can go: each is asked for by itself. All
            # are searched at once first, which the questions below find done.
            groups = [[atom] for atom in needed]
            oracle.answers(_but_one(needed))
        for removable in groups:
            needed = _without(removable, needed, lambda atoms: not oracle.answers([atoms])[0])
    is_minimal = all(map(oracle.has, _but_one(needed)))
    oracle.end = start + IN_ALL
    attainable, probabilities = _probability(oracle)
    # an atom does not help if all the others, not those of the set alone, exclude every answer
    all_others = [[other for other in oracle.atoms if other is not atom] for atom in needed]
    relaxed = [
        relaxation
        for atom, is_hopeless in zip(needed, oracle.refuted(all_others), strict=True)
        if not is_hopeless
        for relaxation in _relaxations(oracle, atom)
    ]
    return Conflict(_joined(needed), (*relaxed, *probabilities), is_minimal, attainable)


def _but_one(atoms: Sequence[Constraint]) -> list[list[Constraint]]:
    """The atoms without the first, without the second, and so on."""
    return [[*atoms[:i], *atoms[i + 1 :]] for i in range(len(atoms))]


def _needed_by_proof(oracle: FeasibilityOracle, atoms: Sequence[Constraint]) -> list[Constraint]:
    """Return what remains of atoms if each goes, in order, without which a known proof holds.

    No atom is tried twice: one that cannot go while there are more cannot go later.
    """
    needed, undecided = list[Constraint](), list(atoms)
    while undecided:
        can_go = oracle.refuted([[*needed, *fewer] for fewer in _but_one(undecided)]).tolist()
        needed += [atom for atom, can in zip(undecided, can_go, strict=True) if not can]
        undecided = [atom for atom, can in zip(undecided, can_go, strict=True) if can]
        # Of those that can go alone, as many as possible of the first go at once.
        after = [[*needed, *undecided[i + 1 :]] for i in range(len(undecided))]
        count = int(np.logical_and.accumulate(oracle.refuted(after)).sum())
        undecided = undecided[count:]
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
    removable_ids = set(map(id, removable))
    remaining = [atom for atom in needed if id(atom) not in removable_ids]
    if not removable or is_impossible(remaining):
        return remaining
    if len(removable) == 1:  # without it there are answers
        return needed
    half = len(removable) // 2
    for atoms in (removable[:half], removable[half:]):
        needed = _without(atoms, needed, is_impossible)
    return needed


def _rank(atom: Constraint) -> int:
    """The position of an atom's type in `CONSTRAINTS`: those that come first are dropped first."""
    kind = type(atom)
    return CONSTRAINTS.index(kind) if kind in CONSTRAINTS else len(CONSTRAINTS)


def _joined(atoms: Sequence[Constraint]) -> tuple[Constraint, ...]:
    """Join atoms to constraints on several features again, those on one feature alone first."""
    immutable: dict[bool, list[Immutable]] = {}
    observed: dict[str, list[WithinObserved]] = {}
    for atom in atoms:
        if isinstance(atom, WithinObserved):
            observed.setdefault(atom.default, []).append(atom)
        elif isinstance(atom, Immutable):
            immutable.setdefault(atom.protected, []).append(atom)
    single = [a for a in atoms if not isinstance(a, Immutable | WithinObserved)]
    joined: list[Constraint] = list(reversed(single))
    for groups in (immutable.values(), observed.values()):
        joined += [group[0].only(*(atom.features[0] for atom in group)) for group in groups]
    return tuple(joined)


def _relaxations(oracle: FeasibilityOracle, atom: Constraint) -> Iterator[Relaxation]:
    """Yield how an atom alone would have to give: bounds on either side, numbers of changes."""
    if oracle.is_cost_dependent:
        return
    relaxations: list[Relaxation | None] = []
    if isinstance(atom, MaxChanges):
        relaxations = [_more_changes(oracle, atom)]
    if isinstance(atom, Bounds) and not isinstance(oracle.features[atom.feature], Categorical):
        relaxations = [_wider_bound(oracle, atom, up=up) for up in (True, False)]
    yield from (relaxation for relaxation in relaxations if relaxation is not None)


def _more_changes(oracle: FeasibilityOracle, atom: MaxChanges) -> Relaxation | None:
    """Find the least number of changes with which there is an answer, by bisection."""
    others = [other for other in oracle.atoms if other is not atom]
    low, high, is_least = int(atom.count), len(oracle.features.names), True
    point = oracle.point(others)[0] if high > low else None
    if point is None:
        return None
    differs = (point != oracle.x[0]).tolist()
    high = max(low + 1, sum(any(differs[block]) for block in oracle.features.blocks))
    while high - low > 1:
        middle = (low + high) // 2
        point, refuted = oracle.point([*others, MaxChanges(middle)])
        low, high = (low, middle) if point is not None else (middle, high)
        is_least &= point is not None or refuted
    new = MaxChanges(high)
    if not oracle.surely([*others, new]):
        return None
    text = _relaxation_text(f"{high} features may change", f"at most {atom.count}")
    return Relaxation(atom, new, text, is_least)


def _wider_bound(oracle: FeasibilityOracle, atom: Bounds, *, up: bool) -> Relaxation | None:
    """Find how far one side of a bound would have to move for an answer, in as few digits as tell.

    From the nearest value at which there is a point, it is moved a little further until a point
    leads by enough to be confirmed. None if there is no such value, or if this side is not in the
    way. The relaxation counts as the least if there is no point within 99 % of the way.
    """
    name, others = atom.feature, [other for other in oracle.atoms if other is not atom]
    column = oracle.features.columns(name).start
    factual, step = float(oracle.x[0, column]), oracle.query.actionable.domain.steps[column]
    # a bound on the value and one on the change: the narrower is in force
    limit = min(atom.high, factual + atom.rise) if up else max(atom.low, factual - atom.fall)
    if np.isinf(limit):
        return None
    lifted = {"high": np.inf, "rise": np.inf} if up else {"low": -np.inf, "fall": np.inf}
    one_sided = [*others, replace(atom, **lifted)]
    nearest = _nearest(oracle, name, factual, limit, one_sided, up=up)
    if nearest is None or nearest == limit:
        return None
    if step > 0.0:
        nearest = float(lattice.nearest(factual, nearest, float(step)))
    for share in (0.0, 1e-6, 1e-4):  # of the way from the limit
        value = _rounded_outwards(nearest + share * (nearest - limit), limit, up=up)
        new = _moved(atom, factual, value, up=up)
        if oracle.surely([*others, new]):
            nearly = limit + 0.99 * (value - limit)
            short = Bounds(name, high=nearly) if up else Bounds(name, low=nearly)
            _, is_least = oracle.point([*one_sided, short])  # if there is provably none
            direction, side = ("up", "at most") if up else ("down", "at least")
            easier = f"{name} may go {direction} to {_number(value)}"
            now = f"{side} {limit:.10g}{'' if is_least else '; perhaps less is enough'}"
            return Relaxation(atom, new, _relaxation_text(easier, now), is_least)
    return None


def _nearest(
    oracle: FeasibilityOracle,
    name: Hashable,
    factual: float,
    limit: float,
    constraints: Sequence[Constraint],
    *,
    up: bool,
) -> float | None:
    """Find the value of a feature, beyond a limit, nearest to it at which some piece has a point.

    Where the row itself is beyond the limit, a value between them is no change, so it costs nothing
    to go the whole way, and the nearest is found by bisection. Else the change of the feature is
    the cost. Where every change needs a cost, as where boundaries bend, or few columns without ends
    may change, the other columns have a small one, and the value is near the nearest.
    """
    column, closeness = oracle.features.columns(name).start, 1e-4

    def value_up_to(end: float, encoded_cost: EncodedCost | None = None) -> float | None:
        """The value of some point between the limit and an end."""
        within = [*constraints, Bounds(name, low=min(limit, end), high=max(limit, end))]
        point = oracle.point(within, encoded_cost)[0]
        return None if point is None else float(point[column])

    is_row_beyond = (factual > limit) if up else (factual < limit)
    if is_row_beyond:
        best = value_up_to(factual)
        if best is not None:
            # There is no point up to ``empty``. The first step is right before the best value, for
            # that is often the nearest, as at a bound of another constraint; then each halves.
            empty, share = limit, 1.0 - closeness
            for _ in range(12):
                middle = empty + share * (best - empty)
                nearer, share = value_up_to(middle), 0.5
                best, empty = (best, middle) if nearer is None else (nearer, empty)
                if abs(best - empty) <= closeness * abs(best - limit):
                    break
            return best
        limit = factual
    for others_cost in (1e-4,) if oracle.is_nonconvex else (0.0, 1e-4):
        weights = np.full(oracle.features.width, others_cost)
        weights[column] = 1.0
        end = np.inf if up else -np.inf
        nearest = value_up_to(end, EncodedCost(weights, np.zeros(len(weights))))
        if nearest is not None:
            return nearest
    return None


def _moved(atom: Bounds, factual: float, value: float, *, up: bool) -> Bounds:
    """Widen a bound on one side, so that it allows a value."""
    if up:
        rise = atom.rise
        while factual + rise < value:  # the difference itself may be rounded down
            rise = max(value - factual, float(np.nextafter(rise, np.inf)))
        return replace(atom, high=max(atom.high, value), rise=rise)
    fall = atom.fall
    while factual - fall > value:
        fall = max(factual - value, float(np.nextafter(fall, np.inf)))
    return replace(atom, low=min(atom.low, value), fall=fall)


def _probability(oracle: FeasibilityOracle) -> tuple[float | None, list[Relaxation]]:
    """Return the highest probability that points reach, and a relaxation of the target to it.

    The probability is None if the target asks for none, or no point was found. There is no
    relaxation where the row itself has this probability, or where no answer with it is certain.
    """
    query, x = oracle.query, oracle.x
    target = query.target
    probability_field, requirement = target.probability_field, target.requirement
    if probability_field is None:
        return None, []
    end = 0.5 * (thread_time() + oracle.end)  # the other half is for the relaxation
    if requirement.varying_margin is None:
        tradeoff = Tradeoff(requirement.labels[0], 1.0)
        highest = _highest_probability(query.asking(target=tradeoff), x, end)
    else:
        highest = requirement.varying_margin.attainable(query, x, end)
    if highest is None:
        return None, []
    is_exact = requirement.promise is Guarantee.NONE  # else it was searched for in three digits
    text = rounded_down(highest, 6 if is_exact else 3)

    def oracle_at(probability: float) -> FeasibilityOracle:
        easier: Target = replace(target, **{probability_field: probability})  # type: ignore[type-var]
        return FeasibilityOracle(query.asking(target=easier), x, oracle.end)

    relaxed_oracle = oracle_at(float(text))
    relaxed, required = relaxed_oracle.query.target, getattr(target, probability_field)
    if is_exact and query.model.form.margin(x, relaxed)[0] >= 0.0:
        return highest, []  # the row itself has this probability
    if not relaxed_oracle.surely(query.constraints):
        return highest, []
    # the relaxation is the least if there is no answer halfway to it; else a search takes long
    is_least = False
    if is_exact:
        is_least = oracle_at(0.5 * (float(text) + required)).point(query.constraints)[1]
    sentence = _relaxation_text(f"a probability of {text} is enough", f"at least {required:.6g}")
    return highest, [Relaxation(target, relaxed, sentence, is_least)]


def _highest_probability(tradeoff: Query, x: FloatArray, end: float) -> float | None:
    """Return the highest probability of a label that changes of one row x (1, d) reach, or None.

    The target is a `Tradeoff`, whose objective is the weighted cost and −log of the label's
    probability. Here the weight is so small that the cost hardly counts; it is not 0, because
    without a cost the highest probability may be reached at infinity only. Each search weighs the
    cost by the point of the one before. None if there is no point by ``end``, of `thread_time`, or
    if the model's probabilities have steps or bend, so that they are not traded off.
    """
    try:
        union = tradeoff.union
    except InvalidInput:
        return None
    program, searches = union[0].program, 3
    losses = [term for term in program.couplings if isinstance(term, LogLoss)]
    share = 1e-7  # of the cost in the objective
    cases, weight, highest = program.cases(x), np.full(1, share), None
    for _ in range(searches):
        remaining = end - thread_time()
        if remaining <= 0.0:
            break
        effort = Effort(DEFAULT_GAP, remaining / searches)
        incumbent = search(union, cases.weighing(weight), effort)
        if incumbent.piece[0] < 0:  # no point
            break
        y = incumbent.points
        loss = float(sum(term.amount(y)[0] for term in losses))
        probability = float(np.exp(-loss))
        if highest is not None and probability <= highest * (1.0 + DEFAULT_GAP):
            break
        highest = probability
        # The first weight takes no account of the units of the cost. With the next one, the cost of
        # this point is about a ``share`` of its loss; the maxima keep out zeros.
        cost = np.maximum(program.encoded_cost(y, x), share)
        weight = share * max(loss, share) / cost
    return highest


def _relaxation_text(easier: str, now: str) -> str:
    return f"{EXISTS}{easier} (now {now})"


def _rounded_outwards(value: float, limit: float, *, up: bool) -> float:
    """Round a value away from a limit, to six digits or to two of its distance to the limit.

    The finer of the two counts, up to 16 digits.
    """
    exact = Decimal(value)
    finest = min(exact.adjusted() - 5, Decimal(value - limit).adjusted() - 2)
    unit = Decimal(1).scaleb(max(finest, exact.adjusted() - 15))
    return float(exact.quantize(unit, rounding=ROUND_CEILING if up else ROUND_FLOOR))


def _number(value: float) -> str:
    return repr(value).removesuffix(".0")
