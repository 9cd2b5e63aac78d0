"""Equal requests wait for each other, so that one call answers them all."""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary

__all__ = ["Once"]


class Once:
    """One lock per digest that somebody is asking about; it goes when nobody holds it.

    Example:
        >>> turns = Once()
        >>> first = turns.of("a digest")
        >>> turns.of("a digest") is first
        True
    """

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, digest: str) -> asyncio.Lock:
        """The lock of a digest."""
        lock = self._locks.get(digest)
        if lock is None:
            self._locks[digest] = lock = asyncio.Lock()
        return lock
