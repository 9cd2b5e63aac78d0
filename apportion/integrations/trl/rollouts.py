"""TRL's view of a generation batch as `Trajectory` objects: token-exact, turns by mask, nothing re-encoded.

TRL pads `tool_mask` with ones, so turns are the runs of (completion mask AND tool mask); run k is assistant message k.
A `rollout_func` reports one decoded message that holds the environment's text too: there the runs decide, and their
text is decoded for display only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from apportion.integrations.actions import content_text, parse_actions
from apportion.integrations.trl.steps import Message, Recorded, by_call, by_turn
from apportion.rollouts import BoolArray, FloatArray, IntArray, Layout, Status, Trajectory, Turn
from apportion.verdicts import Abstained, Failed

__all__ = ["UNJOINED", "Completion", "joined", "to_trajectory", "turns_of"]

Decode = Callable[[Sequence[int]], str]

# The trajectory column that says why an environment's records are not with the turns.
UNJOINED = "environment_records"


@dataclass(frozen=True, eq=False, kw_only=True)
class Completion:
    """One row of a generation batch, as TRL holds it.

    Attributes:
        id: unique over all ranks of the step.
        group: the prompt it belongs to.
        prompt: text or messages, with what the environment's `reset` added.
        prompt_ids: int[P], unpadded.
        response_ids: int[T], unpadded, tool results included.
        written: bool[T] the model wrote the token.
        in_loss: bool[T] and it is in the loss.
        logps: float[T] the sampler's log-probabilities, NaN where unknown; None when it gave none.
        completion: text, or assistant and tool messages.
        row: the dataset row and whatever a `rollout_func` added.
        rewards: TRL's reward functions by name; None where one gave nothing.
        reward: their weighted sum; None when every one gave nothing.
        ended: the model stopped by itself, not at a limit.
        status: what a `rollout_func` says about the end; None = by `ended`.
        error: what a `rollout_func` says about an aborted rollout.
        per_turn: what a `rollout_func` recorded, one entry per turn.
        per_call: what an environment recorded, one entry per call that arrived.
        max_tool_rounds: messages with calls that TRL answers before it stops; None = no limit.
    """

    id: str
    group: str
    prompt: str | Sequence[Message]
    prompt_ids: IntArray
    response_ids: IntArray
    written: BoolArray
    in_loss: BoolArray
    logps: FloatArray | None
    completion: str | Sequence[Message]
    row: Mapping[str, Any]
    rewards: Mapping[str, float | None]
    reward: float | None
    ended: bool
    status: Status | None = None
    error: str | None = None
    per_turn: Recorded | None = None
    per_call: Recorded | None = None
    max_tool_rounds: int | None = None


def to_trajectory(c: Completion, *, step: int, decode: Decode) -> Trajectory:
    """The trajectory of one completion.

    Rows that TRL removed from the loss (truncated completions under `mask_truncated_completions`) keep their turns and
    tokens; none of them is `own`. An assistant message whose tool calls were never answered was cut by a limit:
    "truncated".
    """
    messages = () if isinstance(c.completion, str) else tuple(c.completion)
    turns, unjoined = turns_of(c.completion), ""
    runs = _runs(Layout.from_mask(c.written))
    told_apart = bool(c.written.all()) or any(message.get("role") != "assistant" for message in messages)
    if told_apart and len(runs) == len(turns):
        turns = [replace(turn, span=span) for turn, span in zip(turns, runs, strict=True)]
    else:
        turns = [_decoded(c.response_ids, c.written, span, decode) for span in runs]
    if c.per_turn is not None:
        turns = by_turn(turns, c.per_turn)
    if c.per_call is not None:
        turns, unjoined = joined(turns, messages, c.per_call, max_tool_rounds=c.max_tool_rounds)
    logps = c.logps
    if logps is not None and not bool(np.isfinite(logps[c.in_loss]).all()):
        logps = None
    status: Status = "terminated" if c.ended and not _unanswered(messages) else "truncated"
    columns = {**c.row, "prompt": c.prompt}
    for name, value in c.rewards.items():
        # To TRL None means that a function does not apply; where none applies nobody knows the outcome.
        columns[name] = Abstained(f"{name} returned None") if value is None else value
    columns["reward"] = Failed("every reward function returned None") if c.reward is None else c.reward
    if unjoined:
        columns[UNJOINED] = unjoined
    return Trajectory(
        id=c.id,
        group=c.group,
        step=step,
        prompt_ids=c.prompt_ids,
        response_ids=c.response_ids,
        policy=c.written,
        own=c.in_loss,
        behaviour_logps=logps,
        status=c.status or status,
        error=c.error,
        reference=c.row.get("reference"),
        turns=tuple(turns),
        messages=messages,
        columns=columns,
    )


def turns_of(completion: str | Sequence[Message]) -> list[Turn]:
    """One turn per assistant message, with its actions and what answered it; a plain text is one turn."""
    if isinstance(completion, str):
        return [Turn(text=completion, actions=parse_actions(completion))]
    turns: list[Turn] = []
    for message in completion:
        text = content_text(message.get("content"))
        if message.get("role") == "assistant":
            turns.append(Turn(text=text, actions=parse_actions(message)))
        elif turns:
            answered = "\n".join(part for part in (turns[-1].observation, text) if part)
            turns[-1] = replace(turns[-1], observation=answered)
    return turns


def joined(
    turns: Sequence[Turn], messages: Sequence[Message], recorded: Recorded, *, max_tool_rounds: int | None
) -> tuple[list[Turn], str]:
    """The turns with what the environment recorded, and why they have nothing of it ("" when they have).

    The calls of a last message without answers were run and rolled back, unless TRL had reached its limit of rounds.
    """
    answered = sum(
        message.get("role") == "assistant" and after.get("role") == "tool" for message, after in pairwise(messages)
    )
    ran = max_tool_rounds is None or answered < max_tool_rounds
    made = by_call(turns, messages, recorded, last_ran=ran)
    if made is None:
        return list(turns), f"{len(recorded)} records cannot be told apart over {len(turns)} turns"
    if _unanswered(messages) and not ran:
        made[-1] = replace(made[-1], executed=False)
    return made, ""


def _unanswered(messages: Sequence[Message]) -> bool:
    return bool(messages) and messages[-1].get("role") == "assistant" and bool(messages[-1].get("tool_calls"))


def _runs(layout: Layout) -> list[tuple[int, int]]:
    stops = np.cumsum(layout.turn_lengths + layout.gap_lengths) + layout.lead
    starts = stops - layout.turn_lengths - layout.gap_lengths
    return [(int(a), int(b)) for a, b in zip(starts, stops, strict=True)]


def _decoded(ids: IntArray, written: BoolArray, span: tuple[int, int], decode: Decode) -> Turn:
    inside = np.arange(ids.size)
    here = (inside >= span[0]) & (inside < span[1])
    text = decode(ids[here & written].tolist())
    return Turn(text=text, actions=parse_actions(text), observation=decode(ids[here & ~written].tolist()), span=span)
