"""HDL: continue rollouts where hindsight would have written something else, and compare all attempts at the prompt."""

from __future__ import annotations

from collections.abc import Mapping

from apportion.advantages.group_stat import group_stat
from apportion.batch import Batch
from apportion.recipe import Recipe, State
from apportion.recipes.suffix_only import suffix_only
from apportion.recipes.tree_inputs import branches_needed, tree_observers, tree_of
from apportion.rewards import Truncated, outcome
from apportion.signal import Signal

__all__ = ["hdl"]


def hdl(*, reward: str = "reward", truncated: Truncated = "keep") -> Recipe:
    """Roots and continuations of a prompt are one group, centred; a continuation learns from its branch point on.

        A_i = R_i - mean_group R        t >= branch point of i, else 0

    Where to branch is planned before: `apportion.advantages.branch_plan` on |log p(y_t | feedback) - log p(y_t)|.

    Args:
        reward: trajectory column with the outcome.
        truncated: what a rollout cut by a limit earns: "keep", "zero" or "exclude".

    Degenerate cases: a group with one known outcome, or with equal ones, gets exactly 0. Where nothing was branched
    this is Dr.GRPO's advantage.

    Raises:
        MissingInput: when observing, no rollout says what it was branched off.
        InvalidArgument: when observing, a branch that does not repeat its parent.

    Source: arXiv 2609.36864.
    """

    def assign(batch: Batch, signals: Mapping[str, Signal], *, step: int | None, state: State) -> Signal:
        return suffix_only(group_stat(signals["outcome"], scale="none"), tree_of(signals, among=signals["outcome"]))

    return Recipe(
        name="hdl",
        observers=[outcome(reward, truncated=truncated), *tree_observers()],
        assign_signals=assign,
        aggregation="token-mean",
        paper="2609.36864",
        needs=(f"trajectory column {reward!r}", *branches_needed("recorded")),
        parameters={"reward": reward, "truncated": truncated},
    )
