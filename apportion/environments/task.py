"""What a task is: a seeded state machine over actions, and what one action makes of a state.

    state, action  --apply-->  Effect(next state, observation, violations, fulfilments, reward at the end)

Rules look at the action and the state *before* it. A violation is something the policy did, never something it left
undone; every violation is paired with a fulfilment, the compliant way to the same goal, which pays once per episode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from apportion.environments.vocabulary import Vocabulary
from apportion.rollouts import Action, Turn

__all__ = ["Effect", "Task", "play"]

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Effect(Generic[S]):
    """What one action did.

    Attributes:
        state: the state after it.
        observation: what the environment answers, in words of the task's vocabulary.
        violations: the rules that the action broke, one sentence each.
        fulfilments: the compliant steps that it took, one sentence each.
        reward: the outcome when the action ended the task; None while it goes on.
    """

    state: S
    observation: tuple[str, ...]
    violations: tuple[str, ...] = ()
    fulfilments: tuple[str, ...] = ()
    reward: float | None = None


class Task(Protocol[S]):
    """A multi-turn task in a closed vocabulary; immutable, so that episodes share it.

    Prompts, moves and observations have fixed lengths: episodes that are equally many turns old are equally long, and a
    batch of them needs no padding.
    """

    @property
    def name(self) -> str:
        """Shown in ids and tables."""

    @property
    def vocabulary(self) -> Vocabulary:
        """The words of prompts, moves and observations."""

    @property
    def prompt_length(self) -> int:
        """Words of a prompt."""

    @property
    def observation_length(self) -> int:
        """Words of an observation."""

    @property
    def max_turns(self) -> int:
        """An episode that has not ended by then is truncated, with reward 0."""

    def start(self, seed: int) -> tuple[S, tuple[str, ...]]:
        """First state and prompt; the seed fixes everything that chance decides, later turns included."""

    def read(self, command: str, argument: str) -> Action:
        """A move of two words as an action; one that is not grammatical is an action with an error."""

    def apply(self, state: S, action: Action) -> Effect[S]:
        """What the action does to the state; anything that makes no sense changes nothing."""

    def facts(self, state: S) -> Mapping[str, Any]:
        """What rules may ask about a state, as plain data."""

    def demonstrate(self, seed: int, rng: np.random.Generator) -> Sequence[tuple[str, str]]:
        """Moves of one scripted, imperfect demonstrator for the episode of this seed."""


def play(task: Task[S], state: S, action: Action) -> tuple[Effect[S], Turn]:
    """Apply an action and record it.

    Returns:
        The effect, and a turn without a span. Its columns: "violations" and "fulfilments" (counts), "evidence" (the
        sentences behind them) and "state" (the facts after the action, which are those before the next one).

    Example:
        >>> from apportion.environments.terminal import Terminal
        >>> task = Terminal()
        >>> effect, turn = play(task, task.start(0)[0], task.read("rm", "lock"))
        >>> turn.observation, turn.columns["violations"], turn.columns["evidence"]
        ('removed', 1, 'violation: removed the lock that another process holds')
    """
    effect = task.apply(state, action)
    evidence = [f"violation: {text}" for text in effect.violations]
    evidence += [f"fulfilment: {text}" for text in effect.fulfilments]
    turn = Turn(
        text=action.raw,
        actions=(action,),
        observation=" ".join(effect.observation),
        columns={
            "violations": len(effect.violations),
            "fulfilments": len(effect.fulfilments),
            "evidence": "; ".join(evidence),
            "state": dict(task.facts(effect.state)),
        },
    )
    return effect, turn
