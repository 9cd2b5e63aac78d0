"""What an environment recorded about its calls, joined to the turns that made them.

    turns     cat, edit   | (an answer) | rm (its result was too long: rolled back)
    records   cat, edit   |             | rm

Records come one per call that *arrived*, and calls are lost on the way: an unknown tool or a wrong argument never
arrives, a result that is too long is taken out of the messages although the tool has run, and async tools run after the
sync ones of their message. So records are matched by name and arguments where the environment keeps them, by count
otherwise; where more than one reading is possible nothing is joined.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from apportion.errors import InvalidArgument
from apportion.rollouts import Action, Turn

__all__ = ["Recorded", "by_call", "by_turn", "recorded_by"]

Message: TypeAlias = Mapping[str, Any]

# How TRL answers a call whose tool is unknown or has raised.
_ERROR = "{'error':"


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """Records of one rollout, in the order in which the calls arrived.

    Attributes:
        rewards: the environment's own reward of each call; None where it gave none.
        columns: facts about each call.
        calls: each call's name, or its name and arguments; None when the environment does not keep them.
        defaults: the columns of a turn in which no call arrived.

    Raises:
        InvalidArgument: lists of different lengths.
    """

    rewards: Sequence[float | None] | None = None
    columns: Sequence[Mapping[str, Any]] | None = None
    calls: Sequence[Any] | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        given = {"rewards": self.rewards, "turn_columns": self.columns, "calls": self.calls}
        sizes = {name: len(value) for name, value in given.items() if value is not None}
        if len(set(sizes.values())) > 1:
            raise InvalidArgument("environment", sizes, "one entry per call that arrives, in each of these lists")

    def __len__(self) -> int:
        return max((len(v) for v in (self.rewards, self.columns, self.calls) if v is not None), default=0)


def recorded_by(environment: object) -> Recorded | None:
    """What an environment's `rewards`, `turn_columns`, `calls` and `turn_defaults` hold; None when it has no list.

    Example:
        >>> class Shop:
        ...     rewards = [0.5, None]
        >>> recorded_by(Shop()).rewards, recorded_by(object())
        ([0.5, None], None)
    """
    rewards, columns, calls = (_listed(environment, name) for name in ("rewards", "turn_columns", "calls"))
    if rewards is None and columns is None:
        return None
    defaults = getattr(environment, "turn_defaults", None)
    return Recorded(
        rewards=rewards,
        columns=columns,
        calls=calls,
        defaults=defaults if isinstance(defaults, Mapping) else {},
    )


def by_turn(turns: Sequence[Turn], recorded: Recorded) -> list[Turn]:
    """Turns with one record each, as a `rollout_func` gives them.

    Raises:
        InvalidArgument: a number of records that is not the number of turns.
    """
    if len(recorded) != len(turns):
        raise InvalidArgument(
            "turn_columns",
            f"{len(recorded)} records",
            f"one entry per turn in turn_columns and turn_rewards; env_mask has {len(turns)} runs of ones",
        )
    return _with(turns, recorded, [1] * len(turns))


def by_call(
    turns: Sequence[Turn], messages: Sequence[Message], recorded: Recorded, *, last_ran: bool
) -> list[Turn] | None:
    """Turns with the records of their calls; None when they cannot be told apart.

    Args:
        turns: one per assistant message.
        messages: assistant and tool messages.
        recorded: one record per call that arrived.
        last_ran: the calls of a last message without answers were run (and their results rolled back).
    """
    answers = _answers(messages)
    if len(answers) != len(turns):
        return None
    lows = [sum(not failed for _, failed in given) for given in answers]
    highs = [len(given) for given in answers]
    if turns and not answers[-1] and last_ran:
        highs[-1] = len(turns[-1].actions)
    split = _only_split(lows, highs, len(recorded), _Fits(turns, answers, recorded.calls))
    return None if split is None else _with(turns, recorded, split)


def _answers(messages: Sequence[Message]) -> list[list[tuple[str, bool]]]:
    """For each assistant message the tool results that follow it: the tool's name, and whether it failed."""
    answers: list[list[tuple[str, bool]]] = []
    for message in messages:
        if message.get("role") == "assistant":
            answers.append([])
        elif message.get("role") == "tool" and answers:
            failed = str(message.get("content")).startswith(_ERROR)
            answers[-1].append((str(message.get("name")), failed))
    return answers


@dataclass(frozen=True)
class _Fits:
    """Whether `count` records from `first` on can be the calls of a turn."""

    turns: Sequence[Turn]
    answers: Sequence[Sequence[tuple[str, bool]]]
    calls: Sequence[Any] | None

    def __call__(self, turn: int, first: int, count: int) -> bool:
        if self.calls is None:
            return True
        arrived = self.calls[first : first + count]
        by_name = all(isinstance(call, str) for call in arrived)
        written = Counter(_key(action, by_name=by_name) for action in self.turns[turn].actions)
        if not Counter(_key(call, by_name=by_name) for call in arrived) <= written:
            return False
        worked = Counter(name for name, failed in self.answers[turn] if not failed)
        return worked <= Counter(_key(call, by_name=True) for call in arrived)


def _key(call: Any, *, by_name: bool) -> str:
    name, arguments = (call.name, call.arguments) if isinstance(call, Action) else (call, None)
    if isinstance(call, (tuple, list)):
        name, arguments = call
    return str(name) if by_name else f"{name} {json.dumps(arguments, sort_keys=True, default=str)}"


def _only_split(lows: Sequence[int], highs: Sequence[int], total: int, fits: _Fits) -> list[int] | None:
    """How many of the records belong to each turn, when there is exactly one way; between its low and its high."""
    # ways[k][p]: ways to give the records from p on to the turns from k on.
    ways = [[0] * (total + 1) for _ in range(len(lows) + 1)]
    ways[-1][total] = 1

    def shares(k: int, p: int) -> list[int]:
        return [
            count
            for count in range(lows[k], min(highs[k], total - p) + 1)
            if ways[k + 1][p + count] and fits(k, p, count)
        ]

    for k in reversed(range(len(lows))):
        ways[k] = [sum(ways[k + 1][p + count] for count in shares(k, p)) for p in range(total + 1)]
    if ways[0][0] != 1:
        return None
    split, p = [], 0
    for k in range(len(lows)):
        (count,) = shares(k, p)
        split.append(count)
        p += count
    return split


def _with(turns: Sequence[Turn], recorded: Recorded, split: Sequence[int]) -> list[Turn]:
    result, first = [], 0
    for turn, count in zip(turns, split, strict=True):
        last = first + count
        paid = [] if recorded.rewards is None else [float(r) for r in recorded.rewards[first:last] if r is not None]
        facts = [] if recorded.columns is None else list(recorded.columns[first:last])
        columns = _merged([dict(turn.columns), *facts]) if count else {**recorded.defaults, **turn.columns}
        result.append(replace(turn, reward=sum(paid) if paid else turn.reward, columns=columns))
        first = last
    return result


def _merged(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Numbers add up over the calls of a turn; of anything else the last one stays."""
    merged: dict[str, Any] = {}
    for name, value in (item for record in records for item in record.items()):
        both = isinstance(value, (int, float)) and isinstance(merged.get(name), (int, float))
        merged[name] = merged[name] + value if both else value
    return merged


def _listed(owner: object, name: str) -> list[Any] | None:
    found = getattr(owner, name, None)
    return list(found) if isinstance(found, (list, tuple)) else None
