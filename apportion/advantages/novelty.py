"""Novelty sharpening: of the rollouts that succeeded, those that the policy found less likely are pushed up further."""

from __future__ import annotations

import torch

from apportion.errors import InvalidArgument
from apportion.rollouts import Level
from apportion.signal import Signal

__all__ = ["novelty"]


def novelty(
    advantages: Signal,
    *,
    outcome: Signal,
    logp: Signal,
    strength: float = 2.5,
    cap: float = 0.5,
    success: float = 1.0,
) -> Signal:
    """Raise the advantage of successes whose log-probability is below that of their group.

        A_i' = A_i + min(max(strength * (1 - eta_i), 0), cap * A_i)      eta_i = exp(s_i - mean_g s)

    for rollouts with outcome >= success and A_i > 0; all others keep A_i.

    Args:
        advantages: A, one per trajectory, such as `grpo(outcome)`.
        outcome: one per trajectory of the same batch: who succeeded.
        logp: s, the mean log-probability of a trajectory's policy tokens under the sampler, in nats per token. From
            token values: `Signal.of(batch, Level.TOKEN, logps, name="logp").pool(Level.TRAJECTORY, "mean")`.
        strength: lambda_n.
        cap: kappa, the largest boost as a share of the advantage.
        success: outcome from which on a rollout counts as correct.

    Returns:
        The advantages with a ledger term "novelty" for what was added; missing ones stay missing. A rollout without a
        log-probability or an outcome is left as it is and enters no mean; neither does one without an advantage. A
        group of one has eta = 1, so nothing is added.

    Raises:
        InvalidArgument: signals that are not per trajectory or of different batches, or a negative number.

    Example:
        >>> from apportion.quick import rewards_signal
        >>> a = rewards_signal([1.0, 1.0, 1.0], name="outcome")
        >>> s = Signal.of(a.batch, Level.TRAJECTORY, [-0.2, -0.4, -0.6], name="logp")
        >>> [round(v, 4) for v in novelty(a, outcome=a, logp=s).ledger()["novelty"].tolist()]
        [0.0, 0.0, 0.4532]

    Source: XRPO, arXiv 2510.06672, of which a summary was read: both constants are the paper's, the form of min and max
    is a reconstruction.
    """
    for name, x in (("advantages", advantages), ("outcome", outcome), ("logp", logp)):
        if x.level != Level.TRAJECTORY or x.batch is not advantages.batch:
            raise InvalidArgument(name, x.level.name, "one value per trajectory (level TRAJECTORY), all of one batch")
    for name, number in (("strength", strength), ("cap", cap)):
        if not number >= 0:
            raise InvalidArgument(name, number, "a number >= 0")
    told = advantages.known & logp.known
    mean = logp.masked(told).pool(Level.GROUP, "mean").spread(Level.TRAJECTORY).values
    novel = told & outcome.known & (outcome.values >= success)
    room = cap * advantages.values.clamp_min(0.0)
    # Only what is less likely than the mean is raised, so the exponent is never positive and cannot overflow.
    raised = strength * -torch.expm1((logp.values - mean).clamp_max(0.0))
    boost = torch.where(novel, torch.minimum(raised, room), 0.0)
    return advantages.changed(advantages.values + boost, because="novelty")
