"""verifiers 0.4, whose traces prime-rl trains on: rewards as scoring functions, traces as rollouts, credit in them.

    as_reward(reward)          a scoring function for a task's configuration
    rollout_of(trace)          tokens, turns, calls, rewards and metrics of one branch
    assign(traces, recipe)     per-token advantages in `MessageNode.advantages`

Nothing here imports verifiers but the mark that `as_reward` sets: traces are read by their attributes.
"""

from __future__ import annotations

from apportion.integrations.verifiers.credit import assign
from apportion.integrations.verifiers.rewards import as_reward
from apportion.integrations.verifiers.traces import rollout_of

__all__ = ["as_reward", "assign", "rollout_of"]
