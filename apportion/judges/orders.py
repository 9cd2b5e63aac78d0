"""In which order candidates are shown, how that is undone, and how much the order mattered."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

__all__ = [
    "Settled",
    "Winner",
    "agreement",
    "consistency",
    "label_of",
    "order_of",
    "settle_pair",
    "swapped",
    "unshuffled",
]

T = TypeVar("T")
Winner: TypeAlias = Literal["A", "B", "tie"]

_WINNERS: Mapping[str, Winner] = {"a": "A", "b": "B", "tie": "tie", "tied": "tie", "draw": "tie", "equal": "tie"}
_SWAPPED: Mapping[Winner, Winner] = {"A": "B", "B": "A", "tie": "tie"}


def label_of(place: int) -> str:
    """The name of a candidate in a prompt: A, B, ..., Z, AA, AB, ...

    Example:
        >>> [label_of(i) for i in (0, 25, 26)]
        ['A', 'Z', 'AA']
    """
    name = ""
    place += 1
    while place:
        place, rest = divmod(place - 1, 26)
        name = chr(ord("A") + rest) + name
    return name


def order_of(count: int, *, seed: str, sample: int) -> list[int]:
    """Which candidate stands at each place: a shuffle fixed by the seed; sample 1 is sample 0 reversed, and so on.

    Pairs of opposite orders cancel a linear preference for early or late places exactly.

    Args:
        count: how many candidates.
        seed: any text, such as the names of the candidates.
        sample: number of the sample.

    Example:
        >>> first, second = order_of(4, seed="q", sample=0), order_of(4, seed="q", sample=1)
        >>> sorted(first), first == second[::-1]
        ([0, 1, 2, 3], True)
    """
    pair, reverse = divmod(sample, 2)

    def key(candidate: int) -> bytes:
        return hashlib.sha256(f"{pair}\0{candidate}\0{seed}".encode("utf-8", "backslashreplace")).digest()

    order = sorted(range(count), key=key)
    return order[::-1] if reverse else order


def unshuffled(order: Sequence[int], values: Sequence[T]) -> list[T]:
    """Values by place as values by candidate.

    Example:
        >>> unshuffled([2, 0, 1], ["third", "first", "second"])
        ['first', 'second', 'third']
    """
    found = dict(zip(order, values, strict=True))
    return [found[candidate] for candidate in range(len(order))]


def swapped(winner: object) -> Winner | None:
    """A pairwise verdict after the candidates changed places; None when it is no verdict. Never an exception.

    Example:
        >>> [swapped(one) for one in ("A", "tie", "TIE", None, "neither")]
        ['B', 'tie', 'tie', None, None]
    """
    known = _WINNERS.get(winner.strip().casefold()) if isinstance(winner, str) else None
    return _SWAPPED[known] if known else None


@dataclass(frozen=True, slots=True)
class Settled:
    """What two orders of one pair say together.

    Attributes:
        winner: "A", "B" or "tie"; None when either order has no verdict.
        consistent: whether both orders say the same; None when either has no verdict.
    """

    winner: Winner | None
    consistent: bool | None


def settle_pair(first: object, second: object) -> Settled:
    """One verdict of two: A shown first, then B shown first, each naming the winner by its candidate.

    Args:
        first: "A", "B" or "tie" of the order A, B.
        second: the same of the order B, A, already brought back with `swapped` where it named a place.

    Returns:
        The winner that both name; different ones are an inconsistent tie, also where one of them is a tie.

    Example:
        >>> settle_pair("A", "B"), settle_pair("A", "A").winner, settle_pair("tie", "A")
        (Settled(winner='tie', consistent=False), 'A', Settled(winner='tie', consistent=False))
        >>> settle_pair("A", None)
        Settled(winner=None, consistent=None)
    """
    one, other = swapped(swapped(first)), swapped(swapped(second))
    if one is None or other is None:
        return Settled(None, None)
    return Settled(one, True) if one == other else Settled("tie", False)


def consistency(pairs: Sequence[Settled]) -> float | None:
    """Share of the pairs judged in both orders that both orders agree on; None without any.

    Example:
        >>> consistency([settle_pair("A", "B"), settle_pair("A", "A"), settle_pair("A", None)])
        0.5
    """
    known = [pair.consistent for pair in pairs if pair.consistent is not None]
    return sum(known) / len(known) if known else None


def agreement(samples: Sequence[Sequence[float]]) -> float | None:
    """How alike several samples rank the same candidates, in [-1, 1]; None when nothing can be compared.

        mean over pairs of samples and pairs of candidates that both tell apart of +1 (same order) or -1

    Args:
        samples: values by candidate, un-shuffled, one list per sample.

    Degenerate cases: candidates that a sample scores alike say nothing; with none left it is None.

    Example:
        >>> agreement([[1, 2, 3], [4, 5, 9]]), agreement([[1, 2], [2, 1]]), agreement([[1, 1]])
        (1.0, -1.0, None)
    """
    signs = [
        (one[i] - one[j]) * (other[i] - other[j]) > 0
        for one, other in itertools.combinations(samples, 2)
        for i, j in itertools.combinations(range(len(one)), 2)
        if one[i] != one[j] and other[i] != other[j]
    ]
    return 2 * sum(signs) / len(signs) - 1 if signs else None
