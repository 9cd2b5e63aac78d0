"""ProCredit: acceptance checks as progress, across the attempts at a task and across the turns of one attempt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

from apportion.advantages.group_stat import group_stat
from apportion.advantages.return_to_go import return_to_go
from apportion.advantages.td import td
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.recipe import Recipe, State
from apportion.recipes.state_inputs import Given, States, carried
from apportion.rewards import Truncated, outcome
from apportion.rewards.potentials import checks_potential
from apportion.rollouts import Level
from apportion.signal import Signal

__all__ = ["procredit"]

Scaled: TypeAlias = Literal["none", "std"]
Counts: TypeAlias = Literal["turn", "trajectory"]


def procredit(
    *,
    progress_weight: float = 0.5,
    turn_weight: float = 1.0,
    discount: float = 1.0,
    turn_scale: Scaled = "none",
    turn_unit: Counts = "turn",
    eps: float = 1e-6,
    potential: Given = None,
    column: str = "checks",
    reward: str = "reward",
    truncated: Truncated = "keep",
) -> Recipe:
    """Outcome and final progress across attempts; what the checks still gained from each turn on, across turns.

        S_i = R_i + c Phi_{i,K}                       A^traj = (S_i - mean_g S) / (std_g S + eps)
        G_{i,k} = R_i + sum_{j >= k} discount^{j-k} c (Phi_j - Phi_{j-1})
        A^turn = G_{i,k} - mean over the turns of g   A = A^traj + turn_weight * A^turn
        With discount 1 and no scale, A_k - A_{k+1} = turn_weight * c * (Phi_k - Phi_{k-1}).

    Args:
        progress_weight: c.
        turn_weight: lambda.
        discount: gamma, per turn; R is not discounted.
        turn_scale: whether A^turn is divided by the standard deviation of G. Not known of the paper.
        turn_unit: what counts once in the mean of G, a "turn" or a "trajectory". Not known of the paper.
        eps: added to standard deviations (n).
        potential: Phi, a potential (such as `checks_potential` with a function that runs the checks), or a Python file
            that defines `potential`; default the recorded results of `checks_potential`.
        column: of recorded results; see `apportion.rewards.potentials.checks_potential`.
        reward: trajectory column with the outcome R.
        truncated: what a rollout cut by a limit earns: "keep", "zero" or "exclude".

    Degenerate cases: where no check was unmet Phi is 0, and what is left is GRPO plus the centred outcome;
    turn_weight=0 leaves GRPO of S. A group in which every attempt fails still learns from its progress. A state without
    a result is passed over: its turn gets what follows, the next known turn the whole step; a rollout without any
    result leaves both means. Phi is not 0 at the end, so this is no policy-invariant shaping.

    Raises:
        InvalidArgument: an unknown choice, or a discount outside [0, 1].
        MissingInput: neither a potential nor recorded checks.

    Source: arXiv 2609.27532, of which the abstract was read; both levels, c and lambda come from a design note.
    """
    for name, value, choices in (("turn_scale", turn_scale, Scaled), ("turn_unit", turn_unit, Counts)):
        if value not in get_args(choices):
            raise InvalidArgument(name, value, f"one of {', '.join(get_args(choices))}")
    if not 0 <= discount <= 1:
        raise InvalidArgument("discount", discount, "a number in [0, 1]")
    source = checks_potential(column=column) if potential is None else potential
    states = States(source, column=column, start_value=None)

    def assign(batch: Batch, signals: Mapping[str, Signal], *, step: int | None, state: State) -> Signal:
        solved, values = signals["outcome"], states.of(signals)
        final = (values.after.neutral().pool(Level.TRAJECTORY, "last") * progress_weight).named("progress")
        score = (solved + final).masked(solved.known & final.known)
        across = group_stat(score, ddof=0, eps=eps)
        steps = td(carried(values, values.after.known)).neutral().named("progress") * progress_weight
        ahead = return_to_go(steps, discount=discount)
        known = ahead.known & batch.spread(solved.known, Level.TRAJECTORY, Level.TURN)
        returns = (solved.spread(Level.TURN) + ahead).masked(known)
        unit: Literal["element", "trajectory"] = "element" if turn_unit == "turn" else "trajectory"
        within = group_stat(returns, scale=turn_scale, ddof=0, eps=eps, unit=unit)
        return across.spread(Level.TURN) + within * turn_weight

    recorded = f"turn column {column!r} and trajectory column '{column}_start', or potential="
    return Recipe(
        name="procredit",
        observers=[outcome(reward, truncated=truncated), *states.observers],
        assign_signals=assign,
        aggregation="seq-mean-token-mean",
        paper="2609.27532",
        needs=(f"trajectory column {reward!r}", *([recorded] if potential is None else [])),
        reconstruction="the two levels; whether the turn term has a standard deviation, and what its mean counts",
        parameters={
            "progress_weight": progress_weight,
            "turn_weight": turn_weight,
            "discount": discount,
            "turn_scale": turn_scale,
            "turn_unit": turn_unit,
            "eps": eps,
            "potential": states.source.name,
            "column": column,
            "reward": reward,
            "truncated": truncated,
        },
    )
