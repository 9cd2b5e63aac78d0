"""TRACE: what a state is worth is the share of the task's facts that lookups have brought so far."""

from collections.abc import Sequence

from apportion.rollouts import Trajectory
from apportion.verdicts import Abstained, Scored, Verdict


class FactsSeen:
    """0 at the start, 1 when both lookups were answered."""

    name = "facts seen"

    def values(self, trajectories: Sequence[Trajectory]) -> list[list[Verdict]]:
        """One per state."""
        return [self._states(t) for t in trajectories]

    def _states(self, rollout: Trajectory) -> list[Verdict]:
        facts = rollout.columns.get("facts")
        if not facts:
            return [Abstained("the data set's row lists no facts")] * (rollout.n_turns + 1)
        seen, made = "", [Scored(0.0)]
        for turn in rollout.turns:
            seen += turn.observation
            made.append(Scored(sum(str(fact) in seen for fact in facts) / len(facts)))
        return made


potential = FactsSeen()
