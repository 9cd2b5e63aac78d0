"""Traces of verifiers: its own classes where it is installed, else stand-ins with the attributes that are read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

try:
    import verifiers.v1 as vf
except ImportError:
    vf = None


def call(name: str, arguments: str) -> Any:
    return (
        vf.ToolCall(id="c1", name=name, arguments=arguments)
        if vf
        else SimpleNamespace(id="c1", name=name, arguments=arguments)
    )


def node(role: str, content: str, ids: list[int], *, sampled: int = 0, calls: Any = None, parent: int | None) -> Any:
    """A message with its tokens, of which the last `sampled` are the policy's."""
    mask = [False] * (len(ids) - sampled) + [True] * sampled
    fields = {
        "parent": parent,
        "sampled": sampled > 0 or role == "assistant",
        "token_ids": ids,
        "mask": mask,
        "logprobs": [-0.5] * sampled,
    }
    if vf is None:
        message = SimpleNamespace(role=role, content=content, tool_calls=calls)
        return SimpleNamespace(message=message, advantages=None, **fields)
    message: dict[str, Any] = {"role": role, "content": content}
    if role == "tool":
        message["tool_call_id"] = "c1"
    if calls:
        message["tool_calls"] = [c.model_dump() for c in calls]
    return vf.MessageNode.model_validate({"message": message, **fields})


def nodes(*, tokens: bool = True) -> list[Any]:
    """A question, a call, its answer and a reply: prompt [1, 2, 3], sampled [10, 11] and [12]."""
    made = [
        node("user", "who?", [1, 2], parent=None),
        node("assistant", "", [3, 10, 11], sampled=2, calls=[call("find", '{"q": "x"}')], parent=0),
        node("tool", "Grace", [4, 5], parent=1),
        node("assistant", "Grace", [6, 12], sampled=1, parent=2),
    ]
    if not tokens:
        for one in made:
            one.token_ids, one.mask, one.logprobs = [], [], []
    return made


def trace(
    name: str = "t0",
    *,
    key: str = "q",
    rewards: dict[str, float | None] | None = None,
    tokens: bool = True,
    error: str = "",
    stop: str | None = None,
) -> Any:
    given = nodes(tokens=tokens)
    scored = {"correct": 1.0} if rewards is None else rewards
    if vf is not None:
        data = vf.TaskData(idx=0, prompt="who?")
        made = vf.Trace(
            id=name,
            task={"type": "Task", "data": data, "key": key},
            agent={"config": vf.AgentConfig()},
            nodes=given,
            rewards={n: None if v is None else {"score": v} for n, v in scored.items()},
            metrics={"length": 3.0},
            stop_condition=stop,
            ok=not error,
        )
        if error:
            made.record_error(RuntimeError(error))
        return made
    branch = SimpleNamespace(
        nodes=given,
        trainable=True,
        logprobs=[p for n in given for p in [0.0] * (len(n.mask) - sum(n.mask)) + n.logprobs],
    )
    return SimpleNamespace(
        id=name,
        task=SimpleNamespace(key=key, hash="h", data=SimpleNamespace(idx=0, model_dump=lambda: {"prompt": "who?"})),
        branches=[branch],
        nodes=given,
        rewards={n: None if v is None else SimpleNamespace(score=v) for n, v in scored.items()},
        reward=sum(v for v in scored.values() if v is not None),
        metrics={"length": 3.0},
        info={},
        errors=[SimpleNamespace(type="RuntimeError", message=error)] if error else [],
        ok=not error,
        is_truncated=stop == "max_turns",
        stop_condition=stop,
    )
