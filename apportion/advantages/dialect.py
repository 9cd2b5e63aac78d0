"""Dialects: the same word means different numbers in different frameworks, so a name says whose numbers.

"GRPO" of [1, 0, 0, 0]   apportion, trl, verl, openrlhf, slime  1.5   -0.5
                         rllm                                   1.732 -0.577
                         nemo-rl                                1.0   -0.577
                         prime-rl                               0.75  -0.25
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from apportion.advantages.aggregation import Aggregation
from apportion.advantages.group_stat import Center, Scale, Singleton
from apportion.errors import InvalidArgument

__all__ = ["DIALECTS", "Dialect", "dialect"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """What one framework means by "GRPO".

    Attributes:
        name: how it is asked for.
        center: the centre, see `group_stat`.
        scale: the scale, see `group_stat`.
        ddof: 1 = sample, 0 = population standard deviation.
        eps: added to the scale.
        singleton: what a group with one known reward gets.
        scale_key: whose standard deviation divides: that of the "group" or of the "batch".
        aggregation: the loss aggregation that the framework uses unless told otherwise.
        evidence: what was run and what was only read.
    """

    name: str
    center: Center = "mean"
    scale: Scale = "std"
    ddof: int = 1
    eps: float = 0.0
    singleton: Singleton = "zero"
    scale_key: Literal["group", "batch"] = "group"
    aggregation: Aggregation = "seq-mean-token-mean"
    evidence: str = ""


DIALECTS: Mapping[str, Dialect] = {
    made.name: made
    for made in (
        Dialect(name="apportion", evidence="the default: exact zeros for singletons and constant groups, no epsilon"),
        Dialect(
            name="trl",
            eps=1e-4,
            aggregation="token-mean",
            evidence="run: trl 1.16.0; the aggregation is that of its default loss_type, dapo",
        ),
        Dialect(
            name="verl",
            eps=1e-6,
            singleton="raw",
            aggregation="token-mean",
            evidence="run: verl 0.9.1; it divides a singleton by 1 + eps, which is left out here",
        ),
        Dialect(
            name="openrlhf",
            eps=1e-9,
            aggregation="token-mean",
            evidence="read: OpenRLHF group_norm and its default token_level_loss; a singleton there is NaN",
        ),
        Dialect(name="slime", eps=1e-6, evidence="read: slime; its aggregation, sum_of_sample_mean, by name only"),
        Dialect(
            name="nemo-rl",
            center="loo",
            scale="loo_std",
            eps=1e-6,
            aggregation="token-mean",
            evidence="read: NeMo-RL, leave-one-out; no division where the others agree; aggregation of its examples",
        ),
        Dialect(
            name="prime-rl",
            scale="none",
            aggregation="token-mean",
            evidence="read: prime-rl without its optional length penalty; the aggregation was not traced",
        ),
        Dialect(
            name="rllm",
            ddof=0,
            eps=1e-6,
            singleton="raw",
            aggregation="token-mean",
            evidence="read: rLLM; it divides a singleton by 1 + eps, left out here; the aggregation is veRL's",
        ),
    )
}


def dialect(name: str | Dialect) -> Dialect:
    """The dialect of a name; a `Dialect` of your own stays itself.

    Raises:
        InvalidArgument: an unknown name (all are listed).

    Example:
        >>> dialect("trl").eps
        0.0001
    """
    if isinstance(name, Dialect):
        return name
    if name not in DIALECTS:
        raise InvalidArgument("dialect", name, f"one of {', '.join(sorted(DIALECTS))}, or a Dialect")
    return DIALECTS[name]
