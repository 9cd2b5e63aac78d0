"""TRACE: the outcome's advantage, and beside it what each turn did to a potential of the state."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from apportion import advantages as adv
from apportion.advantages.td import td
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.recipe import Recipe, State
from apportion.recipes.state_inputs import Given, States, carried
from apportion.rewards import Truncated, outcome
from apportion.rewards.base import Role
from apportion.rewards.running import PerTrajectory
from apportion.rollouts import Level, Trajectory, Turn
from apportion.signal import Signal
from apportion.verdicts import Scored, Verdict

__all__ = ["trace", "transitions"]


def trace(
    *,
    weight: float = 0.2,
    n_step: int = 3,
    decay: float = 0.8,
    fill: float = 2.0,
    potential: Given = None,
    column: str = "potential",
    start_value: float | None = None,
    dialect: str = "apportion",
    ddof: int = 0,
    reward: str = "reward",
    truncated: Truncated = "keep",
) -> Recipe:
    """Turn-level temporal differences of a potential, averaged over short windows, beside the outcome's advantage.

        delta_k = Phi_k - Phi_{k-1}         over the T transitions: turns that the environment answered
        c_k = sum_{j < n} decay^j delta_{k+j} / sum_{j < n} decay^j     over the transitions that there are
              + fill * decay^(T-k+1) * A_i                              where the window reaches the last transition
        A_k = A_i + weight * c_k

    The answer turn is no transition: it gets the outcome's advantage alone. The paper's potential is the log-likelihood
    gap of the gold answer under a frozen reference, see `apportion.judges.scoring.potentials`; any other will do.

    Args:
        weight: of the dense part.
        n_step: transitions in a window; 0 leaves only the fill, on the last transition.
        decay: gamma, how much less every later transition counts in the window.
        fill: how much of the outcome's advantage follows the last transition.
        potential: what values the states: an object, or a Python file that defines `potential`; default the columns.
        column: turn column of recorded values, the value after the turn; "<column>_start" of the prompt.
        start_value: the value of the prompt where that column is absent (0 for a gap, by definition).
        dialect: whose GRPO.
        ddof: of the outcome's standard deviation; 0 is the paper's.
        reward: trajectory column with the outcome.
        truncated: what a rollout cut by a limit earns: "keep", "zero" or "exclude".

    Degenerate cases: without a transition, or with `weight=0`, it is GRPO. An unknown value makes the turns beside it
    no transitions: they add nothing to the outcome's advantage. An unknown outcome leaves its group and fills nothing;
    its turns keep what the potential says of them. A constant potential leaves the fill, so it is GRPO with `fill=0`.

    Raises:
        InvalidArgument: a weight or fill that is not finite, a decay outside [0, 1] or a negative `n_step`.
        MissingInput: neither a potential nor the columns.

    Source: arXiv 2607.13988, known to us through a re-implementation of its Algorithm 1.
    """
    for name, value in (("weight", weight), ("fill", fill)):
        if not math.isfinite(value):
            raise InvalidArgument(name, value, "a finite number")
    if not 0 <= decay <= 1:
        raise InvalidArgument("decay", decay, "a number in [0, 1]")
    if isinstance(n_step, bool) or n_step < 0:
        raise InvalidArgument("n_step", n_step, "a whole number >= 0")
    states = States(potential, column=column, start_value=start_value)
    steps = transitions()

    def assign(batch: Batch, signals: Mapping[str, Signal], *, step: int | None, state: State) -> Signal:
        base = adv.grpo(signals["outcome"], dialect=dialect, ddof=ddof)
        moved = signals[steps.name]
        values = carried(states.of(signals), moved.known & (moved.values >= 0.5))
        dense = td(values, n_step=n_step, lam=decay, window="normalised", fill=base * fill)
        return base + dense * weight

    return Recipe(
        name="trace",
        observers=[outcome(reward, truncated=truncated), *states.observers, steps],
        assign_signals=assign,
        aggregation=adv.dialect(dialect).aggregation,
        paper="2607.13988",
        needs=(f"trajectory column {reward!r}", *states.needs),
        reconstruction="from a re-implementation: the paper's own rule for answer tokens, how its scorer wraps the "
        "answer, and whether failed calls are transitions are unknown; here the answer gets the outcome alone, and "
        "whatever was executed is a transition",
        parameters={
            "weight": weight,
            "n_step": n_step,
            "decay": decay,
            "fill": fill,
            "potential": states.source.name,
            "column": column,
            "start_value": start_value,
            "dialect": dialect,
            "ddof": ddof,
            "reward": reward,
            "truncated": truncated,
        },
    )


@dataclass(frozen=True)
class Transitions(PerTrajectory):
    """See `transitions`."""

    _role: ClassVar[Role] = "shaping"
    name: str = "transition"
    level: Level = field(default=Level.TURN, init=False)

    def score(self, trajectory: Trajectory) -> Sequence[Verdict]:
        """One flag per turn."""
        gaps = trajectory.layout().gap_lengths.tolist()
        if not trajectory.turns:
            return [_answered(k + 1 < len(gaps) or gap > 0) for k, gap in enumerate(gaps)]
        return [_flag(turn, gap) for turn, gap in zip(trajectory.turns, gaps, strict=True)]


def transitions() -> Transitions:
    """Which turns led from one state to another: those that were executed and answered.

    Returns:
        A TURN observer of 1 and 0: 0 for a move that never reached the environment, and for one without a call that
        nothing answered (the final answer), neither as text nor as tokens.

    Example:
        >>> from apportion.rollouts import Action
        >>> turns = [Turn(actions=(Action("search"),), observation="found"), Turn(text="It is 42.")]
        >>> [v.value for v in transitions().observe([Trajectory(id="r", group="q", turns=turns)])[0]]
        [1.0, 0.0]
    """
    return Transitions()


def _flag(turn: Turn, gap: int) -> Verdict:
    if not turn.executed:
        return Scored(0.0, "the move never reached the environment")
    if turn.actions:
        return Scored(1.0, "a call")
    return _answered(bool(turn.observation) or gap > 0)


def _answered(yes: bool) -> Verdict:
    return Scored(1.0, "answered") if yes else Scored(0.0, "an answer that nothing followed")
