"""Where the states of a trajectory end in its tokens, and the mean log-prob of a target after each of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from apportion.errors import InvalidArgument
from apportion.judges.scoring.encode import Target
from apportion.judges.scoring.request import IntArray, LogProbs, Request, answered
from apportion.judges.scoring.rescorer import Rescorer
from apportion.rollouts import Trajectory
from apportion.verdicts import Abstained, Failed, Scored, Verdict

__all__ = ["boundaries", "is_answer", "mean_log_probs", "token_ids"]

# The mean log-prob of a target after each state, or why there is none.
Means: TypeAlias = list[float | Abstained | Failed]


def boundaries(trajectory: Trajectory) -> IntArray:
    """int64[K+1]: how many tokens of prompt and response belong to s_0 (up to the first turn), s_1, ..., s_K.

    Example:
        >>> t = Trajectory(id="r", group="q", prompt_ids=[7], response_ids=[1, 2, 9, 3], policy=[1, 1, 0, 1])
        >>> boundaries(t).tolist()
        [1, 4, 5]
    """
    layout = trajectory.layout()
    prompt = 0 if trajectory.prompt_ids is None else trajectory.prompt_ids.size
    return prompt + layout.lead + np.concatenate(([0], np.cumsum(layout.turn_lengths + layout.gap_lengths)))


def token_ids(trajectory: Trajectory) -> IntArray | Abstained:
    """Prompt and response as one sequence, or why it cannot be scored."""
    if trajectory.response_ids is None or trajectory.prompt_ids is None:
        return Abstained("no token ids were recorded")
    ids = np.concatenate((trajectory.prompt_ids, trajectory.response_ids))
    if ids.size and int(ids.min()) < 0:
        return Abstained(f"negative ids are no tokens (index {int(np.argmin(ids >= 0))})")
    return ids


def is_answer(trajectory: Trajectory, turn: int) -> bool:
    """True for a last turn that nothing answered: it changes no state that the policy acts in."""
    if turn != trajectory.n_turns - 1:
        return False
    if trajectory.turns:
        return not trajectory.turns[turn].observation
    return not int(trajectory.layout().gap_lengths[turn])


def asked(trajectory: Trajectory, target: Target | None, *, longest_target: int) -> Request | Abstained:
    """The request for one target after every state, or why it is not asked."""
    if target is None:
        return Abstained("there is no target to score")
    if not target.ids.size:
        return Abstained("the target is empty")
    if target.ids.size > longest_target:
        return Abstained(f"the target has {target.ids.size} tokens, the limit is {longest_target}")
    ids = token_ids(trajectory)
    if isinstance(ids, Abstained):
        return ids
    at = boundaries(trajectory)
    return Request(ids, at, (target.ids,) * at.size, target.lead)


def mean_log_probs(rescorer: Rescorer, requests: Sequence[Request | Abstained], states: Sequence[int]) -> list[Means]:
    """l_k of every request after every state: one call of the re-scorer, whose answer is checked.

    Args:
        rescorer: asked once.
        requests: one per row; an `Abstained` is that of the whole row.
        states: how many states each row has.

    Raises:
        InvalidArgument: the re-scorer gave another number of answers than there are states.
    """
    ready = [request for request in requests if isinstance(request, Request)]
    answers = iter(rescorer.score(ready)) if ready else iter(())
    rows: list[Means] = []
    for request, count in zip(requests, states, strict=True):
        if isinstance(request, Abstained):
            rows.append([request] * count)
            continue
        row = next(answers, [])
        if len(row) != count:
            raise InvalidArgument(f"answers of {rescorer.name!r}", len(row), f"one per state ({count} states)")
        checked = [answered(one.values) if isinstance(one, LogProbs) else one for one in row]
        rows.append([one.mean if isinstance(one, LogProbs) else one for one in checked])
    return rows


def carried(trajectory: Trajectory, values: Sequence[Verdict]) -> list[Verdict]:
    """Phi_k = Phi_{k-1} after a turn that never reached the environment; no value after the answer turn.

    Args:
        trajectory: of K turns.
        values: K + 1 verdicts as measured.
    """
    result = [values[0]]
    for turn, value in enumerate(values[1:]):
        if is_answer(trajectory, turn) and not isinstance(value, Abstained):
            result.append(Abstained("the answer turn is no transition: nothing was observed after it"))
        elif trajectory.turns and not trajectory.turns[turn].executed:
            before = result[-1]
            result.append(Scored(before.value, "the turn was not executed") if isinstance(before, Scored) else before)
        else:
            result.append(value)
    return result
