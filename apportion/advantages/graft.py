"""Peer replacement: a prompt on which every rollout failed takes the whole group of a peer policy that solved some.

    graftable   which prompts: all failed here, some solved there          balanced   equally many in both directions
    peer_weight how believable a peer's rollout is to the receiver         graft      the batch to train on, peers last

The receiver is the policy that trains, the peer another policy that answered the same prompts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from apportion.advantages.group_stat import group_statistics
from apportion.batch import Batch
from apportion.errors import InvalidArgument, MissingInput
from apportion.rollouts import Level
from apportion.segments import gather_segments
from apportion.signal import Signal, Term

__all__ = ["Grafted", "balanced", "graft", "graftable", "peer_weight"]


def graftable(receiver: Signal, peer: Signal, *, success: float = 1.0) -> dict[str, int]:
    """The prompts that a receiver may take from a peer, with the number of the peer's successes.

        eligible_q = no receiver rollout of q succeeds  and  1 <= successes of the peer < its rollouts

    Args:
        receiver: outcomes of the receiver, one per trajectory.
        peer: outcomes of the peer, one per trajectory of another batch; groups of the same id are the same prompt.
        success: outcome from which on a rollout counts as solved.

    Returns:
        Prompt -> successes of the peer, in the receiver's order. Missing outcomes count on neither side, and a prompt
        without a known outcome on one of the sides is not eligible.

    Example:
        >>> from apportion.quick import rewards_signal
        >>> receiver = rewards_signal([0, 0, 1, 0, 0, 0], groups=list("aabbcc"))
        >>> graftable(receiver, rewards_signal([1, 0, 1, 0, 1, 1], groups=list("aabbcc")))
        {'a': 1}

    Source: GRAFT, arXiv 2609.37868.
    """
    solved, answered = (_solved(x, success) for x in (receiver, peer))
    return {
        q: answered[q][0]
        for q, (won, n) in solved.items()
        if q in answered and n > 0 and won == 0 and 1 <= answered[q][0] < answered[q][1]
    }


def balanced(one: Mapping[str, int], other: Mapping[str, int]) -> tuple[list[str], list[str]]:
    """Equally many prompts in both directions, those with the most successes of the peer first.

    m = min(len(one), len(other)); each side keeps its m prompts of the most successes, and all that tie with the last.

    Args:
        one: what `graftable` found in one direction.
        other: in the other direction.

    Example:
        >>> balanced({"a": 3, "b": 1, "c": 3}, {"d": 5})
        (['a', 'c'], ['d'])

    Source: GRAFT, arXiv 2609.37868.
    """
    m = min(len(one), len(other))

    def top(counts: Mapping[str, int]) -> list[str]:
        least = sorted(counts.values(), reverse=True)[m - 1] if m else float("inf")
        return [prompt for prompt, count in counts.items() if count >= least]

    return top(one), top(other)


def peer_weight(own: Signal, peer: Signal, *, threshold: float = 0.8) -> Signal:
    """How much a peer's rollout counts: its likelihood under the receiver relative to that under the peer.

        s_i = exp(own_i - peer_i)        w_i = min(s_i, 1) if s_i > threshold, else the sequence leaves

    Args:
        own: mean log-probability per token under the receiver's old policy, over the rollout *as the receiver tokenises
            it*; one per trajectory, nats per token.
        peer: mean log-probability per token under the peer that sampled it, over the peer's own tokens.
        threshold: delta.

    Returns:
        Weights per trajectory in (threshold, 1]; ABSENT, to be dropped before the optimisation, at or below the
        threshold and where either log-probability is missing.

    Raises:
        InvalidArgument: signals that are not per trajectory or of different batches, or a threshold outside [0, 1].

    Example:
        >>> from apportion.quick import rewards_signal
        >>> own, peer = rewards_signal([-0.5, -0.8, -0.3]), [-0.4] * 3
        >>> w = peer_weight(own, Signal.of(own.batch, Level.TRAJECTORY, peer, name="peer"))
        >>> [round(v, 4) for v in w.values.tolist()], w.known.tolist()
        ([0.9048, 0.0, 1.0], [True, False, True])

    Source: GRAFT, arXiv 2609.37868.
    """
    for name, x in (("own", own), ("peer", peer)):
        if x.level != Level.TRAJECTORY or x.batch is not own.batch:
            raise InvalidArgument(name, x.level.name, "one value per trajectory (level TRAJECTORY), both of one batch")
    if not 0 <= threshold < 1:
        raise InvalidArgument("threshold", threshold, "a number in [0, 1)")
    # exp of the positive part would overflow and is cut at 1 anyway.
    weight = torch.exp((own.values - peer.values).clamp_max(0.0))
    known = own.known & peer.known & (weight > threshold)
    return Signal.of(own.batch, Level.TRAJECTORY, weight, name="peer_weight", known=known)


@dataclass(frozen=True, eq=False, kw_only=True)
class Grafted:
    """A receiver's batch in which some groups are a peer's.

    Attributes:
        advantages: of the new batch, the peer's last. Those of the peer are its own, times `peer_weight`.
        prompts: how many groups were replaced.
        dropped: how many of the peer's rollouts left, as too unlikely under the receiver.
    """

    advantages: Signal
    prompts: int
    dropped: int

    @property
    def batch(self) -> Batch:
        """The new batch; its column "peer" is 1 on the peer's rollouts."""
        return self.advantages.batch


