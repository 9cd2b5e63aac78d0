"""RLVP: the outcome, and beside it a penalty for what the path broke and credit for what it honoured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

from apportion.advantages import group_center, group_statistics, per_channel
from apportion.advantages.combine import Counted
from apportion.batch import Batch
from apportion.errors import InvalidArgument, MissingInput
from apportion.recipe import Recipe, State
from apportion.recipes.columns import turn_column
from apportion.recipes.files import load_rules
from apportion.rewards import Reward, Truncated, outcome, path
from apportion.rollouts import Level
from apportion.signal import Signal

__all__ = ["reachable_share", "rlvp", "rlvp_centred"]

Variant: TypeAlias = Literal["c1", "c2", "c3", "c4"]
Gate: TypeAlias = Literal["off", "reachable"]

# Episode totals count up to this in the outcome's scalar (variants c1, c3, c4).
_MOST = 2.0


def rlvp(
    *,
    penalty: float = 0.25,
    credit: float = 0.25,
    channel_weight: float = 1.0,
    variant: Variant = "c3",
    path_center: Literal["none", "group"] = "none",
    anneal_after: int | None = None,
    gate: Gate = "off",
    gate_share: float = 0.2,
    rules: str | None = None,
    violations: str = "violations",
    fulfilments: str = "fulfilments",
    reward: str = "reward",
    truncated: Truncated = "keep",
    force: str = "",
) -> Recipe:
    """Group-centred outcome plus an uncentred path channel, each with its own token denominator.

        A_t = (s_i - mean_g s) / N_out + channel_weight * (-penalty * v_k + credit * d_k) / N_path
        c1  s = O - penalty * min(V, 2) + credit * min(D, 2), no channel        c2  s = O, and the channel
        c3  s as c1, and the channel                                            c4  as c3, credit only where O = 1

    v_k and d_k count the violations and fulfilments of turn k, V and D those of the episode; N_out is the number of
    policy tokens in the batch, N_path of those on which the channel is not 0. The loss sums over tokens.

    Args:
        penalty: lambda, per violation; units of the outcome.
        credit: mu, per fulfilment (the paper and its code call it beta); pair every penalty with one.
        channel_weight: beta, of the whole path channel.
        variant: above; c3 is the paper's headline.
        path_center: "none" is the paper: a group in which everyone violates is still pushed away. "group" subtracts the
            mean over the turns of the group (the recipe `rlvp_centred`).
        anneal_after: from this training step on the channel is off (the paper's annealed runs: 40); needs `step`.
        gate: "reachable" keeps the credit only if, in the first batch that is seen, the fulfilments vary in enough
            groups; the decision stays in the recipe's state. Penalties are exempt.
        gate_share: share of groups that suffices.
        rules: a file of rules: TOML, or Python that defines `rules`; what a rule itself says its penalty and credit are
            does not count here. Default: the counts are turn columns.
        violations: turn column with v_k; a turn without it abstains.
        fulfilments: turn column with d_k.
        reward: trajectory column with the outcome O.
        truncated: what a rollout cut by a limit earns: "keep", "zero" or "exclude".
        force: why a penalty without any credit is wanted all the same.

    Degenerate cases: a group with one known outcome gets no outcome credit; a channel without a token adds nothing; an
    unknown outcome leaves its group, and its turns keep their path credit.

    Raises:
        InvalidArgument: an unknown variant or gate, a negative amount, or a penalty without credit that is not forced.

    Example:
        >>> from apportion.verdicts import Scored
        >>> b = Batch.of(groups=["q", "q"], turns=[2, 2], tokens=[10, 10, 10, 10])
        >>> none = [Scored(0.0), Scored(0.0)]
        >>> seen = {"outcome": [Scored(1.0), Scored(0.0)], "violations": [[Scored(0.0), Scored(1.0)], none]}
        >>> made, _ = rlvp(variant="c2").assign(b, {**seen, "fulfilments": [none, none]})
        >>> made.advantages.values[::10].tolist()
        [0.0125, -0.0125, -0.0125, -0.0125]

    Source: arXiv 2607.07435 and its code. The gate's threshold and its first batch are a reconstruction: the paper
    gives no number. c4 is read as c3 with gated credit.
    """
    if variant not in get_args(Variant):
        raise InvalidArgument("variant", variant, f"one of {', '.join(get_args(Variant))}")
    if gate not in get_args(Gate):
        raise InvalidArgument("gate", gate, f"one of {', '.join(get_args(Gate))}")
    if path_center not in ("none", "group"):
        raise InvalidArgument("path_center", path_center, "none or group")
    amounts = {"penalty": penalty, "credit": credit, "channel_weight": channel_weight, "gate_share": gate_share}
    for name, amount in amounts.items():
        if not 0 <= amount < float("inf"):
            raise InvalidArgument(name, amount, "a finite number >= 0")
    if penalty > 0 and credit == 0 and not force:
        raise InvalidArgument(
            "credit",
            credit,
            "more than 0: unpaired penalties collapse into inaction on most seeds. Pass force='why' to do it anyway",
        )

    def assign(batch: Batch, signals: Mapping[str, Signal], *, step: int | None, state: State) -> tuple[Signal, State]:
        solved, broken, honoured = signals["outcome"], signals["violations"], signals["fulfilments"]
        if gate == "reachable" and "reachable_share" not in state:
            state = {**state, "reachable_share": reachable_share(honoured)}
        if gate == "reachable" and state["reachable_share"] < gate_share:
            honoured = honoured * 0.0
        if variant == "c4":
            won = solved.spread(Level.TURN)
            honoured = honoured.scaled((won.known & (won.values >= 1.0)).to(honoured.values.dtype), Level.TURN)
        scalar = solved
        if variant != "c2":
            scalar = scalar + _episode(broken, "violations in episode") * -penalty
            scalar = scalar + _episode(honoured, "fulfilments in episode") * credit
            # An absent outcome adds nothing to a sum, but it has no place in the baseline either.
            scalar = scalar.masked(solved.known)
        channels = [group_center(scalar)]
        counted: list[Counted] = ["known"]
        if variant != "c1" and _shaping_is_on(anneal_after, step):
            turns = broken.neutral() * -penalty + honoured.neutral() * credit
            channels.append((group_center(turns) if path_center == "group" else turns) * channel_weight)
            counted.append("nonzero")
        return per_channel(channels, counted=counted), state

    return Recipe(
        name="rlvp" if path_center == "none" else "rlvp_centred",
        observers=[outcome(reward, truncated=truncated), *_path_observers(rules, violations, fulfilments)],
        assign_signals=assign,
        aggregation="token-sum",
        scope="batch",
        paper="2607.07435",
        needs=(
            f"trajectory column {reward!r}",
            f"a rule file, or turn columns {violations!r} and {fulfilments!r}",
        ),
        reconstruction="" if gate == "off" else "the threshold of the reachability gate",
        parameters={
            **amounts,
            "variant": variant,
            "path_center": path_center,
            "anneal_after": anneal_after,
            "gate": gate,
            "rules": rules,
            "reward": reward,
            "truncated": truncated,
        },
        force=force,
    )


def rlvp_centred(
    *,
    penalty: float = 0.25,
    credit: float = 0.25,
    channel_weight: float = 1.0,
    variant: Variant = "c3",
    anneal_after: int | None = None,
    rules: str | None = None,
    violations: str = "violations",
    fulfilments: str = "fulfilments",
    reward: str = "reward",
    truncated: Truncated = "keep",
) -> Recipe:
    """`rlvp` with the path channel centred over the turns of its group: only differences inside a prompt teach.

    Not the paper's form. In our learning runs, centring progress inside the prompt's group mattered most; a group in
    which every attempt violates alike is left alone. Arguments as in `rlvp`.
    """
    return rlvp(
        penalty=penalty,
        credit=credit,
        channel_weight=channel_weight,
        variant=variant,
        path_center="group",
        anneal_after=anneal_after,
        rules=rules,
        violations=violations,
        fulfilments=fulfilments,
        reward=reward,
        truncated=truncated,
    )


def reachable_share(fulfilments: Signal) -> float:
    """Share of groups in which the rollouts differ in their number of fulfilments (Var_G(Phi) > 0).

    Example:
        >>> b = Batch.of(groups=["a", "a", "b", "b"])
        >>> reachable_share(Signal.of(b, Level.TURN, [1.0, 0.0, 0.0, 0.0], name="d"))
        0.5
    """
    stats = group_statistics(fulfilments.pool(Level.TRAJECTORY, "sum"))
    return float((~stats.constant).sum()) / max(stats.constant.numel(), 1)


def _episode(turns: Signal, name: str) -> Signal:
    total = turns.pool(Level.TRAJECTORY, "sum").named(name)
    return total.clipped(0.0, _MOST).named(name)


def _shaping_is_on(anneal_after: int | None, step: int | None) -> bool:
    if anneal_after is None:
        return True
    if step is None:
        raise MissingInput("rlvp with anneal_after", "the training step", "pass step=... to assign")
    return step < anneal_after


def _path_observers(rules: str | None, violations: str, fulfilments: str) -> tuple[Reward, Reward]:
    if rules is None:
        how = "record it per turn, name another column, or give rules (recipe rlvp: rules=FILE.py)"
        return (
            turn_column(violations, name="violations", how=how),
            turn_column(fulfilments, name="fulfilments", how=how),
        )
    made = path(load_rules(rules))
    return made.violations.named("violations"), made.fulfilments.named("fulfilments")
