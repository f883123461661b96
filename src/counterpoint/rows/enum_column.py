"""A column of members of an enum."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from functools import cache
from typing import Any, Generic, TypeVar, final, overload

import numpy as np
from numpy.typing import NDArray

__all__ = ["EnumColumn"]

E = TypeVar("E", bound=StrEnum)


@final
class EnumColumn(Generic[E]):
    """(n,) members of one enum, in a byte each.

    ``column == member`` gives (n,) booleans. What is no member, such as a number, raises
    `ValueError` there: it must not pass for a member that no row has. For NumPy a column is an
    array of objects.

    Parameters
    ----------
    kind
        The enum.
    codes
        (n,) positions of the members in the enum, which only this class knows of.
    """

    __slots__ = ("_codes", "_kind")

    def __init__(self, kind: type[E], codes: NDArray[np.int8]) -> None:
        self._kind, self._codes = kind, codes

    @classmethod
    def full(cls, n: int, member: E) -> EnumColumn[E]:
        """The same member n times."""
        kind = type(member)
        return cls(kind, np.full(n, _code(kind, member), dtype=np.int8))

    @classmethod
    def chosen(cls, n: int, member: E, *others: tuple[NDArray[np.bool_], E]) -> EnumColumn[E]:
        """The same member n times, and others where masks say so: the last one that does."""
        kind = type(member)
        codes = np.full(n, _code(kind, member), dtype=np.int8)
        for where, other in others:
            codes[where] = _code(kind, other)
        return cls(kind, codes)

    def __len__(self) -> int:
        return len(self._codes)

    def __iter__(self) -> Iterator[E]:
        return iter(np.asarray(self))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:  # noqa: FBT001 (NumPy's protocol)
        members = np.array(_members(self._kind), dtype=object)[self._codes]
        return members if dtype is None else members.astype(dtype)

    @overload
    def __getitem__(self, rows: int | np.integer[Any]) -> E: ...
    @overload
    def __getitem__(self, rows: slice | NDArray[Any]) -> EnumColumn[E]: ...
    def __getitem__(self, rows: Any) -> E | EnumColumn[E]:
        codes = self._codes[rows]
        if isinstance(codes, np.ndarray):
            return EnumColumn(self._kind, codes)
        return _members(self._kind)[codes]

    def __setitem__(self, rows: Any, given: E | EnumColumn[E]) -> None:
        if isinstance(given, EnumColumn):
            self._codes[rows] = given._codes  # noqa: SLF001 (of the same class)
        else:
            self._codes[rows] = _code(self._kind, given)

    def __eq__(self, member: object) -> NDArray[np.bool_]:  # type: ignore[override]
        return np.asarray(self._codes == _code(self._kind, member))

    def __ne__(self, member: object) -> NDArray[np.bool_]:  # type: ignore[override]
        return ~(self == member)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({[str(member) for member in self]})"


@cache
def _members(kind: type[E]) -> tuple[E, ...]:
    return tuple(kind)


@cache
def _positions(kind: type[StrEnum]) -> dict[object, int]:
    return {member: position for position, member in enumerate(kind)}


def _code(kind: type[StrEnum], member: object) -> int:
    try:
        return _positions(kind)[member]
    except (KeyError, TypeError):
        raise ValueError(
            f"Expected a {kind.__name__}: {', '.join(kind)}; got {member!r}."
        ) from None
