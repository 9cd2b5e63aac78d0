"""`checks_passed`: acceptance checks re-run after each turn, as the share that passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from apportion.errors import InvalidArgument, MissingInput
from apportion.rewards import _arguments
from apportion.rewards.base import Composable, Role
from apportion.rewards.recorded import require_turns
from apportion.rewards.running import UNLIMITED, Limits, each, source_file
from apportion.rollouts import Level, Trajectory
from apportion.verdicts import Abstained, Failed, Scored, Verdict

__all__ = ["ChecksPassed", "checks_passed"]

# The denominator: a number, the names, or the trajectory column that says so.
Expected: TypeAlias = int | Sequence[str] | str | None


@dataclass(frozen=True, slots=True)
class Checks:
    """The checks after one turn: how many passed and ran, and which, where they have names."""

    passed: int
    total: int
    by_name: Mapping[str, bool] | None = None


def read_checks(recorded: object) -> Checks | Abstained | Failed:
    """What a turn recorded about its checks.

    Understands `{name: bool}`, a list of bools (named "0", "1", ...), `{"passed": int, "total": int}`, `{"error":
    text}` for a harness that broke, and `None` where the checks did not run. Anything else is `Failed`.

    Example:
        >>> read_checks({"test_add": True, "test_sub": False})
        Checks(passed=1, total=2, by_name={'test_add': True, 'test_sub': False})
        >>> read_checks({"error": "collection failed"})
        Failed(error='checks: collection failed')
    """
    if recorded is None:
        return Abstained("the checks did not run after this turn")
    if isinstance(recorded, Sequence) and not isinstance(recorded, (str, bytes)):
        recorded = {str(index): result for index, result in enumerate(recorded)}
    if isinstance(recorded, Mapping):
        if "error" in recorded and not isinstance(recorded["error"], bool):
            return Failed(f"checks: {_arguments.brief(str(recorded['error']))}")
        counts = recorded.get("passed"), recorded.get("total")
        if set(recorded) == {"passed", "total"} and all(type(count) is int for count in counts):
            passed, total = recorded["passed"], recorded["total"]
            if 0 <= passed <= total:
                return Checks(passed, total)
        elif all(isinstance(result, bool) for result in recorded.values()):
            named = {str(name): result for name, result in recorded.items()}
            return Checks(sum(named.values()), len(named), named)
    return Failed(f"checks: cannot read {_arguments.excerpt(recorded)}")


@dataclass(frozen=True)
class ChecksPassed(Composable):
    """See `checks_passed`."""

    _role: ClassVar[Role] = "shaping"
    source: str | Callable[[Trajectory], Sequence[object]]
    expected: Expected
    name: str
    level: Level = field(default=Level.TURN, init=False)

    def __post_init__(self) -> None:
        if not callable(self.source):
            _arguments.text("source", self.source)
        if isinstance(self.expected, int):
            _arguments.whole("expected", self.expected, at_least=0)
        elif isinstance(self.expected, Sequence) and not isinstance(self.expected, str):
            if len(set(self.expected)) != len(self.expected) or not all(isinstance(n, str) for n in self.expected):
                raise InvalidArgument("expected", self.expected, "different names of checks")
        elif self.expected is not None:
            _arguments.text("expected", self.expected)
        _arguments.text("name", self.name)

    def observe(self, trajectories: Sequence[Trajectory]) -> list[list[Verdict]]:
        """One verdict per turn; the denominators are settled for all of `trajectories` first."""
        return self.observe_within(trajectories, UNLIMITED)

    def observe_within(self, trajectories: Sequence[Trajectory], limits: Limits) -> list[list[Verdict]]:
        """Like `observe`, with a limit on the time of each call of a function that re-runs the checks."""
        self.require(trajectories)
        read = self.read(trajectories, limits)
        totals = self._totals(trajectories, read)
        return [[self._share(cell, total) for cell in cells] for cells, total in zip(read, totals, strict=True)]

    def require(self, trajectories: Sequence[Trajectory]) -> None:
        """Raises `MissingInput` when there are no turns, or none of them recorded any checks."""
        require_turns(self.name, trajectories)
        if isinstance(self.source, str):
            turns = [turn for trajectory in trajectories for turn in trajectory.turns]
            if turns and not any(self.source in turn.columns for turn in turns):
                how = "record what the checks said after each turn, or pass a function that re-runs them"
                ids = [trajectory.id for trajectory in trajectories]
                raise MissingInput(self.name, f"the turn column {self.source!r}", how, ids)

    def read(self, trajectories: Sequence[Trajectory], limits: Limits) -> list[list[Checks | Abstained | Failed]]:
        """What the checks said, turn by turn."""
        if isinstance(self.source, str):
            column = self.source
            return [[read_checks(turn.columns.get(column)) for turn in trajectory.turns] for trajectory in trajectories]
        results: dict[int, Sequence[object]] = {}
        function = self.source

        def run(trajectory: Trajectory) -> list[None]:
            recorded = results[id(trajectory)] = list(function(trajectory))
            return [None] * len(recorded)

        rows = each(self, run, trajectories, limits, file=source_file(function))
        return [
            [read_checks(entry) for entry in results[id(trajectory)]]
            if id(trajectory) in results
            else [cell for cell in row if isinstance(cell, Failed)]
            for trajectory, row in zip(trajectories, rows, strict=True)
        ]

    def _totals(
        self, trajectories: Sequence[Trajectory], read: Sequence[Sequence[Checks | Abstained | Failed]]
    ) -> list[int | frozenset[str] | Failed]:
        if isinstance(self.expected, str):
            return [_declared(trajectory, self.expected) for trajectory in trajectories]
        if isinstance(self.expected, int):
            return [self.expected] * len(trajectories)
        if self.expected is not None:
            return [frozenset(self.expected)] * len(trajectories)
        counts: dict[str, int] = {}
        names: dict[str, set[str]] = {}
        for trajectory, cells in zip(trajectories, read, strict=True):
            for cell in cells:
                if isinstance(cell, Checks):
                    counts[trajectory.group] = max(counts.get(trajectory.group, 0), cell.total)
                    names.setdefault(trajectory.group, set()).update(cell.by_name or ())
        return [frozenset(names[t.group]) if names.get(t.group) else counts.get(t.group, 0) for t in trajectories]

    def _share(self, cell: Checks | Abstained | Failed, total: int | frozenset[str] | Failed) -> Verdict:
        if not isinstance(cell, Checks):
            return cell
        if isinstance(total, Failed):
            return total
        size = total if isinstance(total, int) else len(total)
        if size == 0:
            return Abstained("there are no checks")
        if cell.total == 0:
            return Failed(f"no check ran, of {size} expected")
        if isinstance(total, int) or cell.by_name is None:
            if cell.total > size:
                return Failed(f"{cell.total} checks ran, {size} were expected")
            return Scored(cell.passed / size, f"{cell.passed} of {size} checks pass")
        failing = sorted(name for name in total if not cell.by_name.get(name, False))
        shown = ", ".join(failing[:5]) + (f" and {len(failing) - 5} more" if len(failing) > 5 else "")
        why = f"; failing or not run: {_arguments.brief(shown)}" if failing else ""
        return Scored((size - len(failing)) / size, f"{size - len(failing)} of {size} checks pass{why}")


def _declared(trajectory: Trajectory, column: str) -> int | frozenset[str] | Failed:
    value = trajectory.columns.get(column)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if isinstance(value, Sequence) and not isinstance(value, str) and all(isinstance(name, str) for name in value):
        return frozenset(value)
    return Failed(f"column {column!r} should hold the expected checks, not {_arguments.excerpt(value, 80)}")


def checks_passed(
    source: str | Callable[[Trajectory], Sequence[object]] = "checks",
    *,
    expected: Expected = None,
    name: str = "partial",
) -> ChecksPassed:
    """The share of acceptance checks that pass after each turn.

        f_k = passed_k / total,   total fixed for the whole trajectory

    For what each turn added, `difference(checks_passed(), initial=0.0)`: it telescopes, and breaking a check costs. For
    the end only, `reduce_turns(checks_passed(), how="last")`. Beside a 0/1 outcome a weight below 1 keeps every full
    solve above every partial one.

    Args:
        source: a turn column with what the checks said (`{name: bool}`, a list of bools, `{"passed": n, "total": n}`,
            `{"error": text}`, or null where they did not run), or a function that returns one such entry per turn.
        expected: the denominator: how many checks, or which; or the trajectory column that says so. `None`: all that
            were seen in the rollouts of the same group, which a policy that writes checks of its own can move.
        name: what the verdicts are called.

    Returns:
        A TURN reward in [0, 1]. Without any checks (total 0), and after turns where they did not run, it abstains;
        where the harness broke, no check ran at all, or more ran than are expected, it is `Failed`. Expected checks
        that did not run count as not passed: deleting a check does not help. Checks that are not expected by name are
        ignored.

    Raises:
        InvalidArgument: names used twice, a negative number.
        MissingInput: when observing, no turns, or no turn with the column.

    Example:
        >>> from apportion.rewards import difference
        >>> from apportion.rollouts import Turn
        >>> turns = tuple(Turn(columns={"checks": {"passed": n, "total": 4}}) for n in (2, 1, 4))
        >>> rollout = Trajectory(id="r0", group="q", turns=turns)
        >>> steps = 0.4 * difference(checks_passed(), initial=0.0)
        >>> [round(step.value, 3) for step in steps.observe([rollout])[0]]
        [0.2, -0.1, 0.3]
    """
    return ChecksPassed(source, expected, name)
