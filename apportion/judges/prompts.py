"""From material to a request: trusted words from a template, everything else between fences."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from apportion.errors import InvalidArgument
from apportion.judges.exchange import Message, Request
from apportion.judges.fencing import Piece, fence, nonce_of
from apportion.judges.forms import Form, checked_form
from apportion.judges.grammar import Syntax, schema_of, verdict_line
from apportion.judges.templates import Template
from apportion.rewards import _arguments
from apportion.rewards.messages import messages_by_turn
from apportion.rewards.recorded import final_text
from apportion.rollouts import Trajectory

__all__ = ["Prompt", "Server", "Shows", "build", "candidate_pieces", "reference_pieces", "task_pieces", "turn_pieces"]

# What of a rollout the judge sees: its last message, or all turns with what answered them.
Shows: TypeAlias = Literal["answer", "conversation"]

_WROTE = {
    "policy": "written by the candidate",
    "user": "written by a user",
    "tool": "tool output",
    "system": "set-up",
    "unrecorded": "what came back",
}


@dataclass(frozen=True, slots=True)
class Server:
    """How a model is asked.

    Attributes:
        model: what the server calls it.
        temperature: >= 0.
        max_tokens: of an answer, reasoning included.
        seed: of the sampling; None = the server's own.
        syntax: "line" (any server) or "json" (a schema goes along; for servers that support structured output).
        limit: characters shown of each fenced piece.
    """

    model: str
    temperature: float = 0.0
    max_tokens: int = 1024
    seed: int | None = None
    syntax: Syntax = "line"
    limit: int = 20_000

    def __post_init__(self) -> None:
        _arguments.text("model", self.model)
        _arguments.number("temperature", self.temperature, at_least=0)
        _arguments.whole("max_tokens", self.max_tokens, at_least=1)
        _arguments.whole("limit", self.limit, at_least=2)
        _arguments.choice("syntax", self.syntax, ("line", "json"))

    def check_deadline(self, *, tokens_per_s: float, deadline_s: float) -> None:
        """Refuses answers so long that they cannot arrive in time: every long verdict would be a timeout.

        Args:
            tokens_per_s: how fast the server writes one answer.
            deadline_s: seconds that a call may take.

        Raises:
            InvalidArgument: max_tokens / tokens_per_s > deadline_s.

        Example:
            >>> Server("judge", max_tokens=8000).check_deadline(tokens_per_s=40, deadline_s=200)
        """
        needed = self.max_tokens / _arguments.number("tokens_per_s", tokens_per_s, at_least=1e-9)
        if needed > _arguments.number("deadline_s", deadline_s, at_least=0):
            expected = f"at most {int(deadline_s * tokens_per_s)}: {needed:g} s needed, {deadline_s:g} s allowed"
            raise InvalidArgument("max_tokens", self.max_tokens, expected)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A request, and how to read its reply.

    Attributes:
        request: what to send.
        form: the slots of the verdict.
        nonce: of the fences and of the verdict.
        syntax: "line" or "json".
    """

    request: Request
    form: Form
    nonce: str
    syntax: Syntax = field(default="line")


