"""`tag_format`: a reply in blocks, each tag exactly once and in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias, get_args

from apportion.errors import InvalidArgument
from apportion.rewards import _arguments
from apportion.rewards.base import Role
from apportion.rewards.recorded import final_text, interrupted, require_text, require_turns
from apportion.rewards.running import PerTrajectory
from apportion.rollouts import Level, Trajectory
from apportion.verdicts import Scored, Verdict

__all__ = ["tag_format"]

Mode: TypeAlias = Literal["strict", "lenient"]
Empty: TypeAlias = Literal["allow", "refuse"]


def block_problem(text: str, tags: Sequence[str], *, mode: Mode, empty: Empty) -> str | None:
    """What is wrong with the blocks of a text, or `None`; in time linear in the text, whatever is in it.

    Example:
        >>> block_problem("<think>a<think>b</think></think>", ["think"], mode="strict", empty="allow")
        '<think> stands there 2 times'
    """
    marks = [mark for tag in tags for mark in (f"<{tag}>", f"</{tag}>")]
    for mark in marks:
        count = text.count(mark)
        if count != 1:
            return f"{mark} is missing" if not count else f"{mark} stands there {count} times"
    starts = [text.find(mark) for mark in marks]
    for mark, start, following in zip(marks, starts, starts[1:], strict=False):
        if start > following:
            return f"{mark} is out of order"
    # What lies between one mark and the next: before the first block, in it, between it and the second, ...
    stops = [start + len(mark) for start, mark in zip(starts, marks, strict=True)]
    pieces = [text[begin:end].strip() for begin, end in zip([0, *stops], [*starts, len(text)], strict=True)]
    if mode == "strict":
        for at in range(0, len(pieces), 2):
            if pieces[at]:
                where = f"before {marks[at]}" if at < len(marks) else f"after {marks[-1]}"
                return f"text {where}: {_arguments.excerpt(pieces[at], 60)}"
    if empty == "refuse" and not all(pieces[1::2]):
        return f"{marks[2 * pieces[1::2].index('')]} is empty"
    return None


@dataclass(frozen=True)
class TagFormat(PerTrajectory):
    """See `tag_format`."""

    _role: ClassVar[Role] = "shaping"
    tags: tuple[str, ...]
    mode: Mode
    empty: Empty
    name: str
    level: Level

    def __post_init__(self) -> None:
        if not self.tags or len(set(self.tags)) != len(self.tags):
            raise InvalidArgument("tags", self.tags, "at least one tag, and each only once")
        for tag in self.tags:
            if set(_arguments.text("tags", tag)) & set("<>/"):
                raise InvalidArgument("tags", tag, "names without brackets, such as 'think'")
        _arguments.choice("mode", self.mode, get_args(Mode))
        _arguments.choice("empty", self.empty, get_args(Empty))
        _arguments.text("name", self.name)
        _arguments.observable_level("level", self.level)

    def require(self, trajectories: Sequence[Trajectory]) -> None:
        """Raises `MissingInput` when a trajectory has no text."""
        (require_turns if self.level is Level.TURN else require_text)(self.name, trajectories)

    def score(self, trajectory: Trajectory) -> Verdict | list[Verdict]:
        """The final text, or the text of each turn."""
        if self.level is Level.TURN:
            return [self._verdict(turn.text) for turn in trajectory.turns]
        return interrupted(trajectory) or self._verdict(final_text(trajectory))

    def _verdict(self, text: str) -> Verdict:
        problem = block_problem(text, self.tags, mode=self.mode, empty=self.empty)
        return Scored(1.0, "each tag once and in order") if problem is None else Scored(0.0, problem)


def tag_format(
    tags: Sequence[str] = ("think", "answer"),
    *,
    mode: Mode = "strict",
    empty: Empty = "allow",
    level: Level = Level.TRAJECTORY,
    name: str = "format",
) -> TagFormat:
    r"""1 when the reply consists of these blocks, else 0 with what is wrong.

        <think> ... </think>  <answer> ... </answer>

    Each opening and each closing tag stands exactly once in the whole text, in this order; blocks may span lines.

    Args:
        tags: names of the blocks, in order.
        mode: "strict": nothing but blanks before, between and after the blocks; "lenient": text there is fine.
        empty: whether a block may be empty.
        level: TRAJECTORY looks at what the policy wrote last, TURN at every turn.
        name: what the verdicts are called.

    Returns:
        A reward of that level. What the policy wrote is always scored; an aborted rollout is `Failed` at trajectory
        level.

    Raises:
        InvalidArgument: no tags, one twice, brackets in a name, an unknown option.
        MissingInput: when observing, trajectories with tokens but no text.

    Example:
        >>> from apportion.rollouts import Turn
        >>> def says(text):
        ...     return Trajectory(id=text, group="q", turns=(Turn(text=text),))
        >>> good, bad = says("<think>\nx\n</think>\n<answer>4</answer>"), says("<think>x</think> so <answer>4</answer>")
        >>> [verdict.value for verdict in tag_format().observe([good, bad])]
        [1.0, 0.0]
    """
    if isinstance(tags, str):
        raise InvalidArgument("tags", tags, "a list of tag names")
    return TagFormat(tuple(tags), mode, empty, name, level)
