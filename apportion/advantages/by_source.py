"""Source-split normalisation: rollouts of different origin are compared with their own kind only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from apportion.advantages.group_stat import Singleton, group_stat
from apportion.errors import InvalidArgument
from apportion.rollouts import Level
from apportion.signal import Signal

__all__ = ["by_source"]


def by_source(
    x: Signal,
    *,
    source: Sequence[str],
    sources: Sequence[str] = ("policy", "external"),
    max_tokens: Mapping[str, int] | None = None,
    ddof: int = 1,
    eps: float = 0.0,
    singleton: Singleton = "zero",
    constant_tol: float | None = None,
) -> Signal:
    """GRPO inside every (group, source) pair.

        A_i = (x_i - mean_{g,src}) / (std_{g,src} + eps)

    Args:
        x: one reward per trajectory.
        source: B names, each one of `sources`.
        sources: the names that may occur. A batch need not hold all of them, so only what is declared here tells a
            batch without external rollouts from a misspelt name.
        max_tokens: for a source, the policy tokens from which on longer rollouts leave (ABSENT, in no statistic).
        ddof: 1 = sample, 0 = population standard deviation.
        eps: added to it.
        singleton: what the only known reward of its group and source gets.
        constant_tol: see `group_stat`.

    Returns:
        Advantages per trajectory; constant pairs exactly 0, missing rewards and dropped rollouts ABSENT. The weight of
        off-policy rollouts is a matter of the loss, not of this function.

    Raises:
        InvalidArgument: x not per trajectory, another number of names, a name in `source` or `max_tokens` that is not
            declared, or a limit on text-only rollouts.

    Example:
        >>> from apportion.quick import rewards_signal
        >>> x = rewards_signal([0.0, 0.0, 1.0, 0.0, 1.0, 0.0])
        >>> [round(v, 4) for v in by_source(x, source=["policy"] * 4 + ["external"] * 2).values.tolist()]
        [-0.5, -0.5, 1.5, -0.5, 0.7071, -0.7071]

    Source: ERILS, of which only the abstract was read: the split is stated there, the formula is a reconstruction.
    """
    if x.level != Level.TRAJECTORY:
        raise InvalidArgument("x", x.level.name, "one reward per trajectory (level TRAJECTORY)")
    if len(source) != len(x.batch):
        raise InvalidArgument("source", len(source), f"{len(x.batch)} names, one per trajectory")
    number = {name: i for i, name in enumerate(dict.fromkeys(sources))}
    for argument, names in (("source", source), ("max_tokens", max_tokens or ())):
        if undeclared := sorted(set(names) - set(number)):
            raise InvalidArgument(argument, undeclared, f"names declared in sources={tuple(sources)}")
    origin = torch.tensor([number[name] for name in source], dtype=torch.int64, device=x.values.device)
    if max_tokens:
        limits = torch.full((len(number),), torch.iinfo(torch.int64).max, device=x.values.device)
        for name, limit in max_tokens.items():
            limits[number[name]] = limit
        x = x.masked(x.batch.lengths(Level.TOKEN, Level.TRAJECTORY) <= limits[origin])
    key = x.batch.group * len(number) + origin
    return group_stat(x, key=key, ddof=ddof, eps=eps, singleton=singleton, constant_tol=constant_tol)
