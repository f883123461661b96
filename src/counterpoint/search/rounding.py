"""Answers are rounded: each number that changes, to a multiple beside it, where the model agrees.

A number has two candidates, the multiples of its unit below and above it. Of a few numbers all
combinations are tried, and the cheapest that is an answer is taken; of many, one number after the
other. Where none is an answer, the unit is made smaller. The model is asked about the candidates of
all rows at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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

MAX_COMBINED = 8
"""Of so many numbers all combinations are tried, 256 of them."""


@final
@dataclass(frozen=True)
class Digits:
    """What numbers are rounded to."""

    significant: int | None  # digits of each number; None to round those with a unit alone
    units: Mapping[int, Fraction]  # position of a feature → what it becomes a multiple of

    @classmethod
    def checked(
        cls, significant: object, decimals: object, steps: object, features: Features
    ) -> Digits:
        """Check the digits that a user asks for; nonsense is an `InvalidInput`."""
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
    """The unit of a feature, from its ``decimals`` or ``steps``."""
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
    """n answers to one target that are to be rounded, and the digits to round them to."""

    query: Query  # with the model itself
    digits: Digits
    table: Table  # the model's columns of the rows, as they came
    before: FloatArray  # (n, p) codes of the factual rows
    after: FloatArray  # (n, p) codes of the answers
    certificates: Certificates  # of the answers

    def rounded(self) -> tuple[FloatArray, Certificates, BoolArray]:
        """(n, p) codes of the rounded answers, their certificates, and (n,) which are rounded.

        A row that no rounding keeps an answer stays as it is.
        """
        codes, pending = np.array(self.after), np.ones(len(self.after), dtype=bool)
        # numbers whose unit may become smaller; those with a unit of their own are tried once
        refinable = self._changed.copy()
        refinable[:, [*self.digits.units]] = False
        can_refine = refinable.any(axis=1) & (self.digits.significant is not None)
        # 5 levels, each with a digit more: from 3 digits to 7, which is what float32 holds
        for level in range(5):
            for pinned, shared in ((False, False), (True, False), (True, True)):
                is_first = level == 0 and not pinned
                rows = np.flatnonzero(pending & (can_refine | is_first))
                if len(rows):
                    low, high = self._candidates(rows, level, pinned=pinned, shared=shared)
                    done = self._settle(rows, low, high, codes)
                    pending[done] = False
        certificates = self._certified(codes)
        failed = ~certificates.holds
        codes[failed] = self.after[failed]
        certificates.put(np.flatnonzero(failed), self.certificates, failed)
        return codes, certificates, ~(pending | failed)

    @property
    def _changed(self) -> BoolArray:
        """(n, p): which numbers differ from those of the factual row."""
        return (self.before != self.after) & self.query.features.is_numeric

    @cached_property
    def _program(self) -> Program:
        return self.query.union.objective_program

    @cached_property
    def _cases(self) -> Batch:
        """The factual rows as the program sees them."""
        weight = self.query.target.requirement.weight
        cases = self._program.cases(self.query.features.expand(self.before))
        return cases if weight is None else cases.weighing(np.full(len(cases), 0.5 * weight))

    @property
    def _resolution(self) -> float:
        return SINGLE if self.table.singles else VIOLATION

    # Candidates

    def _candidates(
        self, rows: IntArray, level: int, *, pinned: bool, shared: bool
    ) -> tuple[FloatArray, FloatArray]:
        """(m, p) the multiples below and above each number of some rows; both are y if it stays.

        The units are those of `_units` at a ``level``: the higher, the finer. If ``pinned``, a
        multiple beyond a bound is no candidate, and the number itself is one. If ``shared``, all
        numbers of a row have one unit, so that their sum can stay the same.
        """
        x, y, changed = self.before[rows], self.after[rows], self._changed[rows]
        numerator, denominator = self._units(x, y, changed, level, shared=shared)

        def multiple(count: FloatArray) -> FloatArray:
            return self._as_held(count * numerator / denominator + 0.0)  # no -0.0

        with np.errstate(over="ignore", invalid="ignore"):
            count = y * denominator / numerator
            below, above = np.floor(count), np.ceil(count)
            low, nearest, high = multiple(below), multiple(np.rint(count)), multiple(above)
            # the quotient may have been rounded past a whole number
            low = np.where(low > y, multiple(below - 1), low)
            high = np.where(high < y, multiple(above + 1), high)
        stays = ~changed | (nearest == y)
        has_unit = np.zeros(y.shape[1], dtype=bool)
        has_unit[[*self.digits.units]] = True
        if self.digits.significant is None:
            stays |= ~has_unit
        low, high = np.where(stays, y, low), np.where(stays, y, high)
        if pinned:
            # not so where a unit was asked for: the number itself would not do
            least, most = self._bounds(rows)
            low = np.where(~has_unit & (low < least), y, low)
            high = np.where(~has_unit & (high > most), y, high)
        # a number that changed is not rounded to its factual value
        return np.where(low == x, high, low), np.where(high == x, low, high)

    def _units(
        self, x: FloatArray, y: FloatArray, changed: BoolArray, level: int, *, shared: bool
    ) -> tuple[FloatArray, FloatArray]:
        """(m, p) numerators and denominators of the units of numbers: powers of ten, or given ones.

        A unit keeps the digits of the number itself, and at least two of its change, so that
        rounding moves no number by more than a tenth of what it changes by; but no more than six of
        its change, for what is finer is rounding error, such as 1e-17 in the place of 0. Each level
        adds a digit to all three. If ``shared``, changed numbers of a row have its finest unit.
        """
        significant = (self.digits.significant or 1) + level
        change_digits = min(significant, 2 + level)
        y_exponent = np.where(y == 0.0, np.inf, _exponent(np.where(changed, y, 1.0)))
        change_exponent = _exponent(np.where(changed, y - x, 1.0))
        exponent = np.minimum(y_exponent - significant, change_exponent - change_digits) + 1.0
        exponent = np.clip(np.maximum(exponent, change_exponent - 6 - level), -300.0, 300.0)
        if shared:
            refinable = np.where(changed, exponent, np.inf)
            refinable[:, [*self.digits.units]] = np.inf
            exponent = np.where(changed, refinable.min(axis=1, keepdims=True), exponent)
            exponent = np.where(np.isfinite(exponent), exponent, 0.0)
        # 10 to a whole power is exact up to 22, a float of 1e-2 is not: hence both
        numerator = 10.0 ** np.maximum(exponent, 0.0)
        denominator = 10.0 ** np.maximum(-exponent, 0.0)
        for j, unit in self.digits.units.items():
            numerator[:, j], denominator[:, j] = float(unit.numerator), float(unit.denominator)
        return numerator, denominator

    def _as_held(self, values: FloatArray) -> FloatArray:
        """Return numbers (m, p) as their columns hold them: float32 columns round them."""
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
        encoded = np.stack([cases.low, cases.high])
        ends[:, :, features.is_numeric] = encoded[:, :, features.numeric_columns]
        return ends[0], ends[1]

    # Which candidates are answers

    def _settle(
        self, rows: IntArray, low: FloatArray, high: FloatArray, codes: FloatArray
    ) -> IntArray:
        """Write the cheapest candidates that are answers into codes; return which rows have any."""
        count = (low != high).sum(axis=1)
        few = count <= MAX_COMBINED
        # Rows whose combinations have up to 1 << 20 cells in all are asked about together: 8 MiB.
        combinations = np.where(few, 1 << np.minimum(count, MAX_COMBINED), 0)
        block_of_row, done = np.cumsum(combinations) * low.shape[1] // (1 << 20), list[IntArray]()
        for block in np.unique(block_of_row[few]).tolist():
            chosen = np.flatnonzero(few & (block_of_row == block))
            owner, candidates = _combinations(low[chosen], high[chosen])
            solved, solution = self._cheapest(rows[chosen][owner], candidates)
            codes[solved] = solution
            done.append(solved)
        if not few.all():
            done.append(self._settle_many(rows[~few], low[~few], high[~few], codes))
        return np.concatenate(done) if done else rows[:0]

    def _settle_many(
        self, rows: IntArray, low: FloatArray, high: FloatArray, codes: FloatArray
    ) -> IntArray:
        """`_settle` for rows of many numbers: these are rounded one after the other, in two rounds.

        Numbers that are unrounded even then are rounded all at once, away from the factual row.
        """
        points, unrounded = self.after[rows], low != high
        points = np.where(unrounded, points, low)
        columns = np.flatnonzero(unrounded.any(axis=0)).tolist()
        for j in [*columns, *columns]:
            tried = np.flatnonzero(unrounded[:, j])
            if not len(tried):
                continue
            candidates = np.repeat(points[tried], 2, axis=0)
            candidates[0::2, j], candidates[1::2, j] = low[tried, j], high[tried, j]
            solved, solution = self._cheapest(np.repeat(rows[tried], 2), candidates)
            places = np.searchsorted(rows, solved)
            points[places], unrounded[places, j] = solution, False
        x, tried = self.before[rows], np.flatnonzero(unrounded.any(axis=1))
        farther = np.where(np.abs(high - x) > np.abs(low - x), high, low)
        solved, solution = self._cheapest(rows[tried], farther[tried])
        places = np.searchsorted(rows, solved)
        points[places], unrounded[places] = solution, False
        settled = ~unrounded.any(axis=1)
        codes[rows[settled]] = points[settled]
        return rows[settled]

    def _cheapest(self, rows: IntArray, codes: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return the rows that have an answer among (m, p) candidates, and the cheapest of each."""
        cases, y = self._cases.take(rows), self.query.features.expand(codes)
        objective, certificates = self._program.objective(y, cases), self.certificates
        # what costs less than is proved to be possible is no answer to what was asked
        possible = objective >= certificates.bound[rows] * (1.0 - CLOSED)
        inside = self.query.actionable.violation(y, cases.x) <= self._resolution
        tried = np.flatnonzero(possible & inside)
        if not len(tried):
            return rows[:0], codes[:0]
        rows, objective = rows[tried], objective[tried]
        codes, verdict = self._ask(rows, codes[tried])
        # an answer that leads by the model's rounding error goes on to do so
        leads = certificates.margin[rows] >= certificates.rounding[rows]
        valid = np.where(leads, verdict.leads, verdict.valid)
        rows, codes, objective = rows[valid], codes[valid], objective[valid]
        order = np.lexsort((objective, rows))
        is_cheapest = np.ones(len(order), dtype=bool)
        is_cheapest[1:] = rows[order][1:] != rows[order][:-1]
        return rows[order][is_cheapest], codes[order][is_cheapest]

    def _ask(self, rows: IntArray, codes: FloatArray) -> tuple[FloatArray, Validation]:
        """Ask the model about candidates for some rows: codes as they are returned, and verdict."""
        query, features, before = self.query, self.query.features, self.before[rows]
        (returned,), codes, y = as_returned(self.table, features, rows, before, codes)
        outputs = query.target.outputs(query.model, returned)
        verdict = query.target.verdict(query.model.form, y, outputs, query.eps)
        x = self._cases.x[rows]
        margins = query.safety_margins(x)
        if margins is not None:
            verdict = margins.applied(verdict, y, query.encoded_cost(y, x))
        return codes, verdict

    def _certified(self, codes: FloatArray) -> Certificates:
        """Certify (n, p) codes as answers, with the bounds of the exact answers."""
        codes, verdict = self._ask(np.arange(len(codes)), codes)
        return certify(
            self._program,
            self.query.features.expand(codes),
            self._cases,
            verdict,
            self.certificates,
            gap=self.query.effort.gap,
            resolution=self._resolution,
        )


