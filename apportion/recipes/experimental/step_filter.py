"""Only steps that a judge found reasonable are trained on, of tasks that are not solved anyway. Inspired by HiFPO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import ClassVar

import torch

from apportion import advantages as adv
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.recipe import Recipe, State
from apportion.recipes.note_inputs import Noted, annotator_of, notes_needed, shown
from apportion.rewards import Truncated, _arguments, outcome
from apportion.rewards.annotators import flagged
from apportion.rewards.base import Role
from apportion.rewards.recorded import require_turns
from apportion.rewards.running import PerTrajectory
from apportion.rollouts import Action, Level, Trajectory
from apportion.signal import Signal
from apportion.verdicts import Scored, Verdict

__all__ = ["longest_repeat", "step_filter"]


def step_filter(
    *,
    repeats: int = 7,
    solved_share: float = 0.9,
    success: float = 1.0,
    annotator: Noted = None,
    column: str = "reasonable",
    dialect: str = "apportion",
    reward: str = "reward",
    truncated: Truncated = "keep",
) -> Recipe:
    """The outcome's advantage on the steps worth learning from; the others leave the loss.

        kept: steps flagged reasonable, of attempts with fewer than `repeats` equal calls in a row,
              of tasks that at most `solved_share` of the attempts solve

    Args:
        repeats: from so many equal consecutive calls on an attempt leaves its group.
        solved_share: largest share of successes of a task that is still trained on.
        success: an outcome of at least this much counts as solved.
        annotator: gives one flag per turn: a function, plain or async, or a Python file that defines `annotator`;
            default the column.
        column: turn column of recorded flags.
        dialect: whose GRPO.
        reward: trajectory column with the outcome.
        truncated: what a rollout cut by a limit earns: "keep", "zero" or "exclude".

    Degenerate cases: a turn without a flag is kept. Where everything is kept it is GRPO.

    Raises:
        InvalidArgument: fewer than 2 repeats, or a share outside [0, 1].
        MissingInput: neither an annotator nor the column, or rollouts without a table of turns.

    Source: inspired by arXiv 2606.19930 (HiFPO of MobileForge) and its code, which samples new actions at the kept
    steps and rewards them by .2 * type + .8 * parameters of the kept action: with those rollouts, whose groups are
    (task, step), that is `grpo`.
    """
    if isinstance(repeats, bool) or not isinstance(repeats, int) or repeats < 2:
        raise InvalidArgument("repeats", repeats, "a whole number >= 2")
    if not 0 <= solved_share <= 1:
        raise InvalidArgument("solved_share", solved_share, "a share in [0, 1]")
    flags, looping = (
        flagged(annotator_of(annotator, needed_by="recipe experimental/step_filter", column=column), name="reasonable"),
        longest_repeat(),
    )

    def assign(batch: Batch, signals: Mapping[str, Signal], *, step: int | None, state: State) -> Signal:
        result = signals["outcome"]
        stuck = signals[looping.name].known & (signals[looping.name].values >= repeats)
        result = result.masked(~stuck)
        solved = (result.known & (result.values >= success)).to(torch.float64)
        number = batch.pool(result.known.to(torch.float64), Level.TRAJECTORY, Level.GROUP, "sum").clamp_min(1.0)
        share = batch.pool(solved, Level.TRAJECTORY, Level.GROUP, "sum") / number
        open_task = batch.spread(share <= solved_share, Level.GROUP, Level.TRAJECTORY)
        credit = adv.grpo(result, dialect=dialect).masked(open_task & ~stuck).spread(Level.TURN)
        poor = signals["reasonable"].known & (signals["reasonable"].values < 0.5)
        return credit.masked(~poor)

    return Recipe(
        name="experimental/step_filter",
        observers=[outcome(reward, truncated=truncated), flags, looping],
        assign_signals=assign,
        aggregation=adv.dialect(dialect).aggregation,
        paper="2606.19930",
        needs=(f"trajectory column {reward!r}", *notes_needed(annotator, column=column)),
        reconstruction="inspired by the paper, which trains single steps sampled anew; here it filters whole rollouts",
        parameters={
            "repeats": repeats,
            "solved_share": solved_share,
            "success": success,
            "annotator": shown(annotator),
            "column": column,
            "dialect": dialect,
            "reward": reward,
            "truncated": truncated,
        },
    )


@dataclass(frozen=True)
class LongestRepeat(PerTrajectory):
    """See `longest_repeat`."""

    _role: ClassVar[Role] = "shaping"
    name: str = "longest repeat"
    level: Level = field(default=Level.TRAJECTORY, init=False)

    def require(self, trajectories: Sequence[Trajectory]) -> None:
        """Raises `MissingInput` when a trajectory has no table of turns."""
        require_turns(self.name, trajectories)

    def score(self, trajectory: Trajectory) -> Verdict:
        """The length of the longest run of equal calls."""
        calls = [(a.name, a.raw or _written(a)) for turn in trajectory.turns for a in turn.actions]
        runs = [(len(list(same)), name) for (name, _), same in groupby(calls)]
        length, name = max(runs, default=(0, None), key=lambda run: run[0])
        return Scored(
            float(length), f"{_arguments.brief(str(name), 60)} {length} times in a row" if length else "no call"
        )


def _written(action: Action) -> str:
    try:
        return repr(dict(action.arguments))
    except RecursionError:
        return "arguments nested too deeply to compare"


def longest_repeat() -> LongestRepeat:
    """How many equal calls in a row a rollout made at most.

    Example:
        >>> from apportion.rollouts import Action, Turn
        >>> turns = [Turn(actions=(Action(name),)) for name in ("tap", "tap", "type")]
        >>> longest_repeat().observe([Trajectory(id="r", group="q", turns=turns)])
        [Scored(value=2.0, evidence='tap 2 times in a row')]
    """
    return LongestRepeat()
