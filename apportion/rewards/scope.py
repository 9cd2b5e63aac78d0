"""`scoped`: a reward that only applies to some tasks, and abstains (instead of paying 0) on the others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from apportion.errors import ApportionError, InvalidArgument, MissingInput
from apportion.rewards import _arguments
from apportion.rewards.base import Reward, Role, check_reward, role_of, same_level
from apportion.rewards.running import Combined, Plan, describe, source_file, width
from apportion.rollouts import Level, Trajectory
from apportion.verdicts import Abstained, Failed

__all__ = ["scoped"]


@dataclass(frozen=True)
class Scoped(Combined):
    """See `scoped`."""

    tasks: frozenset[str]
    predicate: Callable[[Trajectory], bool] | None
    inner: Reward
    column: str
    name: str
    level: Level = field(init=False)

    @property
    def role(self) -> Role:
        """That of what it is made of."""
        return role_of(self.inner)

    def __post_init__(self) -> None:
        object.__setattr__(self, "level", same_level("scoped", [self.inner]))
        _arguments.text("column", self.column)
        _arguments.text("name", self.name)

    def plan(self, trajectories: Sequence[Trajectory]) -> Plan:
        """Asks the reward about the trajectories in scope only."""
        applies = self._by_task(trajectories) if self.predicate is None else _decided(self.predicate, trajectories)
        inside = [row for row, scope in enumerate(applies) if scope is True]
        (answers,) = yield [(self.inner, [trajectories[row] for row in inside])]
        rows = dict(zip(inside, answers, strict=True))
        return [
            rows[row]
            if row in rows
            else [scope if isinstance(scope, Failed) else self._outside(trajectory)] * width(trajectory, self.level)
            for row, (scope, trajectory) in enumerate(zip(applies, trajectories, strict=True))
        ]

    def _by_task(self, trajectories: Sequence[Trajectory]) -> list[bool | Failed]:
        without = [trajectory.id for trajectory in trajectories if trajectory.columns.get(self.column) is None]
        if without:
            raise MissingInput(
                self.name,
                f"the column {self.column!r}",
                "give every trajectory its task, or scope by a function of the trajectory; there is no default task",
                without,
            )
        return [trajectory.columns[self.column] in self.tasks for trajectory in trajectories]

    def _outside(self, trajectory: Trajectory) -> Abstained:
        if self.predicate is not None:
            return Abstained(f"{self.inner.name} does not apply here")
        task = _arguments.excerpt(trajectory.columns[self.column], 80)
        return Abstained(f"{self.inner.name} is for {self.column} {', '.join(sorted(self.tasks))}, not {task}")


def _decided(predicate: Callable[[Trajectory], bool], trajectories: Sequence[Trajectory]) -> list[bool | Failed]:
    applies: list[bool | Failed] = []
    for trajectory in trajectories:
        try:
            applies.append(bool(predicate(trajectory)))
        except ApportionError:
            raise
        except Exception as error:  # noqa: BLE001 - whether the reward applies here is unknown, so its value is
            applies.append(Failed(f"scope: {describe(error, file=source_file(predicate))}"))
    return applies


def scoped(
    scope: str | Collection[str] | Callable[[Trajectory], bool],
    reward: Reward,
    *,
    column: str = "task",
    name: str | None = None,
) -> Scoped:
    """A reward for some tasks only; elsewhere it abstains and is not asked.

    Args:
        scope: a task name, several of them, or a function of the trajectory that is true where the reward applies.
        reward: of either level.
        column: the trajectory column that holds the task name; unused with a function.
        name: default: `reward[task]`.

    Returns:
        A reward of the same level.

    Raises:
        InvalidArgument: no task name.
        MissingInput: when observing, a trajectory without a task (all are named): guessing one would quietly change its
            rewards.

    Example:
        >>> from apportion.rewards import reward
        >>> proof = scoped("maths", reward(name="proof")(lambda t: 1.0))
        >>> maths = Trajectory(id="r0", group="q", columns={"task": "maths"})
        >>> code = Trajectory(id="r1", group="p", columns={"task": "code"})
        >>> proof.observe([maths, code])
        [Scored(value=1.0, evidence=''), Abstained(reason="proof is for task maths, not 'code'")]
    """
    inner = check_reward("reward", reward)
    if isinstance(scope, str) or not callable(scope):
        tasks = frozenset([scope] if isinstance(scope, str) else scope)
        if not tasks or not all(isinstance(task, str) and task for task in tasks):
            raise InvalidArgument("scope", scope, "a task name, several task names, or a function of the trajectory")
        default = f"{inner.name}[{','.join(sorted(tasks))}]"
        return Scoped(tasks, None, inner, column, default if name is None else name)
    default = f"{inner.name}[{getattr(scope, '__name__', type(scope).__name__)}]"
    return Scoped(frozenset(), scope, inner, column, default if name is None else name)
