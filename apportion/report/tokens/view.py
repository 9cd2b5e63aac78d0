"""One rollout as the checks look at it: a row of ids, the replies in it, and the same row rendered again."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from apportion.report.tokens.compare import BoolArray, IntArray, differences
from apportion.report.tokens.hits import shown
from apportion.report.tokens.tokenizer import MARK, ChatTokenizer, Scaffold, encode, render
from apportion.rollouts import Trajectory

__all__ = ["Reply", "View"]

NO_SCAFFOLD = Scaffold()


@dataclass(frozen=True, slots=True)
class Reply:
    """An uninterrupted stretch of policy tokens: ids[start:stop] of the whole row, in one turn."""

    turn: int
    start: int
    stop: int


class View:
    """A rollout, its replies, and what the tokenizer makes of its messages.

    Attributes:
        trajectory: the rollout; it has tokens.
        tokenizer: None when only ids and numbers can be checked.
        scaffold: what the template puts around a reply.
        arguments: what else the template takes.
        ids: int[P + T], prompt and response.
        policy: bool[P + T], False on the prompt.
        prompt: P.
    """

    def __init__(
        self,
        trajectory: Trajectory,
        *,
        tokenizer: ChatTokenizer | None = None,
        scaffold: Scaffold = NO_SCAFFOLD,
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        prompt, response = _given(trajectory.prompt_ids), _given(trajectory.response_ids)
        policy = np.zeros(response.size, np.bool_) if trajectory.policy is None else trajectory.policy
        self.trajectory = trajectory
        self.tokenizer = tokenizer
        self.scaffold = scaffold
        self.arguments = dict(arguments or {})
        tools = trajectory.columns.get("tools")
        if isinstance(tools, Sequence) and not isinstance(tools, str) and tools:
            self.arguments.setdefault("tools", list(tools))
        self.ids: IntArray = np.concatenate((prompt, response))
        self.policy: BoolArray = np.concatenate((np.zeros(prompt.size, np.bool_), policy))
        self.prompt = prompt.size

    @cached_property
    def replies(self) -> tuple[Reply, ...]:
        """Every run of policy tokens, cut where a turn ends."""
        where = np.flatnonzero(self.policy)
        if not where.size:
            return ()
        lengths = self.trajectory.layout().turn_lengths
        turn = np.repeat(np.arange(lengths.size), lengths)
        new = np.ones(where.size, np.bool_)
        new[1:] = (np.diff(where) > 1) | (np.diff(turn) > 0)
        first = np.flatnonzero(new)
        last = np.append(first[1:], where.size) - 1
        return tuple(Reply(int(turn[a]), int(where[a]), int(where[b]) + 1) for a, b in zip(first, last, strict=True))

    def reply_at(self, start: int, stop: int) -> Reply | None:
        """The first reply that ids[start:stop] touches; an empty stretch touches what stands behind it."""
        k = bisect_right(self._stops, start)
        found = self.replies[k] if k < len(self.replies) else None
        return found if found is not None and max(stop, start + 1) > found.start else None

    @cached_property
    def _stops(self) -> list[int]:
        return [reply.stop for reply in self.replies]

    @cached_property
    def calling(self) -> frozenset[int]:
        """The turns whose message holds tool calls; the last messages of the policy are those of the turns."""
        own = [message for message in self.trajectory.messages if message.get("role") == "assistant"]
        before = len(own) - self.trajectory.n_turns
        return frozenset(at - before for at, message in enumerate(own) if message.get("tool_calls"))

    def of(self, reply: Reply) -> list[int]:
        """The ids of a reply."""
        ids: list[int] = self.ids[reply.start : reply.stop].tolist()
        return ids

    def around(self, index: int) -> str:
        """The tokens around an index of the row, readable."""
        first = max(index - 8, 0)
        return shown(self.tokenizer, self.ids[first : index + 8].tolist(), index - first)

    @cached_property
    def rendering(self) -> IntArray | str | None:
        """The messages rendered and encoded again; a text says why they could not be; None without messages."""
        if self.tokenizer is None or not self.trajectory.messages:
            return None
        try:
            text = self._render(self.trajectory.messages)
        except ValueError as error:
            return str(error) or "the template gave no reason"
        return np.asarray(encode(self.tokenizer, text), np.int64)

    @cached_property
    def foreign(self) -> IntArray:
        """int[P + T]: the message of another role whose content a token is part of, or -1.

        The contents are found exactly: the messages are rendered once with marks in their place, and what stands
        between the marks must fit the true rendering. Templates that rewrite their messages give -1 throughout.
        """
        owner = np.full(self.ids.size, -1, np.int64)
        if self.tokenizer is None or not isinstance(self.rendering, np.ndarray):
            return owner
        pieces = self._pieces()
        if pieces is None:
            return owner
        ids: list[int] = []
        labels: list[int] = []
        for message, text in pieces:
            part = encode(self.tokenizer, text)
            ids += part
            labels += [message] * len(part)
        i = j = 0
        for d in differences(self.ids, ids):
            owner[i : d.start] = labels[j : d.other_start]
            i, j = d.stop, d.other_stop
        owner[i:] = labels[j:]
        return owner

    def _pieces(self) -> list[tuple[int, str]] | None:
        """The rendering as (message, its content) and (-1, anything else); None when it does not come apart."""
        messages = self.trajectory.messages
        others = {
            i: str(message["content"])
            for i, message in enumerate(messages)
            if message.get("role") != "assistant" and isinstance(message.get("content"), str) and message["content"]
        }
        marked = [
            {**message, "content": f"{MARK}{i}\ue002"} if i in others else message for i, message in enumerate(messages)
        ]
        try:
            whole, rest = self._render(messages), self._render(marked)
        except ValueError:
            return None
        pieces: list[tuple[int, str]] = []
        at = 0
        for i, content in others.items():
            between, found, rest = rest.partition(f"{MARK}{i}\ue002")
            start = at + len(between)
            text = next((text for text in (content, content.strip()) if whole.startswith(text, start)), None)
            if not found or text is None or not whole.startswith(between, at):
                return None
            pieces += [(-1, between), (i, text)]
            at = start + len(text)
        return [*pieces, (-1, rest)] if whole[at:] == rest else None

    def _render(self, messages: Sequence[Mapping[str, Any]]) -> str:
        assert self.tokenizer is not None
        waiting = messages[-1].get("role") != "assistant"
        return render(self.tokenizer, messages, generate=waiting, arguments=self.arguments)


def _given(ids: IntArray | None) -> IntArray:
    return np.empty(0, np.int64) if ids is None else ids
