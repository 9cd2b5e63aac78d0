"""Checks on rewards themselves: does it tell good from bad, and does it say anything at all."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apportion.errors import InvalidArgument
from apportion.rewards import _arguments
from apportion.rewards.base import Observation, Reward, check_reward
from apportion.rewards.observe import observe
from apportion.rollouts import Trajectory
from apportion.verdicts import Abstained, Failed, Scored, Verdict, as_verdict

__all__ = ["SelfCheck", "Summary", "constant_report", "self_check", "summarise"]


@dataclass(frozen=True, slots=True)
class SelfCheck:
    """What `self_check` found.

    Attributes:
        reward: its name.
        good: verdicts on the known good trajectories.
        bad: verdicts on the known bad ones.
        problems: one sentence each; empty when the reward is sound on them.
    """

    reward: str
    good: tuple[Verdict, ...]
    bad: tuple[Verdict, ...]
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """True without problems."""
        return not self.problems


def self_check(
    reward: Reward, *, good: Sequence[Trajectory], bad: Sequence[Trajectory], best: float | None = None
) -> SelfCheck:
    """Whether a reward gives known good trajectories its maximum, and known bad ones less.

        score(good) = max over everything > score(bad)

    Run it before training: a threshold in the wrong unit or a stub pays 0 to a perfect answer, and training goes on.

    Args:
        reward: sync or async; at turn level every turn is compared.
        good: trajectories that deserve the maximum, e.g. the reference answer itself.
        bad: trajectories that deserve less.
        best: the declared maximum; `None`: the largest value seen.

    Returns:
        The verdicts and the problems: a missing verdict, a good trajectory below the maximum, a bad one that is not
        below every good one.

    Raises:
        InvalidArgument: no good or no bad trajectory.

    Example:
        >>> from apportion.rewards import reward
        >>> stub = reward(name="stub")(lambda trajectory: 0.0)
        >>> gold, junk = Trajectory(id="g", group="q"), Trajectory(id="b", group="q")
        >>> report = self_check(stub, good=[gold], bad=[junk], best=1.0)
        >>> report.problems
        ("good 'g' scores 0, not 1", "bad 'b' scores 0, not below every good one (0)")
    """
    check_reward("reward", reward)
    for argument, given in (("good", good), ("bad", bad)):
        if not given:
            raise InvalidArgument(argument, given, "at least one trajectory")
    observed = observe([reward], [*good, *bad], failure_limit=1.0)[reward.name]
    rows = [entry if isinstance(entry, list) else [entry] for entry in observed]
    told = [("good", t.id, cell) for t, row in zip(good, rows[: len(good)], strict=True) for cell in row]
    told += [("bad", t.id, cell) for t, row in zip(bad, rows[len(good) :], strict=True) for cell in row]
    known = [(kind, name, cell.value) for kind, name, cell in told if isinstance(cell, Scored)]
    problems = [f"{kind} {name!r}: {_missing(cell)}" for kind, name, cell in told if not isinstance(cell, Scored)]
    top = max((value for _, _, value in known), default=0.0) if best is None else _arguments.number("best", best)
    lowest = min((value for kind, _, value in known if kind == "good"), default=math.inf)
    for kind, name, value in known:
        if kind == "good" and value != top:
            problems.append(f"good {name!r} scores {value:g}, not {top:g}")
        if kind == "bad" and value >= lowest:
            problems.append(f"bad {name!r} scores {value:g}, not below every good one ({lowest:g})")
    return SelfCheck(
        reward.name,
        tuple(cell for kind, _, cell in told if kind == "good"),
        tuple(cell for kind, _, cell in told if kind == "bad"),
        tuple(problems),
    )


def _missing(verdict: Verdict) -> str:
    return f"abstained ({verdict.reason})" if isinstance(verdict, Abstained) else f"failed ({_error(verdict)})"


def _error(verdict: Verdict) -> str:
    return verdict.error if isinstance(verdict, Failed) else ""


@dataclass(frozen=True, slots=True)
class Summary:
    """The verdicts of one reward in numbers.

    Attributes:
        scored: how many are `Scored`.
        abstained: how many are `Abstained`.
        failed: how many are `Failed`.
        mean: over the scored ones; `None` without any: "no data" is not 0.
        low: the smallest value; `None` without any.
        high: the largest value; `None` without any.
    """

    scored: int
    abstained: int
    failed: int
    mean: float | None
    low: float | None
    high: float | None

    @property
    def is_constant(self) -> bool:
        """True when nothing distinguishes the verdicts: all scored values are equal, or there are none."""
        return self.low == self.high

    @property
    def failure_rate(self) -> float | None:
        """Share of the verdicts that are `Failed`; `None` without any verdict."""
        total = self.scored + self.abstained + self.failed
        return self.failed / total if total else None


def summarise(verdicts: Observation | Iterable[Any]) -> Summary:
    """Counts, mean and range of one reward's verdicts, of either level.

    Args:
        verdicts: what `observe` gave for one reward, or plain values as a reward function returns them: None abstained,
            and what is not a finite number failed.

    Returns:
        The summary; missing verdicts never enter the mean.

    Raises:
        InvalidArgument: something that is no list.

    Example:
        >>> summarise([0.5, None, 0.8, "timeout"])
        Summary(scored=2, abstained=1, failed=1, mean=0.65, low=0.5, high=0.8)
        >>> summarise([Scored(0.5), Abstained("other task"), Scored(0.8)]).mean
        0.65
        >>> print(summarise([Abstained("other task")]).mean)
        None
    """
    if isinstance(verdicts, (str, bytes, Mapping)) or not isinstance(verdicts, Iterable):
        raise InvalidArgument("verdicts", verdicts, "a list of verdicts or of plain values")
    rows = (entry if isinstance(entry, (list, tuple)) else [entry] for entry in verdicts)
    cells = [as_verdict(cell, source="the reward") for row in rows for cell in row]
    values = [cell.value for cell in cells if isinstance(cell, Scored)]
    return Summary(
        scored=len(values),
        abstained=sum(isinstance(cell, Abstained) for cell in cells),
        failed=sum(isinstance(cell, Failed) for cell in cells),
        mean=math.fsum(values) / len(values) if values else None,
        low=min(values, default=None),
        high=max(values, default=None),
    )


def constant_report(observed: Mapping[str, Observation], *, minimum: int = 50) -> dict[str, Summary]:
    """The rewards that said the same thing every time, or nothing at all, over many verdicts.

    A part that is constant teaches nothing while the total may still move: a stub, a pattern that never matches, a
    threshold in the wrong unit.

    Args:
        observed: what `observe` returned, over many prompts.
        minimum: how many verdicts there must be before constancy means anything.

    Returns:
        `{name: summary}` of the suspicious ones, in order; empty when there are none.

    Raises:
        InvalidArgument: a minimum below 2.

    Example:
        >>> list(constant_report({"stub": [Scored(0.0)] * 200, "fine": [Scored(0.0), Scored(1.0)] * 100}))
        ['stub']
    """
    _arguments.whole("minimum", minimum, at_least=2)
    summaries = {name: summarise(verdicts) for name, verdicts in observed.items()}
    return {name: summary for name, summary in _long(summaries.items(), minimum) if summary.is_constant}


def _long(summaries: Iterable[tuple[str, Summary]], minimum: int) -> Iterable[tuple[str, Summary]]:
    return ((name, s) for name, s in summaries if s.scored + s.abstained + s.failed >= minimum)
