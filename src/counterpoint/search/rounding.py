"""Answers in few digits: each number that changes to a multiple beside it, where the model agrees.

A number has two candidates, the multiples of its unit below and above it. Of a few numbers all
combinations are tried, and the cheapest that is an answer is taken; of many, one number after the
other. Where none is an answer, the unit is made smaller. The model is asked about the candidates of
all rows at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import final

import numpy as np

from counterpoint.certificate import Certificates, certify
from counterpoint.errors import InvalidInput, check_number, shown
from counterpoint.numerics import CLOSED, SINGLE, VIOLATION, BoolArray, FloatArray, IntArray
from counterpoint.problem.targets import Validation
from counterpoint.programs.program import Program
from counterpoint.programs.region import Batch
from counterpoint.rows.encoding import as_returned
from counterpoint.rows.features import Features
from counterpoint.rows.table import Table
from counterpoint.search.query import Query

LEVELS = 5
"""How often the unit is made ten times smaller, the first time included: from 3 digits to 7, which
is what float32 holds."""
OF_CHANGE = 2
"""Digits of the change that are kept at least: rounding moves no number by more than a tenth of
what it changes by."""
NOISE = 6
"""Digits of the change beyond which a number is rounding error: 1e-17 in the place of 0."""
FEW = 8
"""Of so many numbers all combinations are tried, 256 of them."""
CELLS = 1 << 20
"""Cells that the model is asked about at a time: 8 MiB."""


@final
@dataclass(frozen=True)
class Digits:
    """What numbers are rounded to."""

    significant: int | None  # digits of each number; None for those with a unit alone
    units: Mapping[int, Fraction]  # position of a feature → it becomes a multiple of this

    @classmethod
    def checked(
        cls, significant: object, decimals: object, steps: object, features: Features
    ) -> Digits:
        """Return digits that a user asks for; what makes no sense is an `InvalidInput`."""
        if significant is not None and not (_is_whole(significant) and significant >= 1):  # type: ignore[operator]
            raise InvalidInput(
                "Expected significant to be a whole number of at least 1, or None; got "
                f"{shown(significant)}."
            )
        units: dict[int, Fraction] = {}
        for argument, table in (("decimals", decimals), ("steps", steps)):
            if table is not None and not isinstance(table, Mapping):
                raise InvalidInput(
                    f"Expected {argument} by feature, such as {argument}={{'age': 1}}; got "
                    f"{shown(table)}."
                )
            for name, value in (table or {}).items():
                j = features.index(name)
                if not features.is_numeric[j]:
                    raise InvalidInput(f"{name!r} holds categories, which are not rounded.")
                if j in units:
                    raise InvalidInput(f"{name!r} has both decimals and steps. Pass one of them.")
                units[j] = _unit(argument, name, value)
        return cls(None if significant is None else int(significant), units)  # type: ignore[call-overload]


def _is_whole(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _unit(argument: str, name: object, value: object) -> Fraction:
    """What a feature becomes a multiple of, as decimals or steps say it."""
    if argument == "decimals":
        if not (_is_whole(value) and -300 <= value <= 22):  # type: ignore[operator]
            raise InvalidInput(
                f"Expected decimals of {name!r} as a whole number of at most 22; got "
                f"{shown(value)}."
            )
        return Fraction(10) ** -int(value)  # type: ignore[call-overload]
    check_number(f"the step of {name!r}", value)
    if not (np.isfinite(value) and value > 0):  # type: ignore[call-overload, operator]
        raise InvalidInput(f"Expected a positive step for {name!r}; got {shown(value)}.")
    return Fraction(repr(float(value)))  # type: ignore[arg-type]


@final
@dataclass(frozen=True, eq=False)
class Unrounded:
    """n answers to one target, to be rounded."""

    query: Query  # with the model itself
    table: Table  # the model's columns of the rows, as they came
    before: FloatArray  # (n, p) codes of the factual rows
    after: FloatArray  # (n, p) codes of the answers
    certificates: Certificates  # what the answers are worth

    def rounded(self, digits: Digits) -> tuple[FloatArray, Certificates, BoolArray]:
        """(n, p) codes of the answers in few digits, their certificates, and which are rounded.

        A row that no rounding keeps an answer stays as it is.
        """
        codes, pending = np.array(self.after), np.ones(len(self.after), dtype=bool)
        free = self._moved.copy()
        free[:, [*digits.units]] = False
        varied = free.any(axis=1) & (digits.significant is not None)
        for level in range(LEVELS):
            for pinned, shared in ((False, False), (True, False), (True, True)):
                is_first = level == 0 and not pinned
                rows = np.flatnonzero(pending & (varied | is_first))
                if len(rows):
                    low, high = self._candidates(digits, rows, level, pinned=pinned, shared=shared)
                    done = self._settle(rows, low, high, codes)
                    pending[done] = False
        certificates = self._certified(codes)
        failed = ~certificates.holds
        codes[failed] = self.after[failed]
        certificates.put(np.flatnonzero(failed), self.certificates, failed)
        return codes, certificates, ~(pending | failed)

    @property
    def _moved(self) -> BoolArray:
        """(n, p): numbers that differ from those of the factual row."""
        return (self.before != self.after) & self.query.features.is_numeric

    @cached_property
    def _program(self) -> Program:
        return self.query.union.objective_program

    @cached_property
    def _cases(self) -> Batch:
        """The rows as the program sees them."""
        weight = self.query.target.requirement.weight
        cases = self._program.cases(self.query.features.expand(self.before))
        return cases if weight is None else cases.weighing(np.full(len(cases), 0.5 * weight))

    @property
    def _resolution(self) -> float:
        return SINGLE if self.table.singles else VIOLATION

    # What numbers may become

    def _candidates(
        self, digits: Digits, rows: IntArray, level: int, *, pinned: bool, shared: bool
    ) -> tuple[FloatArray, FloatArray]:
        """(m, p) the multiples below and above each number of some rows; what stays is both.

        A number next to whose multiple there is a bound stays where it is ``pinned``; numbers of a
        row have one unit where it is ``shared``, so that what they add up to can be the same.
        """
        x, y, moved = self.before[rows], self.after[rows], self._moved[rows]
        numerator, denominator = self._units(digits, x, y, moved, level, shared=shared)
        with np.errstate(over="ignore", invalid="ignore"):
            count = y * denominator / numerator
            low, nearest, high = (
                self._held(whole * numerator / denominator + 0.0)  # no -0.0
                for whole in (np.floor(count), np.rint(count), np.ceil(count))
            )
            # a quotient may be rounded to the multiple on the wrong side
            low = np.where(
                low > y, self._held((np.floor(count) - 1) * numerator / denominator), low
            )
            high = np.where(
                high < y, self._held((np.ceil(count) + 1) * numerator / denominator), high
            )
        stays = ~moved | (nearest == y)
        if digits.significant is None:
            stays[:, [j for j in range(y.shape[1]) if j not in digits.units]] = True
        low, high = np.where(stays, y, low), np.where(stays, y, high)
        if pinned:
            least, most = self._bounds(rows)
            pinnable = np.ones(y.shape[1], dtype=bool)
            pinnable[[*digits.units]] = False
            low = np.where(pinnable & (low < least), y, low)
            high = np.where(pinnable & (high > most), y, high)
        # what changed stays changed
        return np.where(low == x, high, low), np.where(high == x, low, high)

    def _units(
        self,
        digits: Digits,
        x: FloatArray,
        y: FloatArray,
        moved: BoolArray,
        level: int,
        *,
        shared: bool,
    ) -> tuple[FloatArray, FloatArray]:
        """(m, p) numerators and denominators of the units of numbers."""
        significant = (digits.significant or 1) + level
        least = min(significant, OF_CHANGE + level)
        change = _magnitude(np.where(moved, y - x, 1.0))
        size = np.where(y == 0.0, np.inf, _magnitude(np.where(moved, y, 1.0)))
        exponent = np.minimum(size - significant, change - least) + 1.0
        exponent = np.clip(np.maximum(exponent, change - NOISE - level), -300.0, 300.0)
        if shared:
            single = np.where(moved, exponent, np.inf)
            single[:, [*digits.units]] = np.inf
            exponent = np.where(moved, single.min(axis=1, keepdims=True), exponent)
            exponent = np.where(np.isfinite(exponent), exponent, 0.0)
        # 10 to a whole power is exact up to 22, a float of 1e-2 is not: hence both
        numerator = 10.0 ** np.maximum(exponent, 0.0)
        denominator = 10.0 ** np.maximum(-exponent, 0.0)
        for j, unit in digits.units.items():
            numerator[:, j], denominator[:, j] = float(unit.numerator), float(unit.denominator)
        return numerator, denominator

    def _held(self, values: FloatArray) -> FloatArray:
        """Numbers (m, p) as their columns hold them."""
        singles = [*self.table.singles]
        if singles:
            values = np.array(values)
            values[:, singles] = values[:, singles].astype(np.float32)
        return values

    def _bounds(self, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        """(m, p) the bounds of the features of some rows; infinite for categories."""
        features, cases = self.query.features, self._cases.take(rows)
        ends = np.full((2, len(rows), len(features)), np.inf)
        ends[0] = -np.inf
        ends[:, :, features.is_numeric] = np.stack([cases.low, cases.high])[
            :, :, features.numeric_columns
        ]
        return ends[0], ends[1]

    # Which of them are answers

    def _settle(
        self, rows: IntArray, low: FloatArray, high: FloatArray, codes: FloatArray
    ) -> IntArray:
        """Write the cheapest candidates that are answers into codes; return which rows have any."""
        count = (low != high).sum(axis=1)
        few = count <= FEW
        sizes = np.where(few, 1 << np.minimum(count, FEW), 0)
        blocks, done = np.cumsum(sizes) * low.shape[1] // CELLS, list[IntArray]()
        for block in np.unique(blocks[few]).tolist():
            mine = np.flatnonzero(few & (blocks == block))
            which, tried = _combinations(low[mine], high[mine])
            best, cheapest = self._cheapest(rows[mine][which], tried)
            codes[best] = cheapest
            done.append(best)
        if not few.all():
            done.append(self._settle_many(rows[~few], low[~few], high[~few], codes))
        return np.concatenate(done) if done else rows[:0]

    def _settle_many(
        self, rows: IntArray, low: FloatArray, high: FloatArray, codes: FloatArray
    ) -> IntArray:
        """The same for many numbers: one after the other, else all away from the factual row."""
        points, open_cells = self.after[rows], low != high
        points = np.where(open_cells, points, low)
        columns = np.flatnonzero(open_cells.any(axis=0)).tolist()
        for j in [*columns, *columns]:
            mine = np.flatnonzero(open_cells[:, j])
            if not len(mine):
                continue
            tried = np.repeat(points[mine], 2, axis=0)
            tried[0::2, j], tried[1::2, j] = low[mine, j], high[mine, j]
            best, cheapest = self._cheapest(np.repeat(rows[mine], 2), tried)
            places = np.searchsorted(rows, best)
            points[places], open_cells[places, j] = cheapest, False
        x, unsettled = self.before[rows], np.flatnonzero(open_cells.any(axis=1))
        away = np.where(np.abs(high - x) > np.abs(low - x), high, low)
        best, cheapest = self._cheapest(rows[unsettled], away[unsettled])
        places = np.searchsorted(rows, best)
        points[places], open_cells[places] = cheapest, False
        settled = ~open_cells.any(axis=1)
        codes[rows[settled]] = points[settled]
        return rows[settled]

    def _cheapest(self, rows: IntArray, codes: FloatArray) -> tuple[IntArray, FloatArray]:
        """Of (m, p) candidates for some rows, each row's cheapest answer: rows, and its codes."""
        cases, y = self._cases.take(rows), self.query.features.expand(codes)
        objective, certificates = self._program.objective(y, cases), self.certificates
        # what costs less than is proved to be possible was not what the row was asked for
        possible = objective >= certificates.bound[rows] * (1.0 - CLOSED)
        inside = self.query.actionable.violation(y, cases.x) <= self._resolution
        tried = np.flatnonzero(possible & inside)
        if not len(tried):
            return rows[:0], codes[:0]
        codes, verdict = self._asked_of_model(rows[tried], codes[tried])
        leads = certificates.margin[rows[tried]] >= certificates.rounding[rows[tried]]
        valid = np.where(leads, verdict.leads, verdict.valid)
        rows, codes, objective = rows[tried][valid], codes[valid], objective[tried][valid]
        order = np.lexsort((objective, rows))
        first = np.ones(len(order), dtype=bool)
        first[1:] = rows[order][1:] != rows[order][:-1]
        return rows[order][first], codes[order][first]

    def _asked_of_model(self, rows: IntArray, codes: FloatArray) -> tuple[FloatArray, Validation]:
        """Ask the model about candidates for some rows: codes as they are returned, and verdict."""
        query, features, before = self.query, self.query.features, self.before[rows]
        (returned,), codes, y = as_returned(self.table, features, rows, before, codes)
        outputs = query.target.outputs(query.model, returned)
        verdict = query.target.verdict(query.model.form, y, outputs, query.eps)
        x = self._cases.x[rows]
        margins = query.safety_margins(x)
        if margins is not None:
            margin = verdict.margin - margins.required(y, query.encoded_cost(y, x))
            verdict = replace(verdict, valid=verdict.valid & (margin >= 0.0), margin=margin)
        return codes, verdict

    def _certified(self, codes: FloatArray) -> Certificates:
        """What (n, p) codes are worth as answers."""
        codes, verdict = self._asked_of_model(np.arange(len(codes)), codes)
        return certify(
            self._program,
            self.query.features.expand(codes),
            self._cases,
            verdict,
            self.certificates,
            gap=self.query.effort.gap,
            resolution=self._resolution,
        )


