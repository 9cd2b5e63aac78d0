"""A re-scorer that was told its answers, and small trajectories with token ids."""

from collections.abc import Sequence

import numpy as np

from apportion.judges.scoring import Answer, Answers, LogProbs, Request, Target, Vocabulary
from apportion.rollouts import Trajectory, Turn


class Told:
    """Gives the same answers to every request, in order of its boundaries; keeps what it was asked."""

    def __init__(self, answers: Sequence[float | Answer], *, name: str = "told") -> None:
        self.name = name
        self.vocabulary = Vocabulary("words", 100)
        self.answers = [LogProbs(np.array([one])) if isinstance(one, float) else one for one in answers]
        self.asked: list[Request] = []

    def score(self, requests: Sequence[Request], *, temperature: float = 1.0) -> Answers:
        self.asked += requests
        return [list(self.answers) for _ in requests]


def target(*ids: int, lead: Sequence[int] = ()) -> Target:
    return Target(np.array(ids, np.int64), np.array(lead, np.int64), "gold")


def rollout(turns: int, *, answer: bool = False, group: str = "q", **settings: object) -> Trajectory:
    """`turns` turns of two tokens, each answered by one observation token, and an answer turn of two tokens."""
    mask = [1, 1, 0] * turns + [1, 1] * answer
    return Trajectory(
        id=f"r{turns}", group=group, prompt_ids=[5, 6], response_ids=range(10, 10 + len(mask)), policy=mask, **settings
    )


def with_table(rollout: Trajectory, *turns: Turn) -> Trajectory:
    return Trajectory(
        id=rollout.id,
        group=rollout.group,
        prompt_ids=rollout.prompt_ids,
        response_ids=rollout.response_ids,
        policy=rollout.policy,
        turns=turns,
    )
