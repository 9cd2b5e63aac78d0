"""Scoring a stream of rollouts: observe, assign, and records of what came out, chunk by chunk.

A training step is one call of the recipe wherever its statistics or its state run over a step; elsewhere a call holds
as many whole groups of one step as a chunk brings.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from apportion._replacing import naming, replacing
from apportion.batch import Batch
from apportion.errors import InvalidArgument, ObserverFailing
from apportion.recipe import Recipe, State
from apportion.report.credit_record import Record, credit_records
from apportion.report.reasons import count_reason
from apportion.report.rule_use import RulesInUse
from apportion.report.totals import Totals
from apportion.rewards import observe
from apportion.rollouts import Trajectory
from apportion.verdicts import Failed

__all__ = ["CHUNK_BYTES", "Scoring", "read_state", "write_state"]

# A chunk is parsed as a whole; this much of it in the file takes several times as much in memory.
CHUNK_BYTES = 24 * 2**20
_FORMAT, _VERSION = "apportion-state", 1


class Scoring:
    """A recipe at work on one chunk after another.

    Args:
        recipe: observes and assigns.
        state: of the recipe, from an earlier run; default its initial one.
        failure_limit: the share of failed verdicts of one observer, over everything seen, above which to stop.

    Attributes:
        state: after the chunks so far.
        totals: over the chunks so far.
        rules: what the rules of the recipe found so far.
        failures: by observer, why verdicts failed, with counts.
    """

    def __init__(self, recipe: Recipe, *, state: State | None = None, failure_limit: float = 0.5) -> None:
        self.recipe = recipe
        self.state: State = dict(recipe.initial_state if state is None else state)
        self.totals = Totals()
        self.rules = RulesInUse(recipe.observers)
        self.failures: dict[str, dict[str, int]] = {}
        self._limit = failure_limit
        self._first_failure: dict[str, str] = {}

    @property
    def by_step(self) -> bool:
        """Chunks must hold whole training steps."""
        return self.recipe.scope == "batch" or bool(self.recipe.initial_state)

    def records(self, chunk: Sequence[Trajectory]) -> Iterator[Record]:
        """Score a chunk of whole groups (whole steps where `by_step`).

        Raises:
            InvalidArgument: token-exact and text-only rollouts together.
            MissingInput: the rollouts lack what the recipe needs.
        """
        steps: dict[int | None, list[Trajectory]] = {}
        for trajectory in chunk:
            steps.setdefault(trajectory.step, []).append(trajectory)
        for step, rows in steps.items():
            batch = Batch.pack(rows)
            # One chunk may well hold nothing but aborted rollouts; the limit is about all of them.
            verdicts = observe(self.recipe.observers, rows, failure_limit=1.0)
            self._note_failures(rows, verdicts)
            self.rules.add(rows)
            credit, self.state = self.recipe.assign(batch, verdicts, step=step, state=self.state)
            self.totals.add(credit)
            yield from credit_records(credit, rows, verdicts)

    def check(self, *, enough: int = 1) -> None:
        """Raise `ObserverFailing` when an observer failed on more than the limit, given `enough` verdicts so far."""
        limited = {o.name for o in self.recipe.observers if getattr(o, "role", "outcome") != "metric"}
        for name, seen in self.totals.rewards.items():
            total = seen.scored + seen.abstained + seen.failed
            if name in limited and total >= enough and seen.failed > self._limit * total:
                raise ObserverFailing(name, seen.failed, total, self._limit, self._first_failure[name])

    def summary(self) -> dict[str, Any]:
        """All that was found, as JSON has it.

        Raises:
            InvalidArgument: a state that JSON cannot hold.
        """
        return {
            "state": _plain_state(self.state),
            "totals": self.totals.summary(),
            "rules": self.rules.summary(),
            "failures": self.failures,
            "first_failure": self._first_failure,
        }

    def include(self, summary: Mapping[str, Any]) -> None:
        """Take in the summary of another scoring with the same recipe, of the rollouts that come next."""
        self.state = summary["state"]
        self.totals.include(summary["totals"])
        self.rules.include(summary["rules"])
        for name, reasons in summary["failures"].items():
            for reason, times in reasons.items():
                count_reason(self.failures.setdefault(name, {}), reason, times)
        self._first_failure = {**summary["first_failure"], **self._first_failure}

    def _note_failures(self, rows: Sequence[Trajectory], verdicts: Any) -> None:
        for name, entries in verdicts.items():
            for trajectory, entry in zip(rows, entries, strict=True):
                for cell in entry if isinstance(entry, list) else [entry]:
                    if isinstance(cell, Failed):
                        self._first_failure.setdefault(name, f"{trajectory.id!r}: {cell.error}")
                        count_reason(self.failures.setdefault(name, {}), cell.error)


def read_state(path: Path | None, recipe: Recipe) -> State | None:
    """The state in a file that `write_state` made; None without a file.

    Raises:
        InvalidArgument: not such a file, or one of another recipe.
    """
    if path is None or not path.exists():
        return None
    try:
        saved = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        saved = None
    whole = isinstance(saved, dict) and saved.keys() == {"format", "version", "recipe", "state"}
    if not whole or (saved["format"], saved["version"]) != (_FORMAT, _VERSION) or not isinstance(saved["state"], dict):
        raise InvalidArgument("state", str(path), "a file that `apportion score --state` wrote")
    if saved["recipe"] != recipe.name:
        raise InvalidArgument("state", str(path), f"the state of {recipe.name!r}; this one is of {saved['recipe']!r}")
    state: State = saved["state"]
    return state


def write_state(path: Path, recipe: Recipe, state: State) -> None:
    """Save a recipe's state; the file is replaced only when the new one is complete.

    Raises:
        InvalidArgument: a state that JSON cannot hold.
    """
    saved = {"format": _FORMAT, "version": _VERSION, "recipe": recipe.name, "state": _plain_state(state)}
    with replacing(path) as part, naming(path):
        part.write_text(json.dumps(saved, allow_nan=False) + "\n", encoding="utf-8")


def _plain_state(state: State) -> dict[str, Any]:
    """The state as JSON has it."""
    expected = "finite numbers, texts, lists and mappings with text keys, so that resuming gives identical credit"
    try:
        plain: dict[str, Any] = json.loads(json.dumps(dict(state), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise InvalidArgument("state", state, f"{expected} ({error})") from error
    if plain != dict(state):
        raise InvalidArgument("state", state, expected)
    return plain
