"""A closed vocabulary of whole words: token id = index of the word."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from apportion.errors import InvalidArgument

__all__ = ["Vocabulary"]


@dataclass(frozen=True)
class Vocabulary:
    """Words and their ids, defined in code; nothing is ever split or merged.

    Attributes:
        words: the id of a word is its position.

    Raises:
        InvalidArgument: words that occur twice or hold white space (all are listed), or none at all.

    Example:
        >>> v = Vocabulary(("cat", "a.py"))
        >>> v.encode("cat a.py"), v.decode([1, 0]), len(v)
        ((0, 1), 'a.py cat', 2)
    """

    words: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.words:
            raise InvalidArgument("words", self.words, "at least one word")
        bad = sorted({word for word in self.words if self.words.count(word) > 1 or word.split() != [word]})
        if bad:
            raise InvalidArgument("words", bad, "different words without white space")

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.words)}

    def ids(self, words: Iterable[str]) -> tuple[int, ...]:
        """Token ids of words.

        Raises:
            InvalidArgument: unknown words (all are listed).
        """
        listed = tuple(words)
        unknown = sorted({word for word in listed if word not in self._ids})
        if unknown:
            raise InvalidArgument("words", unknown, f"words of this vocabulary ({', '.join(self.words[:20])}, ...)")
        return tuple(self._ids[word] for word in listed)

    def lookup(self, ids: Sequence[int]) -> tuple[str, ...]:
        """Words of token ids.

        Raises:
            InvalidArgument: ids outside the vocabulary (all are listed).
        """
        unknown = sorted({int(i) for i in ids if not 0 <= i < len(self.words)})
        if unknown:
            raise InvalidArgument("ids", unknown, f"token ids from 0 to {len(self.words) - 1}")
        return tuple(self.words[i] for i in ids)

    def encode(self, text: str) -> tuple[int, ...]:
        """Token ids of words separated by white space."""
        return self.ids(text.split())

    def decode(self, ids: Sequence[int]) -> str:
        """Words with spaces between them, for people to read."""
        return " ".join(self.lookup(ids))
