"""What each rule of a recipe found, and why one that found nothing may never find anything.

A rule about a tool, an argument, a speaker or a column that does not occur in the rollouts is silent for ever: a typo
looks like good conduct. So what a rule asks about is compared with what the rollouts have.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, TypeAlias

from apportion.rewards import Path, Reward, Rule
from apportion.rewards.happened import Happened
from apportion.rewards.messages import messages_by_turn
from apportion.rewards.said import Said
from apportion.rewards.structured import ABSENT, Argument, Called, State, at_path, path_words
from apportion.rollouts import Action, Trajectory

__all__ = ["RuleUse", "RulesInUse"]

Keys: TypeAlias = tuple[str | int, ...]

# Rollouts are hostile: names that a policy makes up must not fill the memory.
_NAMES = 1000
_COUNTS = ("violations", "fulfilments", "abstentions")
_NOT_MET = ("arguments", "columns", "speakers")


@dataclass(slots=True, kw_only=True)
class RuleUse:
    """One rule over everything seen.

    Attributes:
        rule: its name.
        violations, fulfilments, abstentions: actions by what the rule said; an abstention is "cannot tell".
        never_met: what it asks about that does not occur, in words; why it may never apply.
    """

    rule: str
    violations: int = 0
    fulfilments: int = 0
    abstentions: int = 0
    never_met: tuple[str, ...] = ()


@dataclass(slots=True)
class _Watch:
    """The rule, what it found, and what it asks about that did not turn up yet."""

    rule: Rule
    use: RuleUse = field(init=False)
    tools: list[tuple[str, ...]] = field(default_factory=list)
    arguments: set[Keys] = field(default_factory=set)
    columns: set[Keys] = field(default_factory=set)
    speakers: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.use = RuleUse(rule=self.rule.name)
        for root in (self.rule.violates, self.rule.fulfils):
            for node in () if root is None else root.walk():
                if isinstance(node, Called) and node.names not in self.tools:
                    self.tools.append(node.names)
                elif isinstance(node, Argument):
                    self.arguments.add(_named(node.path))
                elif isinstance(node, Happened) and node.same is not None:
                    self.arguments.add(_named(node.same))
                elif isinstance(node, State):
                    self.columns.add(node.path)
                elif isinstance(node, Said):
                    self.speakers.add(node.who)

    def sees(self, action: Action) -> None:
        if self.arguments and any(action.name in names for names in self.tools or [(action.name or "",)]):
            self.arguments = {path for path in self.arguments if at_path(action.arguments, path) is ABSENT}


class RulesInUse:
    """Takes in chunk after chunk what the rules of a recipe find.

    Args:
        observers: of the recipe; the rules of every `path` among them, or inside one of them, are watched.
    """

    def __init__(self, observers: Sequence[Reward]) -> None:
        self._paths = [
            (path, {rule.name: _Watch(rule) for rule in path.rules}) for path in _each_once(_paths(observers))
        ]
        self._watched = [watch for _, watches in self._paths for watch in watches.values()]
        self._tools: dict[str, None] = {}

    def add(self, trajectories: Iterable[Trajectory]) -> None:
        """Judge these rollouts and note what occurs in them."""
        for trajectory in trajectories if self._watched else ():
            self._note(trajectory)
            for path, watches in self._paths:
                for finding in (finding for turn in path.findings(trajectory) for finding in turn):
                    use = watches[finding.rule].use
                    use.violations += finding.kind == "violation"
                    use.fulfilments += finding.kind == "fulfilment"
                    use.abstentions += finding.kind == "abstention"

    def summary(self) -> dict[str, Any]:
        """What was found and what was not met yet, as JSON has it."""
        return {
            "tools": list(self._tools),
            "rules": [
                {name: getattr(watch.use, name) for name in _COUNTS}
                | {name: sorted(getattr(watch, name), key=str) for name in _NOT_MET}
                for watch in self._watched
            ],
        }

    def include(self, summary: Mapping[str, Any]) -> None:
        """Take in what the rules of the same recipe found in other rollouts."""
        for tool in summary["tools"]:
            if len(self._tools) < _NAMES:
                self._tools.setdefault(tool)
        for watch, found in zip(self._watched, summary["rules"], strict=True):
            for name in _COUNTS:
                setattr(watch.use, name, getattr(watch.use, name) + found[name])
            for name in _NOT_MET:
                still = {tuple(one) if isinstance(one, (list, tuple)) else one for one in found[name]}
                setattr(watch, name, getattr(watch, name) & still)

    def uses(self) -> list[RuleUse]:
        """Every rule, in the order of the recipe."""
        return [dataclasses.replace(watch.use, never_met=tuple(self._absent(watch))) for watch in self._watched]

    def _note(self, trajectory: Trajectory) -> None:
        for turn in trajectory.turns:
            for action in turn.actions:
                if action.error is None and action.name is not None:
                    if len(self._tools) < _NAMES:
                        self._tools.setdefault(action.name[:200])
                    for watch in self._watched:
                        watch.sees(action)
            for watch in self._watched:
                if watch.columns:
                    watch.columns = {path for path in watch.columns if at_path(turn.columns, path) is ABSENT}
        listening = [watch for watch in self._watched if watch.speakers]
        if listening:
            roles = {message.role for messages in messages_by_turn(trajectory) for message in messages}
            for watch in listening:
                watch.speakers -= roles | ({"environment"} if roles - {"policy"} else set())

    def _absent(self, watch: _Watch) -> Iterator[str]:
        for names in watch.tools:
            if not any(name in self._tools for name in names):
                close = [near for name in names for near in get_close_matches(name, list(self._tools), n=1)]
                hint = f", but {close[0]!r} does" if close else ""
                yield f"tool {' or '.join(map(repr, names))} does not occur{hint}"
        for path in sorted(watch.arguments, key=str):
            yield f"argument {path_words(path)!r} occurs in no call of its tools"
        for path in sorted(watch.columns, key=str):
            yield f"no turn has the column {path_words(path)!r}"
        for who in sorted(watch.speakers):
            yield f"no message of the {who} was recorded"


def _named(path: Keys) -> Keys:
    """The path up to a place in a list, which may well be longer in other rollouts."""
    return tuple(itertools.takewhile(lambda key: isinstance(key, str), path)) or path


def _each_once(paths: Iterable[Path]) -> list[Path]:
    # A recipe may observe the value, the violations and the fulfilments of the same rules.
    found: dict[tuple[object, ...], Path] = {}
    for path in paths:
        found.setdefault((path.unexecuted, *map(id, path.rules)), path)
    return list(found.values())


def _paths(values: Iterable[object]) -> Iterator[Path]:
    for value in values:
        if isinstance(value, Path):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _paths(value)
        elif isinstance(value, Reward):
            yield from _paths(getattr(value, name) for name in getattr(value, "__dataclass_fields__", ()))
