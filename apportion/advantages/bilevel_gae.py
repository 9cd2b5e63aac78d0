"""Bi-level GAE: credit first between turns, then between the tokens of a turn."""

from __future__ import annotations

from apportion.advantages.gae import critic_targets, gae
from apportion.advantages.place import on_last_token
from apportion.advantages.states import critic_values, turn_values
from apportion.advantages.td import td
from apportion.rollouts import Level
from apportion.signal import Signal

__all__ = ["bilevel_gae"]


def bilevel_gae(
    reward: Signal,
    values: Signal,
    last: Signal,
    *,
    turn_discount: float = 0.95,
    turn_lam: float = 1.0,
    discount: float = 1.0,
    lam: float = 1.0,
) -> Signal:
    """GAE over turns; what it makes of a turn is the reward on the turn's last token in a GAE over its tokens.

        V_k = V of the last policy token of turn k
        A_k = r_k + turn_discount * V_{k+1} - V_k + turn_discount * turn_lam * A_{k+1}       G_k = A_k + V_k
        A_t = delta_t + discount * lam * A_{t+1}    inside turn k, with G_k as its reward and nothing after it

    Args:
        reward: per turn or trajectory.
        values: V of the state before each policy token, TOKEN.
        last: V of the last state, TRAJECTORY, see `last_values`.
        turn_discount: gamma from turn to turn.
        turn_lam: lambda from turn to turn.
        discount: gamma from token to token inside a turn.
        lam: lambda from token to token inside a turn.

    Returns:
        Token-level advantages; A_t + V_t are the critic's targets. With one turn and discounts and lambdas of 1 it is
        `gae`. Trajectories without any known reward are ABSENT, and so are the tokens of a turn whose own advantage is
        not known: V at its end, or at that of the next turn, is missing.

    Raises:
        InvalidArgument: signals that do not fit, text-only rollouts, or a discount or lambda outside [0, 1].

    Example:
        >>> from apportion.advantages.states import last_values
        >>> from apportion.batch import Batch
        >>> b = Batch.of(groups=["q"], turns=[2], tokens=[2, 2])
        >>> v = Signal.of(b, Level.TOKEN, [0.3, 0.4, 0.5, 0.6], name="value")
        >>> a = bilevel_gae(Signal.of(b, Level.TURN, [0.0, 1.0], name="r"), v, last_values(b))
        >>> [round(x, 4) for x in a.values.tolist()]
        [0.65, 0.55, 0.5, 0.4]

    Source: the public code of VAGEN and RAGEN (arXiv 2504.20073), whose scripts have turn_discount=0.95. Its turn-wise
    variant, which gives every token the advantage of its turn, is `gae` of `turn_values(..., read="last")`.
    """
    turns = turn_values(values, last, read="last")
    advantage = gae(reward, turns, discount=turn_discount, lam=turn_lam)
    target = critic_targets(advantage, turns.before)
    inside = critic_values(values, Signal.zeros(values.batch, Level.TURN, name="value"))
    credit = td(inside, reward=on_last_token(target), discount=discount, lam=lam, n_step=None, within=Level.TURN)
    # A turn without a return is not one with the return 0.
    return credit.masked(values.batch.spread(target.known, Level.TURN, Level.TOKEN))
