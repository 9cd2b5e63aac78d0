"""Branches as their producer recorded them: which rollout each one copied its beginning from, and how much of it.

column           on                  meaning
parent           a branch            id of the rollout that it copied; null (or no such column) where it copied nothing
branch_offset    a branch            response tokens copied, observations included
branch_turn      a branch            turns copied, instead of the above; the only one for text-only rollouts
tree             any rollout         name of its tree, where that is not the rollout at the end of its parents

A claim is not believed: what was copied must be equal, token by token, and must not be marked as the branch's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from apportion.errors import InvalidArgument, MissingInput
from apportion.rewards import _arguments
from apportion.rewards.base import Composable, Observation, Role
from apportion.rewards.codes import code_of
from apportion.rewards.prefixes import common_prefix, same_prompt
from apportion.rollouts import Level, Trajectory
from apportion.verdicts import Abstained, Scored, Verdict

__all__ = ["branch_rewards", "tree_key"]

Part: TypeAlias = Literal["rollout", "parent", "copied"]
_RECORD = (
    "record for every branch parent (the id of the rollout that it copied its beginning from; null where it copied "
    "nothing) and branch_offset (response tokens copied) or branch_turn (turns copied), own=False on what was copied"
)


@dataclass(frozen=True)
class Branches(Composable):
    """See `branch_rewards`."""

    part: Part
    parent: str
    offset: str
    turn: str
    name: str
    level: Level = field(default=Level.TRAJECTORY, init=False)

    @property
    def role(self) -> Role:
        """How much was copied is a number, what was copied a label."""
        return "shaping" if self.part == "copied" else "label"

    def __post_init__(self) -> None:
        for argument in ("parent", "offset", "turn", "name"):
            _arguments.text(argument, getattr(self, argument))

    def observe(self, trajectories: Sequence[Trajectory]) -> Observation:
        """One number per trajectory."""
        if self.part == "rollout":
            return [Scored(code_of(t.group, t.id), t.id) for t in trajectories]
        parents = _parents(f"observer {self.name!r}", self.parent, trajectories)
        if self.part == "parent":
            return [
                Abstained("not branched off another rollout")
                if parent is None
                else Scored(code_of(t.group, parent), parent)
                for t, parent in zip(trajectories, parents, strict=True)
            ]
        return self._copied(trajectories, parents)

    def _copied(self, trajectories: Sequence[Trajectory], parents: Sequence[str | None]) -> list[Verdict]:
        by_id = {t.id: t for t in trajectories}
        found: list[Verdict] = []
        wrong: list[str] = []
        for t, parent in zip(trajectories, parents, strict=True):
            source = None if parent is None else by_id.get(parent)
            if parent is None or t.status == "aborted":
                found.append(Abstained("not branched off another rollout" if parent is None else "aborted"))
            elif source is None:
                wrong.append(f"{t.id}: no rollout {parent!r} here")
            else:
                amount, turns = self._amount(t)
                problem = _problem(t, source, amount)
                wrong += [f"{t.id}: {problem}"] if problem else []
                written = amount if t.policy is None else int(t.policy[:amount].sum())
                found.append(Scored(float(written), f"{turns or amount} of {parent}"))
        if wrong:
            expected = f"parents whose beginning a branch repeats, and does not own ({len(wrong)} are wrong)"
            raise InvalidArgument(self.parent, wrong[:10], expected)
        return found

    def _amount(self, t: Trajectory) -> tuple[int, str]:
        """How much was copied, in response tokens or in turns of a text-only rollout; and how to say it."""
        turns, tokens = t.columns.get(self.turn), t.columns.get(self.offset)
        if turns is None and (tokens is None or not t.has_tokens):
            column = f"{self.offset!r} or {self.turn!r}" if t.has_tokens else f"{self.turn!r}"
            raise MissingInput(f"observer {self.name!r}", f"a trajectory column {column}", _RECORD, [t.id])
        if t.response_ids is None or tokens is None:
            count = _whole(self.turn, turns, t, t.n_turns)
            if t.response_ids is None or not count:
                return count, f"{count} turns"
            layout = t.layout()
            strides = (layout.turn_lengths + layout.gap_lengths)[:count]
            return layout.lead + int(strides.sum()), f"{count} turns"
        return _whole(self.offset, tokens, t, t.response_ids.size), ""


def branch_rewards(
    *, parent: str = "parent", offset: str = "branch_offset", turn: str = "branch_turn"
) -> tuple[Composable, Composable, Composable]:
    """What rollouts copied from each other, as `apportion.advantages.branches.branch_tree` reads it.

    Args:
        parent: trajectory column with the id of the rollout that was copied.
        offset: trajectory column with the number of response tokens copied.
        turn: trajectory column with the number of turns copied.

    Returns:
        Three TRAJECTORY rewards: the labels "rollout" and "parent" (whole numbers below 2^52 that stand for ids; a
        rollout that copied nothing abstains), and "copied" of role "shaping" (policy tokens; turns where there are no
        tokens). Whole groups must be observed together: a claim cannot be checked without the rollout that it is about.

    Raises:
        MissingInput: when observing, no trajectory has the column `parent`, or a branch lacks both amounts.
        InvalidArgument: when observing, a parent that is not among the rollouts or differs in what was copied (with the
            first place that does), or copied tokens that are marked as the branch's own; all are listed.

    Example:
        >>> root = Trajectory(id="a", group="q", response_ids=[1, 2, 3])
        >>> columns = {"parent": "a", "branch_offset": 2}
        >>> branch = Trajectory(id="b", group="q", response_ids=[1, 2, 4], own=[0, 0, 1], columns=columns)
        >>> rollout, parent, copied = branch_rewards()
        >>> copied.observe([root, branch])
        [Abstained(reason='not branched off another rollout'), Scored(value=2.0, evidence='2 of a')]
        >>> parent.observe([root, branch])[1].value == rollout.observe([root, branch])[0].value
        True
    """
    made = [Branches(part, parent, offset, turn, part) for part in ("rollout", "parent", "copied")]
    return made[0], made[1], made[2]


@dataclass(frozen=True)
class TreeKey(Composable):
    """See `tree_key`."""

    _role: ClassVar[Role] = "label"
    tree: str
    parent: str
    name: str
    level: Level = field(default=Level.TRAJECTORY, init=False)

    def __post_init__(self) -> None:
        for argument in ("tree", "parent", "name"):
            _arguments.text(argument, getattr(self, argument))

    def observe(self, trajectories: Sequence[Trajectory]) -> Observation:
        """One number per trajectory."""
        if trajectories and not any({self.tree, self.parent} & set(t.columns) for t in trajectories):
            raise MissingInput(
                f"observer {self.name!r}",
                f"a trajectory column {self.tree!r} or {self.parent!r}",
                "record the name of the tree that each rollout belongs to, or the id of the rollout that it copied its "
                "beginning from",
            )
        ids = {t.id: str(t.columns[self.parent]) for t in trajectories if t.columns.get(self.parent) is not None}
        names = {t.id: str(t.columns[self.tree]) for t in trajectories if t.columns.get(self.tree) is not None}
        return [self._key(t, ids, names) for t in trajectories]

    def _key(self, t: Trajectory, parents: Mapping[str, str], names: Mapping[str, str]) -> Verdict:
        at, seen = t.id, {t.id}
        while at not in names and at in parents:
            at = parents[at]
            if at in seen:
                raise InvalidArgument(self.parent, sorted(seen)[:10], "parents that do not go in a circle")
            seen.add(at)
        kind, name = ("tree", names[at]) if at in names else ("rollout", at)
        return Scored(code_of(t.group, kind, name), f"{kind} {name}")


def tree_key(*, tree: str = "tree", parent: str = "parent", name: str = "tree") -> TreeKey:
    """Which tree of its group a rollout belongs to: the recorded name, else the rollout that its parents lead back to.

    Args:
        tree: trajectory column with a name, unique in the group.
        parent: trajectory column with the id of the rollout that was copied, see `branch_rewards`.
        name: what the verdicts are called.

    Returns:
        A TRAJECTORY reward of role "label": whole numbers below 2^52, equal in one tree, to be used as a key.

    Raises:
        MissingInput: when observing, no trajectory has either column.
        InvalidArgument: when observing, parents in a circle.

    Example:
        >>> parents = {"a": None, "b": "a", "c": None}
        >>> rows = [Trajectory(id=i, group="q", columns={"parent": p}) for i, p in parents.items()]
        >>> [v.evidence for v in tree_key().observe(rows)]
        ['rollout a', 'rollout a', 'rollout c']
    """
    return TreeKey(tree, parent, name)


def _parents(needed_by: str, column: str, trajectories: Sequence[Trajectory]) -> list[str | None]:
    if trajectories and not any(column in t.columns for t in trajectories):
        raise MissingInput(needed_by, f"a trajectory column {column!r}", _RECORD)
    given = [t.columns.get(column) for t in trajectories]
    strange = [t.id for t, p in zip(trajectories, given, strict=True) if isinstance(p, (bool, float, list, Mapping))]
    if strange:
        raise InvalidArgument(column, strange[:10], "the id of a rollout, or null; these have something else")
    return [None if parent is None else str(parent) for parent in given]


def _whole(column: str, value: object, t: Trajectory, most: int) -> int:
    exact = isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and float(value).is_integer()
    if not exact or not 0 <= int(value) <= most:  # type: ignore[call-overload]
        raise InvalidArgument(column, value, f"a whole number in [0, {most}] for {t.id!r}")
    return int(value)  # type: ignore[call-overload, no-any-return]


def _problem(t: Trajectory, source: Trajectory, amount: int) -> str:
    """What is wrong with the claim, or ""."""
    if source.id == t.id or source.group != t.group:
        return f"{source.id!r} is the rollout itself" if source.id == t.id else f"{source.id!r} is of another group"
    if t.own is not None and bool(t.own[:amount].any()):
        return f"own is True at {int(np.flatnonzero(t.own)[0])} of {amount} copied"
    if source.status == "aborted" and not source.has_tokens:
        return ""
    if not same_prompt(t, source):
        return f"another prompt than {source.id!r}"
    equal = common_prefix(t, source)
    return "" if equal >= amount else f"differs from {source.id!r} at {equal} of {amount} copied"