def build(
    template: Template,
    *,
    material: Mapping[str, Sequence[Piece]],
    words: Mapping[str, str],
    form: Form,
    server: Server,
    tag: str = "",
) -> Prompt:
    r"""A prompt in which nothing of the material stands outside its fences.

    Args:
        template: has one slot for each name in `material` and `words`, and {verdict}.
        material: what others wrote; each piece gets its fence. No pieces are shown as "(none)".
        words: what we wrote, such as the criteria.
        form: the slots of the verdict.
        server: how to ask.
        tag: tells k samples of one prompt apart.

    Raises:
        InvalidArgument: slots that do not match the template, a form without slots.

    Example:
        >>> from apportion.judges.forms import Number
        >>> t = Template("toy", "1", "Judge.", "Rate this:\n{answer}\n{verdict}", ("answer", "verdict"))
        >>> asked = build(t, material={"answer": [Piece("answer", "4")]}, words={}, form={"score": Number(1, 10)},
        ...     server=Server("judge"))
        >>> asked.request.messages[1].content.replace(asked.nonce, "NONCE").splitlines()[1:4]
        ['<<<BEGIN answer NONCE>>>', '| 4', '<<<END answer NONCE>>>']
    """
    checked_form(form)
    twice = sorted(set(material) & {*words, "verdict"})
    if twice:
        raise InvalidArgument("material", twice, "names that are not among the words")
    nonce = nonce_of((p for name in sorted(material) for p in material[name]), salt=f"{template.digest()} {tag}")
    values = {name: fence(pieces, nonce, limit=server.limit) or "(none)" for name, pieces in material.items()}
    values |= {**words, "verdict": _ending(form, nonce, server.syntax)}
    request = Request(
        (Message("system", template.system), Message("user", template.fill(values))),
        model=server.model,
        temperature=server.temperature,
        max_tokens=server.max_tokens,
        seed=server.seed,
        schema=schema_of(form, nonce) if server.syntax == "json" else None,
        tag=tag,
    )
    return Prompt(request, form, nonce, server.syntax)


def _ending(form: Form, nonce: str, syntax: Syntax) -> str:
    if syntax == "json":
        shape = {
            "critique": "<your reasoning>",
            "nonce": nonce,
            "verdict": {name: f"<{slot.expects}>" for name, slot in form.items()},
        }
        return f"Reply with one JSON object and nothing else, in this form:\n{json.dumps(shape)}"
    return (
        "Write your reasoning first. Then end with one line of exactly this form, once and with nothing after it:\n"
        + verdict_line(form, nonce)
    )


def task_pieces(trajectory: Trajectory) -> list[Piece]:
    """What the policy was asked: the messages before its first turn, as far as they were recorded."""
    opening = messages_by_turn(trajectory)[0]
    return [Piece(f"task, {_WROTE[one.role]}", one.text) for one in opening if one.text]


def reference_pieces(trajectory: Trajectory) -> list[Piece]:
    """The gold answer, where there is one: a text as it is, anything else as JSON."""
    gold = trajectory.reference
    if gold is None:
        return []
    if isinstance(gold, str):
        return [Piece("reference", gold)]
    try:
        return [Piece("reference", json.dumps(gold, ensure_ascii=False, default=str))]
    except (TypeError, ValueError, RecursionError):
        return [Piece("reference", _arguments.excerpt(gold, 4_000))]


def candidate_pieces(trajectory: Trajectory, *, label: str, shows: Shows) -> list[Piece]:
    """A rollout as pieces with labels of ours, so that no text of it can pass for another turn or another speaker.

    Args:
        trajectory: the rollout.
        label: what it is called in the prompt, such as "A".
        shows: "answer" or "conversation".

    Example:
        >>> from apportion.rollouts import Turn
        >>> t = Trajectory(id="r", group="q", turns=[Turn(text="ls", observation="a.py"), Turn(text="done")])
        >>> [p.label for p in candidate_pieces(t, label="A", shows="conversation")]
        ['A, turn 0, written by the candidate', 'A, turn 0, what came back', 'A, turn 1, written by the candidate']
    """
    if shows == "answer":
        return [Piece(f"{label}, its answer", final_text(trajectory))]
    return [piece for k in range(len(trajectory.turns)) for piece in turn_pieces(trajectory, k, label=label)]


def turn_pieces(trajectory: Trajectory, turn: int, *, label: str = "") -> list[Piece]:
    """One turn: what the policy wrote, and what answered it."""
    name = f"{label}, turn {turn}" if label else f"turn {turn}"
    written, *answers = messages_by_turn(trajectory)[turn + 1]
    return [
        Piece(f"{name}, {_WROTE[written.role]}", written.text),
        *(Piece(f"{name}, {_WROTE[one.role]}", one.text) for one in answers if one.text),
    ]
