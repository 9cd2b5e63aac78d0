"""GiGPO: turns that started from the same state are compared with one another."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Literal, TypeAlias, get_args

from apportion.advantages.group_stat import group_stat
from apportion.advantages.keys import within_group
from apportion.advantages.place import on_last_turn
from apportion.advantages.return_to_go import return_to_go
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.recipe import Recipe, State
from apportion.rewards import Reward, Truncated, outcome, step_reward
from apportion.rewards.anchors import Match, anchor
from apportion.rewards.steps import Unpaid
from apportion.rollouts import Level
from apportion.signal import Signal

__all__ = ["gigpo"]

Mode: TypeAlias = Literal["mean", "mean_std"]
Paid: TypeAlias = Literal["outcome", "turns", "both"]


def gigpo(
    *,
    step_weight: float = 1.0,
    discount: float = 0.95,
    mode: Mode = "mean",
    eps: float = 1e-6,
    match: Match = "exact",
    similarity: float = 0.95,
    anchors: str | None = None,
    paid: Paid = "outcome",
    turn_reward: str | None = None,
    unpaid: Unpaid = "abstain",
    reward: str = "reward",
    truncated: Truncated = "keep",
) -> Recipe:
    """The group-relative outcome, and the discounted return of each turn among the turns that saw the same state.

        A_k = F_g(R) + step_weight * F_{g,anchor(k)}(Q_k)        Q_k = sum_{j >= k} discount^{j-k} r_j
        F:  mean      x - mean                mean_std  (x - mean) / (std + eps)

    Args:
        step_weight: omega.
        discount: gamma, per turn.
        mode: F.
        eps: added to the standard deviation (n - 1).
        match: "exact" compares states by their whole text; "similar" greedily, see `apportion.rewards.anchors`.
        similarity: the share from which two states count as one, for "similar".
        anchors: turn column with the state before each turn; default the observation that the turn before ended in.
        paid: r_k is the "outcome" on the last turn, what the environment paid for the "turns" (its rewards must then
            hold the final success too), or "both".
        turn_reward: turn column with the turns' rewards; default the environment's own, `Turn.reward`.
        unpaid: a turn that was not paid: "abstain", or "zero". In training only the latter goes on through a batch in
            which the environment paid nobody.
        reward: trajectory column with the outcome R.
        truncated: what a rollout cut by a limit earns: "keep", "zero" or "exclude".

    Degenerate cases: a state that one turn saw gives that turn 0, so free dialogue ends as GRPO; visits of one rollout
    to the same state all count. With an unknown return or state the turn keeps the outcome's part.

    Raises:
        InvalidArgument: an unknown choice, a discount outside [0, 1], a similarity outside [0, 1].
        MissingInput: when observing, rollouts without a table of turns, or turns that were not paid.

    Example:
        >>> from apportion.rollouts import Trajectory, Turn
        >>> def walk(name, seen, R):
        ...     turns = [Turn(columns={"at": state}) for state in seen]
        ...     return Trajectory(id=name, group="q", turns=turns, columns={"reward": R})
        >>> credit, _ = gigpo(anchors="at").score([walk("1", "abc", 1.0), walk("2", "adb", 0.0)])
        >>> [round(a, 5) for a in credit.advantages.values.tolist()]
        [0.95125, 0.975, 0.5, -0.95125, -0.5, -0.975]

    Source: arXiv 2505.10978 and its code, where groups of one prompt alone keep their raw reward; here they get 0.
    """
    for name, value, choices in (("mode", mode, get_args(Mode)), ("paid", paid, get_args(Paid))):
        if value not in choices:
            raise InvalidArgument(name, value, f"one of {', '.join(choices)}")
    if not 0 <= discount <= 1:
        raise InvalidArgument("discount", discount, "a number in [0, 1]")
    relative = partial(group_stat, scale="none" if mode == "mean" else "std", ddof=1, eps=eps)

    def assign(batch: Batch, signals: Mapping[str, Signal], *, step: int | None, state: State) -> Signal:
        solved, seen = signals["outcome"], signals["anchor"]
        earned = on_last_turn(solved)
        if paid != "outcome":
            turns = signals["turn_reward"]
            earned = turns if paid == "turns" else earned + turns
        returns = return_to_go(earned, discount=discount).masked(seen.known).named("step return")
        steps = relative(returns, key=within_group(batch, Level.TURN, seen.values))
        return relative(solved) + steps * step_weight

    observers: list[Reward] = [
        outcome(reward, truncated=truncated),
        anchor(match=match, at_least=similarity, state=anchors),
    ]
    if paid != "outcome":
        observers.append(step_reward(column=turn_reward, name="turn_reward", unpaid=unpaid))
    return Recipe(
        name="gigpo",
        observers=observers,
        assign_signals=assign,
        aggregation="token-mean",
        paper="2505.10978",
        needs=(
            f"trajectory column {reward!r}",
            "observations of turns" if anchors is None else f"turn column {anchors!r}",
        ),
        parameters={
            "step_weight": step_weight,
            "discount": discount,
            "mode": mode,
            "eps": eps,
            "match": match,
            "similarity": similarity,
            "anchors": anchors,
            "paid": paid,
            "turn_reward": turn_reward,
            "unpaid": unpaid,
            "reward": reward,
            "truncated": truncated,
        },
    )
