"""GAE: advantages from a critic, over policy tokens or over turns; and the targets that the critic learns from."""

from __future__ import annotations

from torch import Tensor

from apportion.advantages.place import on_last_token, on_last_turn
from apportion.advantages.states import StateValues
from apportion.advantages.td import td
from apportion.rollouts import Level
from apportion.signal import Signal

__all__ = ["critic_targets", "gae", "lambda_returns"]


def gae(reward: Signal, values: StateValues, *, discount: float = 1.0, lam: float | Tensor = 0.95) -> Signal:
    """Generalised advantage estimation, as if there were nothing but the policy's own tokens (or turns).

        delta_t = r_t + discount * V(s_{t+1}) - V(s_t)
        A_t = delta_t + discount * lam * A_{t+1}

    Args:
        reward: per element, or at a coarser level: it then sits on the last policy token (turn) of its turn or
            trajectory.
        values: V before and after every policy TOKEN or TURN, see `critic_values`, `turn_values`, `last_values`.
        discount: gamma in [0, 1]; one step per element, none per observation token.
        lam: lambda in [0, 1], or float[B] with one per trajectory.

    Returns:
        A signal at the values' level with the ledger terms of reward and values. Trajectories without any known reward
        are ABSENT, and so is an element whose value is not known; see `td`. A single element gets r - V.

    Raises:
        InvalidArgument: signals that do not fit, discount or lam outside [0, 1].

    Example:
        >>> from apportion.advantages.states import critic_values, last_values
        >>> from apportion.batch import Batch
        >>> b = Batch.of(groups=["q"], turns=[2], tokens=[1, 1])
        >>> v = critic_values(Signal.of(b, Level.TOKEN, [0.5, 0.5], name="value"), last_values(b))
        >>> gae(Signal.of(b, Level.TRAJECTORY, [1.0], name="outcome"), v).values.tolist()
        [0.475, 0.5]

    Source: arXiv 1506.02438. Popular code runs the recursion through observation tokens, drops the rewards on them, or
    counts every cut as an end; compared in tests/differential.
    """
    return td(values, reward=_placed(reward, values.before.level), discount=discount, lam=lam, n_step=None)


def lambda_returns(reward: Signal, values: StateValues, *, discount: float = 1.0, lam: float | Tensor = 1.0) -> Signal:
    """What a critic should have said: the lambda-return of every state.

        G_t = A_t + V(s_t) = r_t + discount * ((1 - lam) V(s_{t+1}) + lam G_{t+1})

    Args:
        reward: as in `gae`.
        values: as in `gae`.
        discount: as in `gae`.
        lam: 1 = the discounted return that was seen (no value of the critic in it but a bootstrap), 0 = one step.

    Returns:
        A signal at the values' level; ABSENT where there is nothing to learn, see `gae`.

    Raises:
        InvalidArgument: as `gae`.

    Example:
        >>> from apportion.advantages.states import critic_values, last_values
        >>> from apportion.batch import Batch
        >>> b = Batch.of(groups=["q"], tokens=[2])
        >>> v = critic_values(Signal.of(b, Level.TOKEN, [0.5, 0.25], name="value"), last_values(b))
        >>> lambda_returns(Signal.of(b, Level.TRAJECTORY, [1.0], name="outcome"), v).values.tolist()
        [1.0, 1.0]

    Source: arXiv 1506.02438.
    """
    return critic_targets(gae(reward, values, discount=discount, lam=lam), values.before)


def critic_targets(advantage: Signal, before: Signal) -> Signal:
    """What a critic should have said, from an advantage that is there already.

        G_t = A_t + V(s_t)

    Args:
        advantage: A, of a critic's values.
        before: those values, of the same level.

    Returns:
        A signal at that level; ABSENT where the advantage is not known.

    Example:
        >>> from apportion.batch import Batch
        >>> b = Batch.of(groups=["q"], tokens=[2])
        >>> v = Signal.of(b, Level.TOKEN, [0.5, 0.25], name="value")
        >>> critic_targets(Signal.of(b, Level.TOKEN, [0.5, None], name="outcome"), v).values.tolist()
        [1.0, 0.0]
    """
    return advantage + before.masked(advantage.known).neutral()


def _placed(reward: Signal, level: Level) -> Signal:
    if level == Level.TOKEN and reward.level in (Level.TURN, Level.TRAJECTORY):
        return on_last_token(reward)
    if level == Level.TURN and reward.level == Level.TRAJECTORY:
        return on_last_turn(reward)
    if level == reward.level == Level.TURN and reward.batch.has_tokens:
        # What a turn without policy tokens earned belongs to the turn before it.
        return on_last_token(reward).pool(Level.TURN)
    return reward
