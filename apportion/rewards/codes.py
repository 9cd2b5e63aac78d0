"""Codes: numbers that name texts, for labels. Equal texts, equal numbers; nothing else about them means anything.

A code is a hash of 52 bits, so that a float64 holds it exactly: the same everywhere, in every process and run. Among
100,000 texts there is a chance of one in a million that two of them share one.
"""

from __future__ import annotations

import hashlib

__all__ = ["Digest", "code_of"]


def code_of(*parts: str) -> int:
    """A whole number below 2^52 that names these texts.

    Example:
        >>> code_of("q", "r0") == code_of("q", "r0"), code_of("q", "r0") == code_of("qr", "0")
        (True, False)
    """
    digest = Digest()
    for part in parts:
        digest.add(part.encode("utf-8", "surrogatepass"))
    return digest.code


class Digest:
    """A code of parts that are told apart by their lengths, as it grows."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=8)

    def add(self, part: bytes) -> None:
        """One more part."""
        self._hash.update(len(part).to_bytes(8, "little") + part)

    def extend(self, part: bytes) -> None:
        """More of the same part: where the stretches are cut does not matter."""
        self._hash.update(part)

    @property
    def code(self) -> int:
        """Of what was added so far."""
        return int.from_bytes(self._hash.digest(), "little") >> 12
