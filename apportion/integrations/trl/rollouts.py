"""TRL's view of a generation batch as `Trajectory` objects: token-exact, turns by mask, nothing re-encoded.

TRL pads `tool_mask` with ones, so turns are the runs of (completion mask AND tool mask); run k is assistant message k.
Where messages and runs disagree (a `rollout_func` reports one decoded message), the runs decide and their text is
decoded for display only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from apportion.integrations.actions import parse_actions
from apportion.rollouts import Action, BoolArray, FloatArray, IntArray, Layout, Status, Trajectory, Turn
from apportion.verdicts import Abstained

__all__ = ["Completion", "to_trajectory", "turns_of"]

Decode = Callable[[Sequence[int]], str]


@dataclass(frozen=True, eq=False, kw_only=True)
class Completion:
    """One row of a generation batch, as TRL holds it.

    Attributes:
        id: unique over all ranks of the step.
        group: the prompt it belongs to.
        prompt_ids: int[P], unpadded.
        response_ids: int[T], unpadded, tool results included.
        written: bool[T] the model wrote the token and it is in the loss.
        logps: float[T] the sampler's log-probabilities, NaN where unknown; None when it gave none.
        completion: text, or assistant and tool messages.
        row: the dataset row and whatever a `rollout_func` or environment added.
        rewards: TRL's reward functions by name; None where one gave nothing.
        reward: their weighted sum; None when every one gave nothing.
        ended: the model stopped by itself, not at a limit.
        step_rewards: rewards recorded per turn or per call: an environment's `rewards`, or the row's `turn_rewards`.
        step_columns: facts recorded likewise: an environment's or the row's `turn_columns`.
    """

    id: str
    group: str
    prompt_ids: IntArray
    response_ids: IntArray
    written: BoolArray
    logps: FloatArray | None
    completion: str | Sequence[Mapping[str, Any]]
    row: Mapping[str, Any]
    rewards: Mapping[str, float | None]
    reward: float | None
    ended: bool
    step_rewards: Sequence[float | None] | None = None
    step_columns: Sequence[Mapping[str, Any]] | None = None


def to_trajectory(c: Completion, *, step: int, decode: Decode) -> Trajectory:
    """The trajectory of one completion.

    Rows that TRL removed from the loss (truncated completions under `mask_truncated_completions`) keep their turns,
    with no tokens in them. An assistant message whose tool calls were never answered was cut by a limit: "truncated".
    """
    messages = () if isinstance(c.completion, str) else tuple(c.completion)
    turns = turns_of(c.completion)
    layout = Layout.from_mask(c.written)
    runs = _runs(layout)
    if not bool(c.written.any()):
        turns = [replace(turn, span=(0, 0)) for turn in turns]
    elif len(runs) == len(turns):
        turns = [replace(turn, span=span) for turn, span in zip(turns, runs, strict=True)]
    else:
        turns = [_decoded(c.response_ids, c.written, span, decode) for span in runs]
    turns = _with_steps(turns, c.step_rewards, c.step_columns)
    unanswered = bool(messages) and bool(messages[-1].get("tool_calls")) and messages[-1].get("role") == "assistant"
    status: Status = "terminated" if c.ended and not unanswered else "truncated"
    logps = c.logps
    if logps is not None and not bool(np.isfinite(logps[c.written]).all()):
        logps = None
    columns = {name: value for name, value in c.row.items() if name != "prompt"}
    for name, value in (*c.rewards.items(), ("reward", c.reward)):
        columns[name] = Abstained(f"{name} returned None") if value is None else value
    return Trajectory(
        id=c.id,
        group=c.group,
        step=step,
        prompt_ids=c.prompt_ids,
        response_ids=c.response_ids,
        policy=c.written,
        behaviour_logps=logps,
        status=status,
        reference=c.row.get("reference"),
        turns=tuple(turns),
        messages=messages,
        columns=columns,
    )


def _runs(layout: Layout) -> list[tuple[int, int]]:
    stops = np.cumsum(layout.turn_lengths + layout.gap_lengths) + layout.lead
    starts = stops - layout.turn_lengths - layout.gap_lengths
    return [(int(a), int(b)) for a, b in zip(starts, stops, strict=True)]


def turns_of(completion: str | Sequence[Mapping[str, Any]]) -> list[Turn]:
    """One turn per assistant message, with its actions and what answered it; a plain text is one turn."""
    if isinstance(completion, str):
        return [Turn(text=completion, actions=parse_actions(completion))]
    turns: list[Turn] = []
    for message in completion:
        if message.get("role") == "assistant":
            turns.append(Turn(text=_text(message), actions=_actions(message)))
        elif turns:
            answered = "\n".join(part for part in (turns[-1].observation, _text(message)) if part)
            turns[-1] = replace(turns[-1], observation=answered)
    return turns


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    return ""


def _actions(message: Mapping[str, Any]) -> tuple[Action, ...]:
    return parse_actions(message) if message.get("tool_calls") else parse_actions(_text(message))


def _decoded(ids: IntArray, written: BoolArray, span: tuple[int, int], decode: Decode) -> Turn:
    inside = np.arange(ids.size)
    here = (inside >= span[0]) & (inside < span[1])
    text = decode(ids[here & written].tolist())
    return Turn(text=text, actions=parse_actions(text), observation=decode(ids[here & ~written].tolist()), span=span)


def _with_steps(
    turns: Sequence[Turn],
    rewards: Sequence[float | None] | None,
    columns: Sequence[Mapping[str, Any]] | None,
) -> list[Turn]:
    """Step records joined to the turns they belong to: one per turn, or one per call in the order of the calls.

    An environment may have run calls whose turns were rolled back (an overlong result), so a list per call may be
    longer; what fits neither way cannot be aligned and is left out.
    """
    calls = [len(turn.actions) for turn in turns]

    def aligned(records: Sequence[Any] | None) -> list[list[Any]]:
        if records is not None and len(records) == len(turns):
            return [[record] for record in records]
        if records is None or len(records) < sum(calls):
            return [[] for _ in turns]
        ends = np.cumsum(calls).tolist()
        return [list(records[end - count : end]) for end, count in zip(ends, calls, strict=True)]

    result = []
    for turn, paid, facts in zip(turns, aligned(rewards), aligned(columns), strict=True):
        given = [float(r) for r in paid if r is not None]
        merged: dict[str, Any] = dict(turn.columns)
        for name, value in (item for record in facts for item in record.items()):
            both = isinstance(value, (int, float)) and isinstance(merged.get(name), (int, float))
            merged[name] = merged[name] + value if both else value
        result.append(replace(turn, reward=sum(given) if given else turn.reward, columns=merged))
    return result