def _magnitude(values: FloatArray) -> FloatArray:
    """Of numbers the largest power of ten that is not above them."""
    with np.errstate(divide="ignore"):
        return np.floor(np.log10(np.abs(values)))


def _combinations(low: FloatArray, high: FloatArray) -> tuple[IntArray, FloatArray]:
    """All ways to take each number of (m, p) rows from either: which row each is of, and codes."""
    count = (low != high).sum(axis=1)
    which, codes = list[IntArray](), list[FloatArray]()
    for k in np.unique(count).tolist():
        rows = np.flatnonzero(count == k)
        columns = np.nonzero(low[rows] != high[rows])[1].reshape(len(rows), 1, k)
        bits = (np.arange(1 << k)[:, None] >> np.arange(k)) & 1 == 1  # (2^k, k)
        tried = np.repeat(low[rows][:, None, :], 1 << k, axis=1)
        upper = np.take_along_axis(high[rows][:, None, :], columns, axis=2)
        lower = np.take_along_axis(low[rows][:, None, :], columns, axis=2)
        np.put_along_axis(tried, columns, np.where(bits, upper, lower), axis=2)
        which.append(np.repeat(rows, 1 << k))
        codes.append(tried.reshape(-1, low.shape[1]))
    return np.concatenate(which), np.concatenate(codes)
