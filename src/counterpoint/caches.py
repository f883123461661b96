"""What is kept from one call for the next: shared by threads, and left behind by pickles."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import fields
from threading import Lock
from typing import Any, TypeVar, final

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@final
class Memo(dict[K, V]):
    """Values by key; of more than ``size``, the oldest goes.

    Two threads may make the same value at once; both get the one that was first.
    """

    def __init__(self, size: int = 64) -> None:  # more than the targets of one program in turn
        super().__init__()
        self.size = size
        self._lock = Lock()

    def made(self, key: K, make: Callable[[], V]) -> V:
        """The value of a key, made now if it is not held."""
        held = self.get(key)
        if held is not None:
            return held
        made = make()  # may take long, and may ask for other keys: nobody waits for it
        with self._lock:
            value = self.setdefault(key, made)
            if len(self) > self.size:
                del self[next(iter(self))]
        return value


def fields_only(self: Any) -> dict[str, Any]:
    """The ``__getstate__`` of a dataclass whose cached properties are made again when needed."""
    return {field.name: getattr(self, field.name) for field in fields(self)}