def graft(receiver: Signal, peer: Signal, *, prompts: Sequence[str], weight: Signal) -> Grafted:
    """Replace whole groups, successes and failures alike, by a peer's, with the peer's own advantages.

        A_i = w_i * A_i^peer        loss_t = -min(rho_t A_i, clip(rho_t) A_i),   rho_t = pi / pi_old of the *receiver*

    The advantages are not normalised again: w >= 0 multiplies both sides of the min alike. The ratio's denominator is
    the receiver's old policy on its own tokenisation, never the peer's: the batches carry it as the token column
    "trainer_logps". The loss is a token mean. Minibatches must be taken in the batch's order: with the peers first,
    rho = 1 and the clipping would be void.

    Args:
        receiver: finished advantages of the receiver's batch.
        peer: finished advantages of the peer's rollouts in a batch of the receiver's tokens; ids that differ from the
            receiver's, group ids that agree.
        prompts: the groups to replace, see `graftable` and `balanced`.
        weight: see `peer_weight`; of the peer's batch. Rollouts without one leave the loss and its denominators.

    Returns:
        The receiver's remaining rollouts and then the peer's, at the finer of the two levels, with the ledger of both.
        Without prompts the receiver's advantages are unchanged.

    Raises:
        InvalidArgument: a prompt that one of the batches lacks, a weight of another batch, or batches that do not go
            together (an id used twice, different columns).
        MissingInput: token rollouts without the column "trainer_logps".

    Example:
        >>> from apportion.quick import rewards_signal
        >>> mine = rewards_signal([0.0, 0.0, 0.7, -0.7], groups=list("aabb"))
        >>> batch = Batch.of(groups=["a", "a"], ids=["peer 0", "peer 1"])
        >>> theirs = Signal.of(batch, Level.TRAJECTORY, [0.7, -0.7], name="reward")
        >>> w = Signal.of(batch, Level.TRAJECTORY, [0.9, None], name="peer_weight")
        >>> made = graft(mine, theirs, prompts=["a"], weight=w)
        >>> [round(v, 2) for v in made.advantages.values.tolist()], made.batch.columns["peer"].tolist(), made.dropped
        ([0.7, -0.7, 0.63, 0.0], [0, 0, 1, 1], 1)

    Source: GRAFT, arXiv 2609.37868 (method section).
    """
    if weight.batch is not peer.batch or weight.level != Level.TRAJECTORY:
        raise InvalidArgument("weight", weight.level.name, "one weight per trajectory of the peer's batch")
    for name, batch in (("receiver", receiver.batch), ("peer", peer.batch)):
        if absent := sorted(set(prompts) - set(batch.group_ids)):
            raise InvalidArgument("prompts", absent, f"groups of the {name}'s batch")
        if batch.has_tokens and "trainer_logps" not in batch.token_columns:
            how = "score the tokens under the receiver's old policy, which is the ratio's denominator"
            raise MissingInput("graft", f"token column 'trainer_logps' of the {name}'s batch", how)
    level = min(receiver.level, peer.level, Level.TRAJECTORY)
    weighted = peer.scaled(weight.values, Level.TRAJECTORY).spread(level)
    weighted = weighted.masked(peer.batch.spread(weight.known, Level.TRAJECTORY, level))
    taken = _rows(peer.batch, prompts)
    stays = torch.ones_like(receiver.batch.group, dtype=torch.bool).index_fill(0, _rows(receiver.batch, prompts), False)
    kept = torch.nonzero(stays).flatten()
    sides = [side for side in ((receiver.spread(level), kept, 0), (weighted, taken, 1)) if side[1].numel()]
    return Grafted(
        advantages=_joined([_taken(x, rows, is_peer) for x, rows, is_peer in sides]),
        prompts=len(set(prompts)),
        dropped=int((~weight.known[taken]).sum()),
    )


def _solved(x: Signal, success: float) -> dict[str, tuple[int, int]]:
    """For every prompt its successes and its known outcomes."""
    if x.level != Level.TRAJECTORY:
        raise InvalidArgument("outcome", x.level.name, "one per trajectory (level TRAJECTORY)")
    won = torch.bincount(x.batch.group[x.known & (x.values >= success)], minlength=len(x.batch.group_ids))
    pairs = zip(won.tolist(), group_statistics(x).count.tolist(), strict=True)
    return dict(zip(x.batch.group_ids, pairs, strict=True))


def _rows(batch: Batch, prompts: Sequence[str]) -> Tensor:
    wanted = set(prompts)
    groups = [i for i, name in enumerate(batch.group_ids) if name in wanted]
    chosen = torch.tensor(groups, dtype=torch.int64, device=batch.device)
    return torch.nonzero(torch.isin(batch.group, chosen)).flatten()


def _taken(x: Signal, rows: Tensor, is_peer: int) -> Signal:
    at = rows if x.level == Level.TRAJECTORY else gather_segments(x.batch.lengths(x.level, Level.TRAJECTORY), rows)
    batch = x.batch.select(rows)
    columns = {**batch.columns, "peer": torch.full_like(batch.group, is_peer)}
    terms = {name: Term(x.level, values[at]) for name, values in x.ledger().items()}
    return replace(x, batch=replace(batch, columns=columns), values=x.values[at], presence=x.presence[at], terms=terms)


def _joined(parts: Sequence[Signal]) -> Signal:
    def column(name: str) -> Tensor:
        return torch.cat([x.terms[name].values if name in x.terms else torch.zeros_like(x.values) for x in parts])

    return Signal(
        batch=Batch.concat([x.batch for x in parts]),
        level=parts[0].level,
        values=torch.cat([x.values for x in parts]),
        presence=torch.cat([x.presence for x in parts]),
        terms={name: Term(parts[0].level, column(name)) for name in dict.fromkeys(n for x in parts for n in x.terms)},
        resolution=max(x.resolution for x in parts),
    )
