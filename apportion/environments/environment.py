"""`Environment`: plays a task token by token and keeps the exact record.

    prompt ids | command argument | observation | command argument | observation | command argument
               |<----------- turn 0 ----------->|<----------- turn 1 ----------->|<--- turn 2 ---->|

A move is always two tokens. The turn that ends an episode has no observation tokens, since no model reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np

from apportion.environments.task import Task, play
from apportion.errors import InvalidArgument
from apportion.rollouts import Status, Trajectory, Turn

__all__ = ["MOVE_LENGTH", "Environment", "Episode", "Step"]

S = TypeVar("S")

# A command and its argument.
MOVE_LENGTH = 2


@dataclass(frozen=True, slots=True)
class Episode(Generic[S]):
    """Everything about an episode so far; immutable, so it is its own snapshot.

    Attributes:
        seed: what it was reset with.
        prompt_ids: token ids of the prompt.
        response_ids: token ids of all moves and observations.
        state: the task's state.
        turns: one per move, with spans.
        status: None while it goes on; "terminated" by the task, "truncated" by the turn limit.
        reward: the outcome; 0 unless the task itself ended it.
    """

    seed: int
    prompt_ids: tuple[int, ...]
    response_ids: tuple[int, ...]
    state: S
    turns: tuple[Turn, ...] = ()
    status: Status | None = None
    reward: float = 0.0


@dataclass(frozen=True, slots=True)
class Step:
    """What a move led to.

    Attributes:
        observation_ids: token ids that answer it; empty when the episode is over.
        done: True when the episode is over.
    """

    observation_ids: tuple[int, ...]
    done: bool


class Environment(Generic[S]):
    """One episode of a task at a time.

    Args:
        task: the state machine; environments may share one.

    Example:
        >>> from apportion.environments.terminal import Terminal
        >>> task = Terminal()
        >>> env = Environment(task)
        >>> task.vocabulary.decode(env.reset(seed=0))
        'broken d.py'
        >>> before = env.snapshot()
        >>> step = env.step(task.vocabulary.encode("cat d.py"))
        >>> task.vocabulary.decode(step.observation_ids), step.done
        ('shown', False)
        >>> env.restore(before)
        >>> env.snapshot().turns
        ()
    """

    def __init__(self, task: Task[S]) -> None:
        self.task = task
        self._episode: Episode[S] | None = None

    def reset(self, seed: int) -> tuple[int, ...]:
        """Start the episode of a seed and return its prompt's token ids."""
        state, prompt = self.task.start(seed)
        ids = self.task.vocabulary.ids(prompt)
        self._episode = Episode(seed=seed, prompt_ids=ids, response_ids=(), state=state)
        return ids

    def step(self, move: Sequence[int]) -> Step:
        """Play one move.

        Args:
            move: token ids of a command and its argument; any two ids of the vocabulary, grammatical or not.

        Raises:
            InvalidArgument: not two ids of the vocabulary, no episode, or one that is over.
        """
        now = self.snapshot()
        if now.status is not None:
            raise InvalidArgument("move", list(move), f"reset() or restore() first: this episode is {now.status}")
        if len(move) != MOVE_LENGTH:
            raise InvalidArgument("move", list(move), "token ids of a command and its argument")
        command, argument = self.task.vocabulary.lookup(move)
        effect, turn = play(self.task, now.state, self.task.read(command, argument))
        status: Status | None = None
        if effect.reward is not None:
            status = "terminated"
        elif len(now.turns) + 1 >= self.task.max_turns:
            status = "truncated"
        answer = () if status else self.task.vocabulary.ids(effect.observation)
        response = (*now.response_ids, *(int(i) for i in move), *answer)
        self._episode = replace(
            now,
            response_ids=response,
            state=effect.state,
            turns=(*now.turns, replace(turn, span=(len(now.response_ids), len(response)))),
            status=status,
            reward=effect.reward or 0.0,
        )
        return Step(answer, status is not None)

    def snapshot(self) -> Episode[S]:
        """The episode as it is now.

        Raises:
            InvalidArgument: there is none yet.
        """
        if self._episode is None:
            raise InvalidArgument("episode", None, "a call of reset(seed) first")
        return self._episode

    def restore(self, episode: Episode[S]) -> None:
        """Go back to a snapshot, of this environment or of another one of the same task."""
        self._episode = episode

    def resume(self, seed: int, response_ids: Sequence[int]) -> None:
        """Reach the state behind a recorded response by playing its moves again.

        Args:
            seed: the seed of the recorded episode.
            response_ids: a prefix of its response that ends where a turn ends.

        Raises:
            InvalidArgument: a prefix that stops inside a turn, goes on after the end, or holds observation tokens other
                than those the environment gives; the environment then keeps the episode that it had.
        """
        kept, given = self._episode, tuple(int(i) for i in response_ids)
        try:
            self.reset(seed)
            while len(self.snapshot().response_ids) < len(given):
                self._replay(given)
        except InvalidArgument:
            self._episode = kept
            raise

    def _replay(self, given: tuple[int, ...]) -> None:
        done = len(self.snapshot().response_ids)
        self.step(given[done : done + MOVE_LENGTH])
        played = self.snapshot().response_ids
        if played != given[: len(played)]:
            raise InvalidArgument(
                "response_ids", list(given[done:]), f"whole turns; this one is {list(played[done:])} from index {done}"
            )

    def trajectory(
        self, *, id: str, group: str, logps: Sequence[float] | None = None, copied: int = 0, step: int | None = None
    ) -> Trajectory:
        """The record as a trajectory.

        Args:
            id: unique in its batch.
            group: shared by the rollouts of one prompt.
            logps: log-probability (natural log) of each policy token that is not copied, in order; None when nobody
                sampled them (a demonstration, a replay), then the tokens are not `own`.
            copied: response tokens at the start that were taken over from another rollout; they are not `own`.
            step: the training step.

        Returns:
            One turn per move with its columns (see `play`); columns "reward", "seed", "violations" and "fulfilments"
            (sums over the turns), and "state", the facts of the last state.

        Raises:
            InvalidArgument: the episode is still going on, or a wrong number of log-probabilities.
        """
        now = self.snapshot()
        if now.status is None:
            raise InvalidArgument("episode", f"{len(now.turns)} turns", "an episode that is over")
        length = len(now.response_ids)
        policy = np.zeros(length, bool)
        for turn in now.turns:
            if turn.span is not None:
                policy[turn.span[0] : turn.span[0] + MOVE_LENGTH] = True
        own = policy & (np.arange(length) >= copied) if logps is not None else np.zeros(length, bool)
        behaviour = None
        if logps is not None:
            if len(logps) != int(own.sum()):
                raise InvalidArgument("logps", len(logps), f"{int(own.sum())} numbers, one per sampled token")
            behaviour = np.full(length, np.nan)
            behaviour[own] = logps
        return Trajectory(
            id=id,
            group=group,
            step=step,
            prompt_ids=np.asarray(now.prompt_ids, np.int64),
            response_ids=np.asarray(now.response_ids, np.int64),
            policy=policy,
            own=own,
            behaviour_logps=behaviour,
            status=now.status,
            turns=now.turns,
            columns={
                "reward": now.reward,
                "seed": now.seed,
                "violations": sum(turn.columns["violations"] for turn in now.turns),
                "fulfilments": sum(turn.columns["fulfilments"] for turn in now.turns),
                "state": dict(self.task.facts(now.state)),
            },
        )
