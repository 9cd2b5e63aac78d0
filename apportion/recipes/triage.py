"""TRIAGE: a judge names the role of every turn, and a role is worth a constant beside the outcome's advantage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

import torch

from apportion import advantages as adv
from apportion.advantages.modulate_weights import in_loss
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.recipe import Recipe, State
from apportion.recipes.note_inputs import Noted, annotator_of, notes_needed, shown
from apportion.rewards import Truncated, outcome
from apportion.rewards.annotators import labelled
from apportion.rollouts import Level
from apportion.signal import Signal

__all__ = ["ROLES", "RoleFit", "fit_role_constants", "role_credit", "triage"]

Sign: TypeAlias = Literal["free", "keep"]
Whitening: TypeAlias = Literal["none", "batch"]

ROLES: Mapping[str, float] = {"progress": 1.0, "exploration": 0.5, "infrastructure": -0.1, "regression": -0.5}


def triage(
    *,
    weight: float = 0.5,
    constants: Mapping[str, float] | None = None,
    sign: Sign = "free",
    whitening: Whitening = "none",
    annotator: Noted = None,
    column: str = "role",
    dialect: str = "apportion",
    reward: str = "reward",
    truncated: Truncated = "keep",
) -> Recipe:
    """The outcome's advantage, plus a constant for the role that a judge gave the turn.

        A_k = A_i + weight * c[role of turn k]        c: progress 1, exploration .5, infrastructure -.1, regression -.5

    The judge sees the task and a few turns before and after, not the outcome. A turn without a label keeps A_i.

    Args:
        weight: lambda in [0, 1]; the paper chooses it on training data, its value is not known to us.
        constants: number of every role; the roles are the labels that the annotator may give. See `fit_role_constants`.
        sign: "keep" stops a role at 0 where it would turn the outcome's advantage around.
        whitening: "batch" standardises over the policy tokens of the batch, as one baseline implementation does.
        annotator: gives one label (a text or `Label`) per turn: a function, plain or async, or a Python file that
            defines `annotator`; default the column.
        column: turn column of recorded labels.
        dialect: whose GRPO.
        reward: trajectory column with the outcome.
        truncated: what a rollout cut by a limit earns: "keep", "zero" or "exclude".

    Degenerate cases: without labels, or with `weight=0`, it is GRPO. A group whose outcomes are all equal is still
    moved by the roles. An unknown outcome leaves its group; its turns keep what their roles say.

    Raises:
        InvalidArgument: a weight outside [0, 1], constants that are not finite, or an unknown choice.
        MissingInput: neither an annotator nor the column.

    Source: arXiv 2606.32017, known to us through a baseline that follows it.
    """
    if not 0 <= weight <= 1:
        raise InvalidArgument("weight", weight, "a number in [0, 1]")
    if sign not in get_args(Sign):
        raise InvalidArgument("sign", sign, f"one of {', '.join(get_args(Sign))}")
    if whitening not in get_args(Whitening):
        raise InvalidArgument("whitening", whitening, f"one of {', '.join(get_args(Whitening))}")
    roles = dict(ROLES if constants is None else constants)
    _checked(roles)
    labels = labelled(annotator_of(annotator, needed_by="recipe triage", column=column), list(roles), name="role")

    def assign(batch: Batch, signals: Mapping[str, Signal], *, step: int | None, state: State) -> Signal:
        base = adv.grpo(signals["outcome"], dialect=dialect)
        total = base + role_credit(signals["role"], roles) * weight
        if sign == "keep":
            total = adv.keep_sign(total, of=base)
        return total if whitening == "none" else adv.whiten(in_loss(total), ddof=0, eps=1e-8)

    return Recipe(
        name="triage",
        observers=[outcome(reward, truncated=truncated), labels],
        assign_signals=assign,
        aggregation=adv.dialect(dialect).aggregation,
        scope="group" if whitening == "none" else "batch",
        paper="2606.32017",
        needs=(f"trajectory column {reward!r}", *notes_needed(annotator, column=column)),
        reconstruction="from a baseline that follows the paper: the value of weight, whether whitening is the paper's, "
        "and whether the rule depends on the sign of the outcome are unknown; the sign guard is ours",
        parameters={
            "weight": weight,
            "constants": roles,
            "sign": sign,
            "whitening": whitening,
            "annotator": shown(annotator),
            "column": column,
            "dialect": dialect,
            "reward": reward,
            "truncated": truncated,
        },
    )


def role_credit(labels: Signal, constants: Mapping[str, float]) -> Signal:
    """The constant of every turn's role; a turn without a label adds nothing.

    Args:
        labels: codes, as `labelled` gives them: the index in the list of roles.
        constants: number of every role, in that order.

    Raises:
        InvalidArgument: a code that no role has.

    Example:
        >>> b = Batch.of(groups=["q"], turns=[3])
        >>> role_credit(Signal.of(b, Level.TURN, [1.0, 3.0, None], name="role"), ROLES).values.tolist()
        [0.5, -0.5, 0.0]
    """
    table = labels.values.new_tensor(list(constants.values()))
    bad = torch.nonzero(labels.known & ((labels.values < 0) | (labels.values >= len(table)))).flatten()[:10]
    if bad.numel():
        raise InvalidArgument("labels", labels.values[bad].tolist(), f"codes below {len(table)}, one per role")
    worth = table[torch.where(labels.known, labels.values, 0.0).to(torch.int64)]
    return replace(labels, values=torch.where(labels.known, worth, 0.0)).named("role").neutral()


@dataclass(frozen=True, kw_only=True)
class RoleFit:
    """What a judge's labels are worth, measured against better credit.

    Attributes:
        constants: the best number for every role.
        covariance: between a turn's number and what the outcome's advantage misses there; a judge helps only if it is
            positive.
        counts: turns of every role that the numbers rest on.
    """

    constants: Mapping[str, float]
    covariance: float
    counts: Mapping[str, int]


def fit_role_constants(
    labels: Signal, reference: Signal, base: Signal, *, constants: Mapping[str, float] | None = None
) -> RoleFit:
    """Numbers for roles from credit that is known to be better, such as that of Monte-Carlo values.

        c_role = mean of (reference - base) over the turns of the role, clipped to [-1, 1]
        covariance = mean of (c - mean c) (reference - base) over the turns that have a label

    Args:
        labels: codes per turn, as in `role_credit`.
        reference: A*, per turn: the better credit, in the units of `base`.
        base: A, what the outcome alone gives, per turn or trajectory.
        constants: the numbers in use, whose order is that of the codes, for the covariance; default `ROLES`.

    Returns:
        A role without a turn keeps the number in use.

    Raises:
        InvalidArgument: signals of other batches or levels, or a code that no role has.

    Example:
        >>> b = Batch.of(groups=["q", "q"], turns=[2, 2])
        >>> labels = Signal.of(b, Level.TURN, [0.0, 3.0, 1.0, 3.0], name="role")
        >>> better = Signal.of(b, Level.TURN, [1.6, 0.5, -0.8, -1.5], name="value")
        >>> fit = fit_role_constants(labels, better, Signal.of(b, Level.TRAJECTORY, [1.0, -1.0], name="outcome"))
        >>> round(fit.constants["regression"], 4), round(fit.covariance, 4), fit.counts["progress"]
        (-0.5, 0.3063, 1)

    Source: the best correction that depends on the role alone is E[A* - A | role] (arXiv 2606.32017).
    """
    used = dict(ROLES if constants is None else constants)
    if labels.level != Level.TURN or reference.level != Level.TURN or base.level < Level.TURN:
        found = f"{labels.level.name}, {reference.level.name}, {base.level.name}"
        raise InvalidArgument("levels", found, "labels and reference per TURN, base per TURN or TRAJECTORY")
    if not (labels.batch is reference.batch is base.batch):
        raise InvalidArgument("reference", reference.batch.ids[:3], "signals of one batch object")
    numbers = role_credit(labels, used)
    against = base.spread(Level.TURN)
    both = labels.known & reference.known & against.known
    code = labels.values[both].to(torch.int64)
    gap = (reference.values - against.values)[both]
    count = torch.bincount(code, minlength=len(used))
    mean = gap.new_zeros(len(used)).index_add(0, code, gap) / count.clamp_min(1)
    worth = numbers.values[both]
    covariance = float(((worth - worth.mean()) * gap).mean()) if gap.numel() else 0.0
    best = mean.clamp(-1.0, 1.0).tolist()
    return RoleFit(
        constants={role: best[i] if int(count[i]) else used[role] for i, role in enumerate(used)},
        covariance=covariance,
        counts={role: int(count[i]) for i, role in enumerate(used)},
    )


def _checked(constants: Mapping[str, float]) -> None:
    bad = {k: v for k, v in constants.items() if isinstance(v, bool) or not isinstance(v, (int, float)) or v - v != 0}
    if bad or not constants:
        raise InvalidArgument("constants", bad or dict(constants), "a finite number for every role, and at least one")
