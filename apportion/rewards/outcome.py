"""`outcome`: whether the task was solved, and what happens when the rollout was cut off or broke down."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, Protocol, TypeAlias, get_args, runtime_checkable

from apportion.errors import InvalidArgument, MissingInput
from apportion.rewards import _arguments
from apportion.rewards.answers import Extract, last_line, last_number, parse_number
from apportion.rewards.base import Reward, same_level
from apportion.rewards.function import FunctionReward
from apportion.rewards.recorded import final_text, interrupted, require_text
from apportion.rewards.running import Combined, Plan
from apportion.rollouts import Level, Trajectory
from apportion.verdicts import Failed, Scored, Verdict, as_verdict

__all__ = ["Truncated", "exact", "numeric", "outcome", "set_match"]

Truncated: TypeAlias = Literal["keep", "zero", "exclude"]
Case: TypeAlias = Literal["exact", "ignore"]


@runtime_checkable
class _Demanding(Protocol):
    def require(self, trajectories: Sequence[Trajectory]) -> None:
        """Raises `MissingInput` when no trajectory has what this check compares."""


@dataclass(frozen=True)
class Outcome(Combined):
    """See `outcome`."""

    source: Reward
    truncated: Truncated
    name: str
    level: Level = field(default=Level.TRAJECTORY, init=False)

    def __post_init__(self) -> None:
        if same_level("outcome", [self.source]) is not Level.TRAJECTORY:
            raise InvalidArgument("source", self.source.name, "a reward of TRAJECTORY level")
        _arguments.choice("truncated", self.truncated, get_args(Truncated))
        _arguments.text("name", self.name)

    def plan(self, trajectories: Sequence[Trajectory]) -> Plan:
        """Asks the source about the trajectories whose end the policy is answerable for."""
        settled = [self._settled(trajectory) for trajectory in trajectories]
        left = [row for row, verdict in enumerate(settled) if verdict is None]
        asked = [trajectories[row] for row in left]
        function: object = self.source.function if isinstance(self.source, FunctionReward) else self.source
        if asked and isinstance(function, _Demanding):
            function.require(asked)
        (answers,) = yield [(self.source, asked)]
        rows = [[verdict] if verdict is not None else [] for verdict in settled]
        for row, (verdict,) in zip(left, answers, strict=True):
            rows[row] = [self._noted(trajectories[row], verdict)]
        return rows

    def _settled(self, trajectory: Trajectory) -> Verdict | None:
        broken = interrupted(trajectory)
        if broken is not None or trajectory.status != "truncated" or self.truncated == "keep":
            return broken
        if self.truncated == "zero":
            return Scored(0.0, "truncated: counts as 0")
        return Failed("truncated: excluded (truncated='exclude')")

    def _noted(self, trajectory: Trajectory, verdict: Verdict) -> Verdict:
        if trajectory.status != "truncated" or not isinstance(verdict, Scored):
            return verdict
        return Scored(verdict.value, f"truncated: scored as it is{_comma(verdict.evidence)}")


def outcome(
    source: str | Callable[[Trajectory], object] | Reward = "reward",
    *,
    truncated: Truncated = "keep",
    name: str = "outcome",
    remedy: str = "",
) -> Outcome:
    """Whether the task was solved: one value per trajectory, from a column, a function or a check of the answer.

    An aborted trajectory is `Failed` and its recorded reward is ignored: nobody knows what the policy would have
    earned. A value that is missing (no such column, or null in it) is `Failed` too, never 0 and never an abstention: in
    a sum an abstention would leave a smaller but comparable-looking reward in the group. Where a column only applies to
    some tasks, say so with `scoped`.

    Args:
        source: a column of the trajectory; a function of it (also `async def`), such as `exact(...)`, `numeric(...)`
            or `set_match(...)`; or any reward of TRAJECTORY level.
        truncated: for rollouts that ran into the length or turn limit: "keep" scores them as they are, "zero" gives 0,
            "exclude" makes them `Failed`, so that they leave their group. Excluding counts towards the failure limit of
            `observe`, because a policy that learns to run into the limit escapes its score.
        name: what the verdicts are called.
        remedy: how the column comes about, for the message where no trajectory has it.

    Returns:
        A TRAJECTORY reward; the evidence names what was decided about truncated rollouts.

    Raises:
        InvalidArgument: an unknown `truncated`, a reward of another level.
        MissingInput: when observing, none of the trajectories has the column, or the reference that a check needs.

    Example:
        >>> rollout = Trajectory(id="r0", group="q", columns={"reward": 1})
        >>> broken = Trajectory(id="r1", group="q", columns={"reward": 0}, status="aborted", error="sandbox lost")
        >>> outcome().observe([rollout, broken])
        [Scored(value=1.0, evidence="column 'reward'"), Failed(error='aborted by the infrastructure: sandbox lost')]
    """
    if isinstance(source, str):
        column = FromColumn(_arguments.text("source", source), name, remedy)
        return Outcome(FunctionReward(column, name), truncated, name)
    if isinstance(source, Reward):
        return Outcome(source, truncated, name)
    return Outcome(FunctionReward(source, name), truncated, name)


@dataclass(frozen=True)
class FromColumn:
    """The value of a trajectory column; a missing one is `Failed`."""

    column: str
    needed_by: str = "outcome"
    remedy: str = ""

    def require(self, trajectories: Sequence[Trajectory]) -> None:
        """Raises `MissingInput` when no trajectory has the column at all: a wrong name, rather than lost values."""
        if not any(self.column in trajectory.columns for trajectory in trajectories):
            columns = {str(column) for trajectory in trajectories for column in trajectory.columns}
            present = [_arguments.brief(column, 80) for column in sorted(columns)]
            how = f"the columns are {', '.join(present[:20])}" if present else "the rollouts have no columns"
            remedy = f"{self.remedy}; {how}" if self.remedy else how
            raise MissingInput(self.needed_by, f"the column {self.column!r}", remedy, [t.id for t in trajectories])

    def __call__(self, trajectory: Trajectory) -> Verdict:
        """The recorded value."""
        if self.column not in trajectory.columns:
            return Failed(f"no column {self.column!r}")
        value = trajectory.columns[self.column]
        if value is None:
            return Failed(f"column {self.column!r} is null")
        verdict = as_verdict(value, source=f"column {self.column!r}")
        return (
            Scored(verdict.value, verdict.evidence or f"column {self.column!r}")
            if isinstance(verdict, Scored)
            else verdict
        )


@dataclass(frozen=True)
class Comparison(ABC):
    """An answer taken out of the final text and compared with the reference."""

    extract: Extract

    def require(self, trajectories: Sequence[Trajectory]) -> None:
        """Raises `MissingInput` when there is no text to read, or no reference at all to compare with."""
        require_text("outcome", trajectories)
        if all(trajectory.reference is None for trajectory in trajectories):
            how = "set Trajectory.reference, or name a column with outcome('reward')"
            raise MissingInput("outcome", "a reference answer", how, [trajectory.id for trajectory in trajectories])

    def __call__(self, trajectory: Trajectory) -> Verdict:
        """1 or 0 with the reason; `Failed` when the reference cannot be used."""
        if trajectory.reference is None:
            return Failed("no reference answer")
        answer = self.extract(final_text(trajectory))
        if answer is None:
            return Scored(0.0, f"no_answer_found ({_name(self.extract)})")
        return self.compare(answer, trajectory.reference)

    @abstractmethod
    def compare(self, answer: str, reference: object) -> Verdict:
        """The verdict on an answer that was found."""


@dataclass(frozen=True)
class Exact(Comparison):
    """See `exact`."""

    case: Case

    def compare(self, answer: str, reference: object) -> Verdict:
        """Equal texts, blanks folded; with several references any one of them."""
        options = _texts(reference)
        if not options:
            return Failed("reference_unusable: an empty list of answers")
        given = self._folded(answer)
        return _verdict(any(given == self._folded(option) for option in options), answer, " or ".join(options))

    def _folded(self, text: str) -> str:
        folded = " ".join(text.split())
        return folded.casefold() if self.case == "ignore" else folded


def exact(*, answer: Extract = last_line, case: Case = "exact") -> Exact:
    r"""For `outcome`: the answer is the reference text, blanks aside; with a list of references, one of them.

    Args:
        answer: takes the answer out of the policy's final text.
        case: "exact" or "ignore".

    Returns:
        A check that gives 1, or 0 with `wrong_answer` or `no_answer_found`; `Failed` without a reference.

    Raises:
        InvalidArgument: an unknown `case`.

    Example:
        >>> from apportion.rollouts import Turn
        >>> rollout = Trajectory(id="r0", group="q", reference="Oslo", turns=(Turn(text="I think\nOslo"),))
        >>> outcome(exact()).observe([rollout])
        [Scored(value=1.0, evidence="right_answer: 'Oslo'")]
    """
    _arguments.choice("case", case, get_args(Case))
    return Exact(answer, case)


@dataclass(frozen=True)
class Numeric(Comparison):
    """See `numeric`."""

    tol: float
    relative: float

    def compare(self, answer: str, reference: object) -> Verdict:
        """Numbers that differ by at most the tolerance."""
        gold = parse_number(str(reference)) if isinstance(reference, (str, int, float)) else None
        if gold is None or isinstance(reference, bool):
            return Failed(f"reference_unusable: {_arguments.excerpt(reference, 80)} is not a number")
        given = parse_number(answer)
        if given is None:
            return Scored(0.0, f"not_a_number: {_arguments.excerpt(answer, 80)}")
        return _verdict(
            abs(given - gold) <= max(Fraction(self.tol), Fraction(self.relative) * abs(gold)), answer, str(reference)
        )


def numeric(*, tol: float = 0.0, relative: float = 0.0, answer: Extract = last_number) -> Numeric:
    """For `outcome`: the answer is the reference number.

        |answer - reference| <= max(tol, relative * |reference|)

    Numbers are compared exactly (as fractions), so `tol=0` means equal: 0.5 and 1/2 are. A fragment of an answer is not
    the
    answer: use an extraction that takes all of it, such as `after("####")`, where "2 2/3" could be meant.

    Args:
        tol: absolute tolerance.
        relative: tolerance as a share of the reference.
        answer: takes the answer out of the policy's final text.

    Returns:
        A check that gives 1, or 0 with `wrong_answer`, `not_a_number` or `no_answer_found`; `Failed` when there is no
        reference or it is no number.

    Raises:
        InvalidArgument: a negative or non-finite tolerance.

    Example:
        >>> from apportion.rollouts import Turn
        >>> rollout = Trajectory(id="r0", group="q", reference=1234, turns=(Turn(text="That makes $1,234.00"),))
        >>> outcome(numeric()).observe([rollout])
        [Scored(value=1.0, evidence="right_answer: '1,234.00'")]
    """
    return Numeric(
        answer, _arguments.number("tol", tol, at_least=0), _arguments.number("relative", relative, at_least=0)
    )


@dataclass(frozen=True)
class SetMatch(Comparison):
    """See `set_match`."""

    separator: str

    def compare(self, answer: str, reference: object) -> Verdict:
        """Equal sets; a value that is a number counts as that number."""
        gold = {_item(value) for value in _texts(reference, self.separator)}
        if not gold:
            return Failed("reference_unusable: an empty set of answers")
        given = {_item(part) for part in answer.split(self.separator) if part.strip()}
        missing, extra = len(gold - given), len(given - gold)
        note = f"{missing} missing, {extra} too many" if missing or extra else ""
        return _verdict(given == gold, answer, f"{{{', '.join(sorted(map(str, gold)))}}}", note)


def set_match(*, separator: str = ",", answer: Extract = last_line) -> SetMatch:
    """For `outcome`: the answer has exactly the values of the reference, in any order.

    Args:
        separator: between the values of the answer (and of the reference, when that is one text).
        answer: takes the answer out of the policy's final text.

    Returns:
        A check that gives 1, or 0 with what is missing and too many: part of the values is not the answer.

    Raises:
        InvalidArgument: an empty separator.

    Example:
        >>> from apportion.rollouts import Turn
        >>> rollout = Trajectory(id="r0", group="q", reference=[12, 19], turns=(Turn(text="19"),))
        >>> outcome(set_match()).observe([rollout])[0].value
        0.0
    """
    if not isinstance(separator, str) or not separator:
        raise InvalidArgument("separator", separator, "a non-empty string")
    return SetMatch(answer, separator)


def _texts(reference: object, separator: str | None = None) -> list[str]:
    if isinstance(reference, str):
        return [part.strip() for part in reference.split(separator) if part.strip()] if separator else [reference]
    if isinstance(reference, Iterable) and not isinstance(reference, (bytes, dict)):
        return [str(value) for value in reference]
    return [str(reference)]


def _item(text: str) -> object:
    number = parse_number(text)
    return " ".join(text.split()) if number is None else number


def _verdict(right: bool, answer: str, gold: str, note: str = "") -> Scored:
    given = _arguments.excerpt(answer, 80)
    if right:
        return Scored(1.0, f"right_answer: {given}")
    return Scored(0.0, f"wrong_answer: {given}, not {_arguments.excerpt(gold, 80)}" + (f" ({note})" if note else ""))


def _name(extract: Extract) -> str:
    return getattr(extract, "__name__", None) or repr(extract)


def _comma(text: str) -> str:
    return f"; {text}" if text else ""
