"""UI-S1: steps along an expert's trajectory; a step that misses cuts the credit on both of its sides."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Literal, TypeAlias, get_args

from apportion.advantages.group_stat import Unit, group_stat
from apportion.advantages.keys import step_index, within_group
from apportion.advantages.return_to_go import return_to_go
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.recipe import Recipe, State
from apportion.recipes.columns import turn_column
from apportion.rewards import Reward, Truncated, outcome, step_reward
from apportion.rollouts import Level
from apportion.signal import Signal

__all__ = ["ui_s1"]

_HOW = "record 1 for every turn that did what the expert did and 0 for the others, or name another column"

Mode: TypeAlias = Literal["mean", "mean_std"]
Episode: TypeAlias = Literal["score", "outcome"]


def ui_s1(
    *,
    episode_weight: float = 1.0,
    step_weight: float = 1.0,
    discount: float = 0.5,
    mode: Mode = "mean_std",
    eps: float = 1e-6,
    episode: Episode = "score",
    unit: Literal["element", "trajectory"] = "element",
    score: str | None = "score",
    matched: str = "matched",
    reward: str = "reward",
    truncated: Truncated = "keep",
) -> Recipe:
    """What a step scored among all steps of its prompt, and its return among the steps of the same place.

        A_k = episode_weight * F_g(E_k) + step_weight * F_{g,k}(Q_k)
        Q_k = score_k + discount * Q_{k+1} while steps match the expert;   Q_k = score_k where one does not, and the
        step before it starts anew
        E_k = score_k ("score"), or the rollout's outcome R at every step ("outcome")
        F:  mean      x - mean                mean_std  (x - mean) / (std + eps)

    Args:
        episode_weight: w_e.
        step_weight: w_s.
        discount: gamma, per turn.
        mode: F.
        eps: added to the standard deviation (n - 1).
        episode: E. In the code every training row is one step and is paid its own score.
        unit: what counts once in the mean of E: an "element", that is a step (the code), or a "trajectory".
        score: turn column with the score of a step; None = the environment's own, `Turn.reward`.
        matched: turn column, 1 where the step is the expert's and 0 where it is not.
        reward: trajectory column with the outcome R, for episode="outcome".
        truncated: what a rollout cut by a limit earns: "keep", "zero" or "exclude".

    Degenerate cases: a place that one rollout reached gives its step 0; a step of which nobody knows whether it matched
    cuts like one that does not; an unknown score leaves both statistics, and the steps before it.

    Raises:
        InvalidArgument: an unknown choice, or a discount outside [0, 1].
        MissingInput: when observing, no turn has the columns.

    Example:
        >>> from apportion.rollouts import Trajectory, Turn
        >>> def steps(name, *rows):
        ...     return Trajectory(id=name, group="q", turns=[Turn(columns={"score": s, "matched": m}) for s, m in rows])
        >>> rollouts = [steps("1", (1, 1), (0.1, 0), (1, 1)), steps("2", (1, 1), (1, 1), (1, 1))]
        >>> credit, _ = ui_s1(mode="mean", episode_weight=0.0).score(rollouts)
        >>> [round(a, 3) for a in credit.advantages.values.tolist()]
        [-0.375, -0.7, 0.0, 0.375, 0.7, 0.0]

    Source: arXiv 2509.11543 as its code has it. Turns are the sampled steps, also those that missed; what an expert did
    in their place is no turn but part of what the policy saw next.
    """
    checked = (("mode", mode, Mode), ("episode", episode, Episode), ("unit", unit, Literal["element", "trajectory"]))
    for name, value, choices in checked:
        if value not in get_args(choices):
            raise InvalidArgument(name, value, f"one of {', '.join(get_args(choices))}")
    if not 0 <= discount <= 1:
        raise InvalidArgument("discount", discount, "a number in [0, 1]")
    relative = partial(group_stat, scale="none" if mode == "mean" else "std", ddof=1, eps=eps)
    pooled: Unit = unit

    def assign(batch: Batch, signals: Mapping[str, Signal], *, step: int | None, state: State) -> Signal:
        scored, match = signals["score"], signals["matched"]
        returns = return_to_go(scored, discount=discount, stop=~(match.known & (match.values > 0)))
        # What follows a step without a score is not that step's return.
        returns = returns.masked(scored.known)
        steps = relative(returns, key=within_group(batch, Level.TURN, step_index(batch)))
        whole = scored if episode == "score" else signals["outcome"].spread(Level.TURN)
        return relative(whole, unit=pooled) * episode_weight + steps * step_weight

    observers: list[Reward] = [step_reward(column=score, name="score"), turn_column(matched, name="matched", how=_HOW)]
    if episode == "outcome":
        observers.append(outcome(reward, truncated=truncated))
    where = "rewards of turns (Turn.reward)" if score is None else f"turn column {score!r}"
    return Recipe(
        name="ui_s1",
        observers=observers,
        assign_signals=assign,
        aggregation="token-mean",
        paper="2509.11543",
        needs=(where, f"turn column {matched!r}"),
        parameters={
            "episode_weight": episode_weight,
            "step_weight": step_weight,
            "discount": discount,
            "mode": mode,
            "eps": eps,
            "episode": episode,
            "unit": unit,
            "score": score,
            "matched": matched,
            "reward": reward,
            "truncated": truncated,
        },
    )
