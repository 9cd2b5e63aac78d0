"""The notebook task: the largest of a column of numbers, seen through a small window.

    rows=7 | 17 4 33          prompt: how many rows there are, and the first ones
    scroll +3 -> 9 41 2       every answer is the window, END below the last row
    submit 41                 reward 1 when it is the largest number of all rows

A weak policy submits the largest number it has seen so far. Only one that always reaches the last row solves the task,
so the outcome alone teaches to look at everything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from apportion.environments.task import Effect
from apportion.environments.vocabulary import Vocabulary
from apportion.errors import InvalidArgument
from apportion.rollouts import Action

__all__ = ["Notebook", "NotebookState"]

SCROLLS = ("+1", "+2", "+3")
END = "END"


@dataclass(frozen=True, slots=True)
class NotebookState:
    """Where an episode stands.

    Attributes:
        numbers: all rows.
        offset: the first row in the window.
        seen: rows from the top that have been in the window or above it.
        notes: numbers noted, in order.
    """

    numbers: tuple[int, ...]
    offset: int = 0
    seen: int = 0
    notes: tuple[int, ...] = ()

    @property
    def last_row_seen(self) -> bool:
        """The window has reached the last row."""
        return self.seen >= len(self.numbers)


@dataclass(frozen=True)
class Notebook:
    """Commands `scroll +1|+2|+3`, `note NUMBER` and `submit NUMBER`; the window answers each.

    Attributes:
        values: numbers are drawn from 0..values-1 without replacement.
        rows: fewest and most rows, both possible.
        window: rows that are visible at once.
        max_turns: turn limit.

    Raises:
        InvalidArgument: sizes that leave no task (every offender is listed).
    """

    values: int = 50
    rows: tuple[int, int] = (6, 12)
    window: int = 3
    max_turns: int = 8
    name: str = "notebook"

    def __post_init__(self) -> None:
        low, high = self.rows
        if not (1 <= self.window < low <= high <= self.values) or self.max_turns < 1:
            raise InvalidArgument(
                "rows",
                {"window": self.window, "rows": self.rows, "values": self.values, "max_turns": self.max_turns},
                "1 <= window < fewest rows <= most rows <= values, and at least one turn",
            )

    @property
    def prompt_length(self) -> int:
        """The number of rows and the first window."""
        return 1 + self.window

    @property
    def observation_length(self) -> int:
        """One window."""
        return self.window

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The words of prompts, moves and windows."""
        sizes = (f"rows={n}" for n in range(self.rows[0], self.rows[1] + 1))
        answers = (END, "accepted", "rejected", "malformed")
        return Vocabulary((*answers, "scroll", "note", "submit", *SCROLLS, *sizes, *map(str, range(self.values))))

    def start(self, seed: int) -> tuple[NotebookState, tuple[str, ...]]:
        """First state and prompt."""
        rng = np.random.default_rng(seed)
        size = int(rng.integers(self.rows[0], self.rows[1] + 1))
        numbers = tuple(int(x) for x in rng.choice(self.values, size=size, replace=False))
        state = NotebookState(numbers, seen=self.window)
        return state, (f"rows={size}", *self._window(state))

    def read(self, command: str, argument: str) -> Action:
        """A move as an action; a wrong pair of words carries an error."""
        raw = f"{command} {argument}"
        if command == "scroll" and argument in SCROLLS:
            return Action(name=command, arguments={"rows": int(argument)}, raw=raw, syntax="words")
        if command in ("note", "submit") and argument.isdecimal():
            return Action(name=command, arguments={"number": int(argument)}, raw=raw, syntax="words")
        return Action(name=None, raw=raw, syntax="words", error=f"{raw!r} is not a command with its argument")

    def apply(self, state: NotebookState, action: Action) -> Effect[NotebookState]:
        """What the action does."""
        rows, number = action.arguments.get("rows"), action.arguments.get("number")
        match action.name:
            case "scroll" if rows in (1, 2, 3):
                return self._scroll(state, rows)
            case "note" if number is not None:
                noted = replace(state, notes=(*state.notes, number))
                return Effect(noted, self._window(noted))
            case "submit" if number is not None:
                right = number == max(state.numbers)
                broke = () if state.last_row_seen else ("submitted without having seen the last row",)
                word = "accepted" if right else "rejected"
                return Effect(state, (word,) * self.window, violations=broke, reward=float(right))
        return Effect(state, ("malformed",) * self.window)

    def facts(self, state: NotebookState) -> Mapping[str, Any]:
        """What rules may ask: how many rows there are and have been seen, and the notes."""
        return {
            "rows": len(state.numbers),
            "seen": state.seen,
            "last_row_seen": state.last_row_seen,
            "notes": list(state.notes),
        }

    def demonstrate(self, seed: int, rng: np.random.Generator) -> Sequence[tuple[str, str]]:
        """A weak agent: it stops early with probability 0.3 per window, then submits any number seen with 0.3."""
        state = self.start(seed)[0]
        moves: list[tuple[str, str]] = []
        while len(moves) < self.max_turns - 1 and not state.last_row_seen and rng.random() >= 0.3:
            visible = state.numbers[: state.seen]
            if rng.random() < 0.15:
                moves.append(("note", str(max(visible))))
                continue
            rows = min(self.window, 3) if rng.random() < 0.8 else int(rng.choice([1, 3]))
            state = self._scroll(state, rows).state
            moves.append(("scroll", f"+{rows}"))
        visible = state.numbers[: state.seen]
        answer = int(rng.choice(visible)) if rng.random() < 0.3 else max(visible)
        return [*moves, ("submit", str(answer))]

    def _scroll(self, state: NotebookState, rows: int) -> Effect[NotebookState]:
        offset = min(state.offset + rows, len(state.numbers) - 1)
        seen = min(max(state.seen, offset + self.window), len(state.numbers))
        moved = replace(state, offset=offset, seen=seen)
        arrived = moved.last_row_seen and not state.last_row_seen
        return Effect(moved, self._window(moved), fulfilments=("reached the last row",) if arrived else ())

    def _window(self, state: NotebookState) -> tuple[str, ...]:
        visible = state.numbers[state.offset : state.offset + self.window]
        return (*map(str, visible), *([END] * (self.window - len(visible))))
