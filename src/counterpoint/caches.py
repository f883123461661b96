"""Keep values from one call for the next: shared by threads, and left out of pickles."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import fields
from threading import Lock
from typing import Any, TypeVar, final

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@final
class Memo(dict[K, V]):
    """A dict that makes missing values itself and holds at most ``size``: the oldest goes first.

    Two threads may make the same value at once; both get the one that was ready first.
    """

    def __init__(self, size: int = 64) -> None:  # more than the targets of one program in turn
        super().__init__()
        self.size = size
        self._lock = Lock()

    def made(self, key: K, make: Callable[[], V]) -> V:
        """Return the value of a key; ``make`` it if there is none."""
        value = self.get(key)
        if value is not None:
            return value
        new_value = make()  # outside of the lock: it may take long, and ask for other keys
        with self._lock:
            value = self.setdefault(key, new_value)
            if len(self) > self.size:
                del self[next(iter(self))]
        return value


def fields_only(self: Any) -> dict[str, Any]:
    """Return the ``__getstate__`` of a dataclass without its cached properties."""
    return {field.name: getattr(self, field.name) for field in fields(self)}
