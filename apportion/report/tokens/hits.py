"""One place at which a check found something, and how many of them there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from apportion.report.findings import Place
from apportion.report.tokens.tokenizer import ChatTokenizer, decode

__all__ = ["Hit", "Tally", "shown"]

_EXAMPLES = 3
_BEFORE, _AFTER, _TEXT = 3, 3, 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """Something that a check found.

    Attributes:
        code: which finding it belongs to.
        turn: the reply it concerns; None for the prompt or the row as a whole.
        index: where, counted over prompt and response together; None when it has no place.
        recorded: the tokens there, readable.
        instead: what a second rendering or encoding has, readable; "" when there is nothing to compare.
        tokens: how many tokens it concerns.
    """

    code: str
    turn: int | None = None
    index: int | None = None
    recorded: str = ""
    instead: str = ""
    tokens: int = 0


@dataclass(eq=False)
class Tally:
    """Counts the hits of one code; keeps the first few."""

    replies: int = 0
    rollouts: int = 0
    tokens: int = 0
    places: list[Place] = field(default_factory=list)
    _last: tuple[int, int | None] = (-1, None)

    def add(self, row: int, trajectory: str, hit: Hit) -> None:
        """Count a hit in rollout number `row`; hits come in the order of rows and turns."""
        if self._last[0] != row:
            self.rollouts += 1
        if hit.turn is not None and self._last != (row, hit.turn):
            self.replies += 1
        self._last = (row, hit.turn)
        self.tokens += hit.tokens
        if len(self.places) < _EXAMPLES:
            self.places.append(
                Place(
                    trajectory=trajectory,
                    turn=hit.turn,
                    index=hit.index,
                    recorded=hit.recorded,
                    instead=hit.instead,
                )
            )


def shown(tokenizer: ChatTokenizer | None, ids: Sequence[int], at: int) -> str:
    """The tokens around an index: ids, and texts with everything escaped that is not printable.

    Example:
        >>> shown(None, [5, 6, 271, 40, 99], 2)
        '5 6 >271< 40 99'
    """
    first = max(at - _BEFORE, 0)
    words = [_word(tokenizer, token) for token in ids[first : at + _AFTER + 1]]
    if not len(ids):
        return "(nothing)"
    if at >= len(ids):
        return " ".join([*words, ">end<"])
    words[at - first] = f">{words[at - first]}<"
    return " ".join(words)


def _word(tokenizer: ChatTokenizer | None, token: int) -> str:
    if tokenizer is None:
        return str(token)
    # The text was chosen by a policy or a tool: repr sends no control characters and no overrides of direction.
    text = repr(decode(tokenizer, [token]))
    return f"{token}:{text if len(text) <= _TEXT else text[: _TEXT - 1] + '…'}"