def _exponent(values: FloatArray) -> FloatArray:
    """The exponents of the largest powers of ten that are not above the sizes of numbers."""
    with np.errstate(divide="ignore"):
        return np.floor(np.log10(np.abs(values)))


def _combinations(low: FloatArray, high: FloatArray) -> tuple[IntArray, FloatArray]:
    """Combine the two candidates of each number of (m, p) rows in all ways.

    Return the row of each combination, and its codes.
    """
    count = (low != high).sum(axis=1)
    owners, codes = list[IntArray](), list[FloatArray]()
    for k in np.unique(count).tolist():
        rows = np.flatnonzero(count == k)
        # (r, 1, k) the columns of the k numbers of each row; (2^k, k) whether to take the upper one
        columns = np.nonzero(low[rows] != high[rows])[1].reshape(len(rows), 1, k)
        takes_upper = (np.arange(1 << k)[:, None] >> np.arange(k)) & 1 == 1
        combined = np.repeat(low[rows][:, None, :], 1 << k, axis=1)  # (r, 2^k, p)
        upper = np.take_along_axis(high[rows][:, None, :], columns, axis=2)
        lower = np.take_along_axis(low[rows][:, None, :], columns, axis=2)
        np.put_along_axis(combined, columns, np.where(takes_upper, upper, lower), axis=2)
        owners.append(np.repeat(rows, 1 << k))
        codes.append(combined.reshape(-1, low.shape[1]))
    return np.concatenate(owners), np.concatenate(codes)
