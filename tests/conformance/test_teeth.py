"""The laws bite: estimators broken on purpose, each as some real framework or draft of this one was, are all caught."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from apportion import advantages as adv
from apportion.rollouts import Level
from apportion.signal import Signal
from apportion.verdicts import Presence
from tests.conformance.law import verify
from tests.conformance.matrix import LAWS
from tests.conformance.row import Row
from tests.conformance.strategies import Case


def group_mean(x: Signal, values: Tensor) -> Tensor:
    """The mean over all rollouts of a group, known or not."""
    total = values.new_zeros(len(x.batch.group_ids)).index_add(0, x.batch.group, values)
    return (total / torch.bincount(x.batch.group).to(values.dtype))[x.batch.group]


def made(x: Signal, values: Tensor) -> Signal:
    return x.linear(lambda _: values).neutral()


def residue_over_epsilon(x: Signal) -> Signal:
    """0.7 sixteen times is 0.056 off its float32 mean, in units of its standard deviation."""
    v = x.values.to(torch.float32)
    far = v - group_mean(x, v)
    return made(x, (far / (group_mean(x, far**2).sqrt() + 1e-6)).to(torch.float64))


def groups_by_position(x: Signal) -> Signal:
    """reshape(-1, n): right until a group is short or straddles ranks."""
    return adv.group_stat(x, key=torch.arange(x.values.numel()) // 2)


def missing_is_zero(x: Signal) -> Signal:
    """nansum: an outage of the judge is a bad mark."""
    return adv.grpo(replace(x, presence=torch.full_like(x.presence, int(Presence.KNOWN))))


def first_group_favoured(x: Signal) -> Signal:
    """Something hangs on the number of a group."""
    return adv.dr_grpo(x).scaled(torch.arange(len(x.batch.group_ids)) + 1.0, Level.GROUP)


def paid_by_turn(x: Signal) -> Signal:
    """Rows are turns, so a rollout of many turns counts often."""
    return adv.dr_grpo(x).scaled(x.batch.turns.to(torch.float64), Level.TRAJECTORY)


def length_with_padding(x: Signal) -> Signal:
    """Lengths that count observations and padding."""
    return adv.dr_grpo(x).scaled(x.batch.response_lengths.to(torch.float64), Level.TRAJECTORY)


def without_ledger(x: Signal) -> Signal:
    """New values, old terms."""
    return replace(x, values=adv.grpo(x).values).neutral()


def no_floor(x: Signal) -> Signal:
    """0 / 0 where a group is constant."""
    far = x.values - group_mean(x, x.values)
    return replace(made(x, far), values=far / group_mean(x, far**2).sqrt())


def root_at_zero(x: Signal) -> Signal:
    """The value is guarded, its derivative is not: 0 times infinity."""
    far = x.values - group_mean(x, x.values)
    std = group_mean(x, far**2).sqrt()
    return made(x, torch.where(std > 0, far / (std + 1e-6), 0.0))


def frozen_scale(x: Signal) -> Signal:
    """The standard deviation is detached: there is a gradient, but it is not the derivative."""
    return adv.dr_grpo(x).scaled(1.0 / (adv.group_statistics(x).std(1).detach() + 1.0), Level.GROUP)


def coarse(x: Signal) -> Signal:
    """The type of the rewards leaks into the result."""
    return made(x, adv.dr_grpo(x).values + x.resolution)


def in_place(x: Signal) -> Signal:
    """Centres the caller's tensor."""
    x.values.sub_(group_mean(x, x.values))
    return adv.dr_grpo(x)


def noisy(x: Signal) -> Signal:
    """A tie-break by chance."""
    return made(x, adv.dr_grpo(x).values + 1e-3 * torch.rand_like(x.values))


class Unmasked(Row):
    """A trainer that gives an advantage to every token of a row."""

    def credit(self, case: Case) -> Signal:
        return self.of(case).spread(Level.TOKEN)


def row(estimator: Callable[[Signal], Signal], kind: type[Row] = Row, **declared: object) -> Row:
    def run(signals: Sequence[Signal]) -> Signal:
        return estimator(signals[0])

    return kind(name=getattr(estimator, "__name__", "estimator"), covers="", run=run, **declared)  # type: ignore[arg-type]


BROKEN: list[tuple[Row, str]] = [
    (row(residue_over_epsilon, degree=0), "constant_group constant_batch"),
    (row(groups_by_position, degree=0), "permutation isolation"),
    (row(missing_is_zero, degree=0), "missing padding"),
    (row(first_group_favoured), "relabelling isolation"),
    (row(lambda x: adv.grpo(x, singleton="raw"), degree=0), "singleton"),
    (row(adv.dr_grpo, singleton="raw"), "singleton"),
    (row(lambda x: adv.grpo(x, scale_key="batch"), degree=0), "isolation"),
    (row(lambda x: adv.group_stat(x, scale="mean"), domain="nonnegative", degree=0), "shift_group shift_batch"),
    (row(adv.dr_grpo, degree=0), "scale"),
    (row(paid_by_turn), "turn_splitting"),
    (row(length_with_padding), "observation_tokens padding"),
    (row(adv.channel, Unmasked), "own_tokens"),
    (row(adv.opo), "text_only"),
    (row(adv.dr_grpo, text="refused"), "text_only"),
    (row(without_ledger, degree=0), "ledger"),
    (row(no_floor, degree=0), "finite"),
    (row(root_at_zero, degree=0), "gradient"),
    (row(frozen_scale), "derivative"),
    (row(lambda x: made(x, adv.dr_grpo(x).values.detach())), "derivative"),
    (row(coarse), "float_types"),
    (row(in_place), "no_mutation"),
    (row(noisy), "determinism"),
]


@pytest.mark.parametrize(
    ("broken", "law"), [pytest.param(r, law, id=f"{r.name}-{law}") for r, laws in BROKEN for law in laws.split()]
)
def test_a_broken_estimator_is_caught(broken: Row, law: str) -> None:
    with pytest.raises(AssertionError):
        verify(broken, LAWS[law])


def test_every_law_catches_something() -> None:
    assert {law for _, laws in BROKEN for law in laws.split()} == set(LAWS)
