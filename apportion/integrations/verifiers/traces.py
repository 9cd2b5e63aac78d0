"""A trace of verifiers as a rollout: one branch, from the first token that the policy sampled to the last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from apportion.errors import InvalidArgument
from apportion.integrations.tool_calls import openai_call
from apportion.rollouts import Action, Status, Trajectory, Turn
from apportion.verdicts import Abstained, Failed, Scored

__all__ = ["branch_of", "rollout_of"]

# Ends that the policy brought about by going on for too long; other deadlines are the infrastructure's.
_CUT = "agent_timeout"


def branch_of(trace: Any) -> Any:
    """The branch that trains.

    Raises:
        InvalidArgument: none does, or several: which of them the credit of a shared token belongs to is not said.
    """
    found = [branch for branch in trace.branches if branch.trainable]
    if len(found) != 1:
        raise InvalidArgument("trace", trace.id, f"one branch that trains, here are {len(found)}: choose with branch=")
    return found[0]


def rollout_of(trace: Any, *, branch: Any = None) -> Trajectory:
    """The rollout of a trace.

    Args:
        trace: a `verifiers.v1.Trace`, live or read from disk.
        branch: one of `trace.branches`; default the only one that trains.

    Returns:
        `group` is the task's key. `columns` hold every reward's score and every metric by name, what the task's data
        and `trace.info` say, and "reward", their weighted sum. Traces without tokens, as evaluations leave them, are
        rollouts of text alone.

    Degenerate cases: a trace with an error is "aborted", one that a limit cut "truncated". A reward that was not
    computed makes "reward" `Failed`; without any reward there is no such column.

    Raises:
        InvalidArgument: as `branch_of`.
    """
    chosen = branch_of(trace) if branch is None else branch
    nodes = list(chosen.nodes)
    ids = np.asarray([token for node in nodes for token in node.token_ids], np.int64)
    mask = np.asarray([bool(m) for node in nodes for m in node.mask], bool)
    first = int(mask.argmax()) if mask.any() else ids.size
    tokens = mask.any()
    status, error = _ended(trace)
    return Trajectory(
        id=str(trace.id),
        group=str(trace.task.key or trace.task.hash or trace.task.data.idx),
        prompt_ids=ids[:first] if tokens else None,
        response_ids=ids[first:] if tokens else None,
        policy=mask[first:] if tokens else None,
        behaviour_logps=np.asarray(chosen.logprobs, np.float64)[first:] if tokens and _sampled(nodes) else None,
        status=status,
        error=error,
        reference=getattr(trace.task.data, "answer", None),
        turns=tuple(_turns(nodes, first if tokens else None)),
        columns=_columns(trace),
    )


def _sampled(nodes: Sequence[Any]) -> bool:
    """Whether every sampled token has its log-probability."""
    return all(len(node.logprobs) == sum(node.mask) for node in nodes)


def _turns(nodes: Sequence[Any], first: int | None) -> list[Turn]:
    """One per message that the policy sampled, with the messages that answer it."""
    at = np.cumsum([0, *(len(node.token_ids) for node in nodes)])
    starts = [int(at[i]) + list(node.mask).index(True) for i, node in enumerate(nodes) if any(node.mask)]
    sampled = [i for i, node in enumerate(nodes) if (any(node.mask) if first is not None else node.sampled)]
    made = []
    for k, i in enumerate(sampled):
        end = sampled[k + 1] if k + 1 < len(sampled) else len(nodes)
        span = None
        if first is not None:
            span = (starts[k] - first, (starts[k + 1] if k + 1 < len(starts) else int(at[-1])) - first)
        message = nodes[i].message
        made.append(
            Turn(
                text=_text(message.content),
                actions=tuple(_calls(message)),
                observation="\n".join(_text(node.message.content) for node in nodes[i + 1 : end]),
                span=span,
            )
        )
    return made


def _calls(message: Any) -> list[Action]:
    calls = getattr(message, "tool_calls", None) or []
    return [openai_call({"id": c.id, "function": {"name": c.name, "arguments": c.arguments}}) for c in calls]


def _text(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(part.text for part in content if isinstance(getattr(part, "text", None), str))


def _ended(trace: Any) -> tuple[Status, str | None]:
    if trace.is_truncated or trace.stop_condition == _CUT:
        return "truncated", None
    if trace.errors and not trace.ok:
        return "aborted", f"{trace.errors[-1].type}: {trace.errors[-1].message}"
    return "terminated", None


def _columns(trace: Any) -> dict[str, Any]:
    scores = {name: Abstained("not computed") if r is None else r.score for name, r in trace.rewards.items()}
    metrics = {name: value for name, value in trace.metrics.items() if value is not None}
    data = trace.task.data.model_dump()
    columns = {**data, **trace.info, **metrics, **scores}
    missing = [name for name, reward in trace.rewards.items() if reward is None]
    if missing:
        columns["reward"] = Failed(f"not computed: {', '.join(missing)}")
    elif trace.rewards:
        columns["reward"] = Scored(trace.reward)
    return columns
