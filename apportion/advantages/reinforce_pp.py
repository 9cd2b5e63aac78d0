"""REINFORCE++: returns of single tokens, whitened over the batch; and its group-baseline form."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from apportion.advantages.group_stat import Singleton, Unit, group_stat
from apportion.advantages.place import on_last_token
from apportion.advantages.return_to_go import return_to_go
from apportion.advantages.whiten import whiten
from apportion.errors import InvalidArgument
from apportion.rollouts import Level
from apportion.signal import Signal

__all__ = ["penalised_rewards", "reinforce_pp", "reinforce_pp_baseline"]


def reinforce_pp(
    x: Signal,
    *,
    beta: float = 0.0,
    logps: Tensor | None = None,
    ref_logps: Tensor | None = None,
    discount: float = 1.0,
    ddof: int = 1,
    variance_eps: float = 0.0,
) -> Signal:
    """Return-to-go of outcome and KL penalty per token, whitened over all policy tokens of the batch.

        A_t = whiten( sum_{s >= t} discount^(s-t) r_s )        r = penalised_rewards(x)

    Args:
        x: the outcome per trajectory (or a reward per turn).
        beta: see `penalised_rewards`.
        logps: see `penalised_rewards`.
        ref_logps: see `penalised_rewards`.
        discount: gamma, one step per policy token; observation tokens neither count nor carry KL.
        ddof: 1 = sample, 0 = population variance.
        variance_eps: see `whiten`; veRL has 1e-8.

    Returns:
        Token-level advantages. Trajectories without a known outcome are ABSENT and in no statistic. A batch whose
        returns are all equal is exactly 0; with one policy token in the batch whitening is skipped, see `whiten`.

    Raises:
        InvalidArgument: as `penalised_rewards`.

    Example:
        >>> from apportion.quick import rewards_signal
        >>> reinforce_pp(rewards_signal([1.0, 0.0], tokens=[1, 3])).values.tolist()
        [1.5, -0.5, -0.5, -0.5]

    Source: arXiv 2501.03262. No group is used, so a constant group is not 0.
    """
    rewards = penalised_rewards(x, beta=beta, logps=logps, ref_logps=ref_logps)
    returns = return_to_go(rewards, discount=discount)
    return whiten(returns.neutral(), ddof=ddof, variance_eps=variance_eps)


def penalised_rewards(
    x: Signal, *, beta: float = 0.0, logps: Tensor | None = None, ref_logps: Tensor | None = None
) -> Signal:
    """The outcome on the last policy token and the KL penalty on every one.

        r_t = x on the last policy token - beta * (log pi(y_t) - log pi_ref(y_t))

    Args:
        x: the outcome per trajectory (or a reward per turn).
        beta: KL coefficient; the penalty is the ledger term "kl".
        logps: float[N] log-probabilities of the policy tokens under the policy, natural log; detached.
        ref_logps: float[N] the same under the reference.

    Returns:
        Token-level rewards. Tokens of a trajectory without any known reward carry no penalty: they are in no statistic.

    Raises:
        InvalidArgument: a negative beta, beta without both log-probability tensors or they without beta, tensors of a
            wrong size or with a value that is not finite, or text-only rollouts.

    Example:
        >>> from apportion.quick import rewards_signal
        >>> logps, ref_logps = torch.tensor([-1.0, -1.0]), torch.tensor([-1.5, -1.0])
        >>> x = rewards_signal([1.0], tokens=[2])
        >>> penalised_rewards(x, beta=0.5, logps=logps, ref_logps=ref_logps).values.tolist()
        [-0.25, 1.0]
    """
    if not beta >= 0:
        raise InvalidArgument("beta", beta, "a number >= 0")
    rewards = on_last_token(x)
    if (logps is None) != (beta == 0) or (ref_logps is None) != (beta == 0):
        given = [name for name, value in (("logps", logps), ("ref_logps", ref_logps)) if value is not None]
        raise InvalidArgument("beta", beta, f"above 0 with logps and ref_logps, 0 without; got {given or 'neither'}")
    if logps is None or ref_logps is None:
        return rewards
    size = x.batch.n_tokens
    wrong = [tuple(t.shape) for t in (logps, ref_logps) if t.shape != (size,)]
    if wrong:
        raise InvalidArgument("logps", wrong, f"shape ({size},), one per policy token")
    k1 = logps.detach().to(torch.float64) - ref_logps.detach().to(torch.float64)
    scored = x.batch.pool(x.known.to(torch.float64), x.level, Level.TRAJECTORY, "sum") > 0
    known = x.batch.spread(scored, Level.TRAJECTORY, Level.TOKEN)
    return rewards - beta * Signal.of(x.batch, Level.TOKEN, k1, name="kl", known=known)


def reinforce_pp_baseline(
    x: Signal,
    *,
    unit: Unit = "token",
    singleton: Singleton = "zero",
    ddof: int = 1,
    variance_eps: float = 0.0,
    constant_tol: float | None = None,
) -> Signal:
    """Reward minus its group's mean, then whitened over the batch.

        A_i = whiten(x_i - mean_g)

    Args:
        x: rewards, usually one per trajectory.
        unit: what counts once in the whitening: a "token" (veRL) or an "element" of x.
        singleton: what a group with one known reward gets before the whitening.
        ddof: 1 = sample, 0 = population variance.
        variance_eps: see `whiten`; veRL has 1e-8.
        constant_tol: see `group_stat`.

    Returns:
        Advantages at x's level; missing rewards ABSENT. Under token weights the batch mean is not 0 where lengths and
        rewards go together, so a constant group then gets minus that mean: part of the method.

    Raises:
        InvalidArgument: unit "token" on text-only rollouts.

    Example:
        >>> from apportion.quick import rewards_signal
        >>> x = rewards_signal([1.0, 0.0, 1.0, 1.0], groups=["a", "a", "b", "b"], tokens=[1, 1, 1, 1])
        >>> [round(v, 4) for v in reinforce_pp_baseline(x).values.tolist()]
        [1.2247, -1.2247, 0.0, 0.0]

    Source: arXiv 2501.03262.
    """
    centred = group_stat(x, scale="none", singleton=singleton, constant_tol=constant_tol)
    # Groups that sum to 0 make a batch that does: subtracting the rounding error of its mean would only move dead
    # groups off 0.
    center: Literal["mean", "none"] = "none" if unit == "element" and singleton != "raw" else "mean"
    return whiten(centred, unit=unit, center=center, ddof=ddof, variance_eps=variance_eps, constant_tol=constant_tol)
