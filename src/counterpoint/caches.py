"""What is kept from one call for the next: shared by threads, and left behind by pickles."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import fields
from threading import Lock
from typing import Any, Generic, TypeVar, final

__all__ = ["Memo", "fields_only"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@final
class Memo(Generic[K, V]):
    """Values by key, of which the oldest goes where there are too many.

    Two threads may make the same value at once; both get the one that was first.

    Parameters
    ----------
    size
        How many values are held: more than the targets that one program asks about in turn.
    """

    def __init__(self, size: int = 64) -> None:
        self.size = size
        self._held: dict[K, V] = {}
        self._lock = Lock()

    def get(self, key: K, make: Callable[[], V]) -> V:
        """The value of a key, made now if it is not held."""
        held = self._held.get(key)
        if held is not None:
            return held
        made = make()  # may take long, and may ask for other keys: nobody waits for it
        with self._lock:
            value = self._held.setdefault(key, made)
            if len(self._held) > self.size:
                del self._held[next(iter(self._held))]
        return value


def fields_only(self: Any) -> dict[str, Any]:
    """The ``__getstate__`` of a dataclass whose cached properties are made again when needed."""
    return {field.name: getattr(self, field.name) for field in fields(self)}
