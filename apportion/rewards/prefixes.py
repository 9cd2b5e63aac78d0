"""Exact-prefix ids: which rollouts share their beginning, computed from what was recorded and nothing else.

    prompt | turn 1, answer | turn 2, answer |        one id per state, equal for two rollouts of a group
           ^id 0            ^id 1            ^id 2    exactly when everything up to there is equal

Ids are codes, see `apportion.rewards.codes`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from apportion.errors import InvalidArgument
from apportion.rewards import _arguments
from apportion.rewards.base import Composable, Observation, Role
from apportion.rewards.codes import Digest
from apportion.rollouts import Level, Trajectory, Turn
from apportion.verdicts import Abstained, Scored, Verdict

if TYPE_CHECKING:
    # The planner lives beside the estimators, which import torch; hashing needs none of it.
    from apportion.advantages.branch_plan import BranchPlan

__all__ = ["common_prefix", "identified", "prefix_at", "prefixes", "same_prompt"]


def prefix_at(trajectory: Trajectory, offset: int) -> int:
    """The exact-prefix id of the first `offset` response tokens, observations included, behind group and prompt.

    Raises:
        InvalidArgument: text-only rollouts, or an offset outside the response.

    Example:
        >>> a = Trajectory(id="a", group="q", response_ids=[1, 2, 3])
        >>> b = Trajectory(id="b", group="q", response_ids=[1, 2, 4])
        >>> prefix_at(a, 2) == prefix_at(b, 2), prefix_at(a, 3) == prefix_at(b, 3)
        (True, False)
    """
    if trajectory.response_ids is None or not 0 <= offset <= trajectory.response_ids.size:
        raise InvalidArgument("offset", offset, f"a place in the response tokens of {trajectory.id!r}")
    digest = _start(trajectory)
    digest.extend(trajectory.response_ids[:offset].tobytes())
    return digest.code


def same_prompt(one: Trajectory, other: Trajectory) -> bool:
    """Both belong to one group, and their prompts do not differ where both are recorded."""
    if one.group != other.group or (one.prompt_ids is None) != (other.prompt_ids is None):
        return False
    return one.prompt_ids is None or other.prompt_ids is None or np.array_equal(one.prompt_ids, other.prompt_ids)


def common_prefix(one: Trajectory, other: Trajectory) -> int:
    """How many response tokens two rollouts share from the start (turns, where both are text only).

    Raises:
        InvalidArgument: one has tokens and the other has none.

    Example:
        >>> a = Trajectory(id="a", group="q", response_ids=[1, 2, 3])
        >>> common_prefix(a, Trajectory(id="b", group="q", response_ids=[1, 2, 4, 5]))
        2
    """
    if one.has_tokens != other.has_tokens:
        raise InvalidArgument("other", other.id, f"token ids in both or in neither, as in {one.id!r}")
    if one.response_ids is None or other.response_ids is None:
        pairs = zip(one.turns, other.turns, strict=False)
        differ = (k for k, (a, b) in enumerate(pairs) if _told(a) is None or _told(a) != _told(b))
        return next(differ, min(len(one.turns), len(other.turns)))
    shorter = min(one.response_ids.size, other.response_ids.size)
    differ_at = np.flatnonzero(one.response_ids[:shorter] != other.response_ids[:shorter])
    return int(differ_at[0]) if differ_at.size else shorter


def identified(plan: BranchPlan, trajectories: Sequence[Trajectory]) -> BranchPlan:
    """The same plan, every branch with the exact-prefix id of what it copies.

    Raises:
        InvalidArgument: a parent that is not among the trajectories, or an offset outside its response.

    Example:
        >>> from apportion.advantages.branch_plan import Candidate, branch_plan
        >>> a = Trajectory(id="a", group="q", response_ids=[1, 2, 3])
        >>> plan = branch_plan([Candidate(parent="a", offset=2, priority=1.0)], budget=1)
        >>> identified(plan, [a]).branches[0].prefix == prefix_at(a, 2)
        True
    """
    by_id = {t.id: t for t in trajectories}
    strange = [branch.parent for branch in plan.branches if branch.parent not in by_id]
    if strange:
        raise InvalidArgument("plan", strange[:10], "parents that are among the trajectories")
    named = [replace(branch, prefix=prefix_at(by_id[branch.parent], branch.offset)) for branch in plan.branches]
    return replace(plan, branches=tuple(named))


@dataclass(frozen=True)
class Prefixes(Composable):
    """See `prefixes`."""

    _role: ClassVar[Role] = "label"
    name: str
    level: Level = field(default=Level.TURN, init=False)

    def __post_init__(self) -> None:
        _arguments.text("name", self.name)

    def observe(self, trajectories: Sequence[Trajectory]) -> Observation:
        """One id per turn."""
        return [list(_by_token(t) if t.has_tokens else _by_text(t)) for t in trajectories]


def prefixes(*, name: str = "prefix") -> Prefixes:
    """The exact-prefix id of the state after every turn, observation included.

        id_k = hash(group, prompt, everything up to and including turn k and its observation)

    Not a reward but a label: equal numbers, equal beginnings. `apportion.advantages.branches.prefix_tree` makes a tree
    of them, `group_stat(key=...)` a group. Token ids decide where they were recorded, else the text, the calls and the
    observation of every turn.

    Args:
        name: what the verdicts are called.

    Returns:
        A TURN reward of whole numbers below 2^52. A text-only turn of which nothing was recorded abstains, and so does
        all that follows it: nobody knows whether it is shared.

    Example:
        >>> a = Trajectory(id="a", group="q", response_ids=[1, 9, 2], policy=[1, 0, 1])
        >>> b = Trajectory(id="b", group="q", response_ids=[1, 9, 3], policy=[1, 0, 1])
        >>> one, other = prefixes().observe([a, b])
        >>> one[0] == other[0], one[1] == other[1]
        (True, False)
    """
    return Prefixes(name)


def _start(trajectory: Trajectory) -> Digest:
    digest = Digest()
    digest.add(trajectory.group.encode("utf-8", "surrogatepass"))
    digest.add(b"" if trajectory.prompt_ids is None else trajectory.prompt_ids.tobytes())
    return digest


def _by_token(trajectory: Trajectory) -> Iterator[Verdict]:
    if trajectory.response_ids is None:
        return
    layout, digest, begin = trajectory.layout(), _start(trajectory), 0
    for end in (layout.lead + np.cumsum(layout.turn_lengths + layout.gap_lengths)).tolist():
        digest.extend(trajectory.response_ids[begin:end].tobytes())
        begin = end
        yield Scored(float(digest.code), f"the first {end} response tokens")


def _by_text(trajectory: Trajectory) -> Iterator[Verdict]:
    digest, lost = _start(trajectory), ""
    for k, turn in enumerate(trajectory.turns, 1):
        told = _told(turn)
        lost = lost or ("" if told is not None else f"nothing comparable was recorded of turn {k}")
        if lost or told is None:
            yield Abstained(lost)
            continue
        digest.add(told)
        yield Scored(float(digest.code), f"the first {k} turns")


def _told(turn: Turn) -> bytes | None:
    """What was recorded of a turn, in one form; None when nothing was, or nothing that can be written down."""
    if not (turn.text or turn.actions or turn.observation):
        return None
    calls = [(a.name, a.raw or a.arguments) for a in turn.actions]
    try:
        told = json.dumps([turn.text, calls, turn.observation], sort_keys=True, default=repr)
    except (RecursionError, TypeError, ValueError):
        return None
    return told.encode("utf-8", "surrogatepass")
