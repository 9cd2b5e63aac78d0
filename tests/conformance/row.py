"""What one row of the conformance matrix declares about an estimator, and why it leaves a law out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from apportion.batch import Batch
from apportion.recipe import Recipe
from apportion.rollouts import Level
from apportion.signal import Signal
from apportion.verdicts import Abstained
from tests.conformance.strategies import Case, Domain

TRAJECTORY = (Level.TRAJECTORY,)


@dataclass(frozen=True, eq=False, kw_only=True)
class Deviation:
    """A law that does not hold.

    Attributes:
        reason: why, in words.
        witness: a case on which the law breaks; default the law's own.
        unless: the cases on which it need not hold; all others are still tested. Default: it need not hold anywhere.
    """

    reason: str
    witness: Case | None = None
    unless: Callable[[Case], bool] | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Row:
    """One estimator.

    Attributes:
        name: of the row.
        covers: the public function that it covers.
        run: signals of one batch in, one signal out.
        levels: the level of each signal it takes.
        domain: which numbers its rewards may be.
        moved: the signals that shifts and scales act on; others are conditions or baselines.
        degree: what scaling the rewards by s > 0 does: 1 multiplies the advantages, 0 leaves them.
        singleton: what the only known reward of a group gets.
        text: text-only rollouts "work" or are refused.
        door: it takes one reward per row, so it also goes through `padded_advantages`.
        floats_only: it is given numbers, not tensors (a recipe's verdicts): no gradients, no dtypes.
        scope: what a recipe says of itself: whether a group's credit depends on that group alone.
        deviations: law name -> why it does not hold.
    """

    name: str
    covers: str
    run: Callable[[Sequence[Signal]], Signal]
    levels: Sequence[Level] = TRAJECTORY
    domain: Domain = "real"
    moved: Sequence[int] | None = None
    degree: Literal[0, 1] = 1
    singleton: Literal["zero", "raw"] = "zero"
    text: Literal["works", "refused"] = "works"
    door: bool = True
    floats_only: bool = False
    scope: Literal["", "group", "batch"] = ""
    deviations: Mapping[str, Deviation] = field(default_factory=dict)

    @property
    def movable(self) -> Sequence[int]:
        """The signals that shifts and scales act on."""
        return range(len(self.levels)) if self.moved is None else self.moved

    def of(self, case: Case) -> Signal:
        """Run on a case."""
        return self.run(case.signals)

    def credit(self, case: Case) -> Signal:
        """The same as the whole of a recipe."""
        if self.scope:
            return self.of(case)

        def assign(batch: Batch, signals: object, *, step: object, state: object) -> Signal:
            return self.of(case)

        recipe = Recipe(name=self.name, observers=[_Nothing()], assign_signals=assign, aggregation="token-mean")
        made, _ = recipe.assign(case.batch, {"nothing": [Abstained("-")] * len(case.batch)})
        return made.advantages


class _Nothing:
    name, level = "nothing", Level.TRAJECTORY

    def observe(self, trajectories: object) -> list[Abstained]:
        raise AssertionError("assign must not observe")


def because(reason: str, witness: Case | None = None, unless: Callable[[Case], bool] | None = None) -> Deviation:
    """Short for `Deviation`."""
    return Deviation(reason=reason, witness=witness, unless=unless)


def number(batch: Batch) -> Tensor:
    """int64[B] from the ids, so that what an estimator needs beside the reward follows a rollout wherever it goes."""
    return torch.tensor([int(name) for name in batch.ids], dtype=torch.int64)


def step_number(batch: Batch) -> Tensor:
    """int64[N] that depends on the rollout and the index of the token among its policy tokens."""
    lengths = batch.tokens_per_trajectory
    first = torch.cumsum(lengths, 0) - lengths
    index = torch.arange(batch.n_tokens) - torch.repeat_interleave(first, lengths)
    return torch.repeat_interleave(number(batch), lengths) * 3 + index
