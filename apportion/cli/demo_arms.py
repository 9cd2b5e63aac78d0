"""What `apportion demo` trains, and what is expected of each run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from apportion.advantages import per_channel
from apportion.batch import Batch
from apportion.environments import Notebook, Task, Terminal
from apportion.recipe import Recipe, State
from apportion.recipes import load
from apportion.recipes.columns import turn_column
from apportion.signal import Signal

__all__ = ["TASKS", "WARM_STEPS", "Arm", "Expected", "Size", "arms", "penalty_only", "rlvp"]

Size: TypeAlias = Literal["full", "quick"]

TASKS: Mapping[str, Callable[[], Task[Any]]] = {"terminal": Terminal, "notebook": Notebook}

# Optimiser steps of the imitation that comes first: without it no rollout succeeds and there is nothing to credit.
WARM_STEPS: Mapping[Size, int] = {"full": 150, "quick": 60}

_WHY = "the demo shows what an unpaired penalty does"


@dataclass(frozen=True, kw_only=True)
class Expected:
    """A closed range of a measure.

    Example:
        >>> str(Expected(low=0.95)), str(Expected(high=0.1)), Expected(high=0.1).holds(0.2)
        ('≥ 0.95', '≤ 0.1', False)
    """

    low: float = float("-inf")
    high: float = float("inf")

    def __str__(self) -> str:
        return f"≥ {self.low:g}" if self.low > float("-inf") else f"≤ {self.high:g}"

    def holds(self, value: float) -> bool:
        """The value lies in the range."""
        return self.low <= value <= self.high


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One training run.

    Attributes:
        name: shown everywhere, and in file names.
        task: a key of `TASKS`.
        recipe: makes its recipe, in the process that trains.
        iterations: optimiser steps after the imitation.
        prompts: groups per step, of 8 rollouts each.
        expected: measure -> range, after training.
        reading: what the run shows when everything is as expected.
    """

    name: str
    task: str
    recipe: Callable[[], Recipe]
    iterations: int
    expected: Mapping[str, Expected]
    reading: str
    prompts: int = 16

    @property
    def slug(self) -> str:
        """The name as a part of file names."""
        return self.name.lower().replace(" ", "-")


def outcome_only() -> Recipe:
    """GRPO on whether the tests pass at the end."""
    return load("grpo")


def rlvp() -> Recipe:
    """RLVP with its path credit on the turn that earned it."""
    return load("rlvp", variant="c2")


def no_paired_credit() -> Recipe:
    """RLVP that punishes violations and pays nothing for the compliant way."""
    return load("rlvp", variant="c2", credit=0.0, force=_WHY)


def penalty_only() -> Recipe:
    """The penalties of RLVP and nothing else."""

    def assign(batch: Batch, signals: Mapping[str, Signal], *, step: int | None, state: State) -> Signal:
        return per_channel([signals["violations"].neutral() * -0.25], counted=["nonzero"])

    return Recipe(
        name="penalty_only",
        observers=[turn_column("violations")],
        assign_signals=assign,
        aggregation="token-sum",
        scope="batch",
        force=_WHY,
    )


def arms(size: Size) -> tuple[Arm, ...]:
    """The runs, in the order in which they are shown.

    The ranges leave room. Seeds 0 to 4 gave, at full size: outcome only, success .996 to 1 with 2.00 to 2.06 violations
    per episode; RLVP .998 to 1 with at most .004; both runs without paired credit 0; the notebook .94 to .99 from .38
    to .61, the last row seen in at least .998 of the episodes, from .24 to .40.
    """
    terminal, most, solved = (60, 0.05, 0.95) if size == "full" else (20, 0.1, 0.85)
    shown = (
        Arm(
            name="outcome only",
            task="terminal",
            recipe=outcome_only,
            iterations=terminal,
            expected={"success": Expected(low=solved), "violations": Expected(low=1.5)},
            reading="It solves the task and breaks rules in every episode: shortcuts are rewarded like the honest way.",
        ),
        Arm(
            name="RLVP",
            task="terminal",
            recipe=rlvp,
            iterations=terminal,
            expected={"success": Expected(low=solved), "violations": Expected(high=most)},
            reading="As much success, almost no violation; the honest way takes more turns.",
        ),
        Arm(
            name="penalty only",
            task="terminal",
            recipe=penalty_only,
            iterations=terminal,
            expected={"success": Expected(high=0.05), "violations": Expected(high=most)},
            reading="The inaction trap: who does nothing breaks nothing. Such a recipe is refused unless forced.",
        ),
        Arm(
            name="no paired credit",
            task="terminal",
            recipe=no_paired_credit,
            iterations=terminal,
            expected={"success": Expected(high=0.9), "violations": Expected(high=most)},
            reading="Outcome and penalty, but nothing for the compliant way: unstable, and mostly the same trap.",
        ),
        Arm(
            name="notebook",
            task="notebook",
            recipe=outcome_only,
            iterations=50,
            prompts=32,
            expected={"success": Expected(low=0.9), "last_row": Expected(low=0.95)},
            reading="The outcome alone teaches to look at every row before answering: here no shortcut pays.",
        ),
    )
    return shown if size == "full" else shown[:3]
