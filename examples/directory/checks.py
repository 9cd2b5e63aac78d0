"""ProCredit: acceptance checks of every state, here whether each fact of the task has been looked up."""

from apportion.rewards.potentials import checks_potential
from apportion.rollouts import Trajectory


def run(rollout: Trajectory) -> list[dict[str, bool] | None]:
    """The checks of the state before the first turn and after every turn."""
    facts = [str(fact) for fact in rollout.columns.get("facts") or ()]
    if not facts:
        return [None] * (rollout.n_turns + 1)
    seen = [""]
    for turn in rollout.turns:
        seen.append(seen[-1] + turn.observation)
    return [{fact: fact in text for fact in facts} for text in seen]


potential = checks_potential(run)
