"""Reading a judge's reply: one exact verdict, or the reason why there is none. Never a guess.

    line:  the last line is `VERDICT <nonce>: score=7`, and no other line holds that marker
    json:  the whole reply is one object {"nonce": "<nonce>", "critique": "...", "verdict": {"score": 7}}

The nonce is in the judge's instructions and nowhere in the rollout: what a judge repeats from a rollout is no verdict,
even where it looks like one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from apportion.judges.exchange import Response
from apportion.judges.forms import Form, OutOfRange
from apportion.rewards import _arguments

__all__ = ["Read", "Syntax", "Unread", "UnreadKind", "read", "schema_of", "verdict_line"]

Syntax: TypeAlias = Literal["line", "json"]
UnreadKind: TypeAlias = Literal[
    "empty", "truncated", "refused", "no-verdict", "duplicate", "quoted", "malformed", "incomplete", "out-of-range"
]

_LONGEST = 200_000
_RAW = 400
_BLANK = " \t\r\n"
_PART = re.compile(r'[ \t]*([A-Za-z][A-Za-z0-9_.]*)[ \t]*=[ \t]*("(?:[^"\\]|\\.)*"|[^\s;"]+)[ \t]*(;|\Z)')
# A line of three or more marks opens or closes quoted text, as in Markdown.
_BLOCK = re.compile(r" {0,3}(```+|~~~+)")


@dataclass(frozen=True, slots=True)
class Read:
    """A verdict.

    Attributes:
        values: one value for every slot of the form.
        critique: what the judge wrote before it.
    """

    values: Mapping[str, Any]
    critique: str


@dataclass(frozen=True, slots=True)
class Unread:
    """Why there is no verdict.

    Attributes:
        kind: which rule the reply broke.
        detail: what was found, in words.
        raw: the end of the reply, quoted and cut.
    """

    kind: UnreadKind
    detail: str
    raw: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}" + (f"; reply: {self.raw}" if self.raw else "")


def verdict_line(form: Form, nonce: str) -> str:
    """The line that a judge is asked to end with, as a pattern for people.

    Example:
        >>> from apportion.judges.forms import Choice, Number
        >>> verdict_line({"sound": Choice(("yes", "no")), "score": Number(1, 10)}, "3f9c01ab")
        'VERDICT 3f9c01ab: sound=<one of yes, no>; score=<a whole number from 1 to 10>'
    """
    return f"VERDICT {nonce}: " + "; ".join(f"{name}=<{slot.expects}>" for name, slot in form.items())


def schema_of(form: Form, nonce: str) -> dict[str, Any]:
    """The JSON schema of a reply.

    Example:
        >>> from apportion.judges.forms import Number
        >>> schema_of({"score": Number(0, 1, "any")}, "3f9c01ab")["properties"]["nonce"]
        {'const': '3f9c01ab'}
    """
    return {
        "type": "object",
        "properties": {
            "critique": {"type": "string"},
            "nonce": {"const": nonce},
            "verdict": {
                "type": "object",
                "properties": {name: dict(slot.schema) for name, slot in form.items()},
                "required": list(form),
                "additionalProperties": False,
            },
        },
        "required": ["critique", "nonce", "verdict"],
        "additionalProperties": False,
    }


def read(response: Response, form: Form, nonce: str, *, syntax: Syntax = "line") -> Read | Unread:
    r"""The verdict in a reply.

    Args:
        response: what the judge answered.
        form: the slots, each of which must be there once and within its range.
        nonce: of this request.
        syntax: "line" or "json".

    Returns:
        `Read`, or `Unread` with its reason: empty, truncated (the server cut it off, whatever it holds), refused,
        no-verdict, duplicate, quoted (inside a quoted block or an unfinished thought), malformed, incomplete or
        unknown slots, out-of-range.

    Raises:
        InvalidArgument: an unknown syntax.

    Example:
        >>> from apportion.judges.forms import Number
        >>> form = {"score": Number(1, 10)}
        >>> read(Response("Clear.\nVERDICT 3f9c01ab: score=7"), form, "3f9c01ab").values
        {'score': 7.0}
        >>> read(Response("He wrote\nVERDICT 00000000: score=10"), form, "3f9c01ab").kind
        'no-verdict'
        >>> read(Response("VERDICT 3f9c01ab: score=11"), form, "3f9c01ab").kind
        'out-of-range'
    """
    _arguments.choice("syntax", syntax, ("line", "json"))
    text = response.text if isinstance(response.text, str) else ""
    raw = _arguments.excerpt(text[-_RAW:], _RAW) if text else ""
    if response.finish == "refused":
        return Unread("refused", "the judge declined to answer", raw)
    if not text.strip():
        return Unread("empty", "the reply is empty", "")
    if response.finish == "length":
        return Unread("truncated", "the reply was cut off", raw)
    if len(text) > _LONGEST:
        return Unread("malformed", f"the reply has {len(text)} characters, at most {_LONGEST} are read", raw)
    try:
        return _from_line(text, form, nonce) if syntax == "line" else _from_json(text, form, nonce)
    except _Broken as broken:
        return Unread(broken.kind, broken.detail, raw)


class _Broken(Exception):
    def __init__(self, kind: UnreadKind, detail: str) -> None:
        self.kind: UnreadKind = kind
        self.detail = detail
        super().__init__(detail)


def _from_line(text: str, form: Form, nonce: str) -> Read:
    answer = _after_thoughts(text)
    # Only \n ends a line: a separator that some viewers do not show must not make a line of its own.
    lines = answer.rstrip(_BLANK).split("\n")
    marker = f"VERDICT {nonce}:"
    count = answer.count(marker)
    if not count:
        raise _Broken("no-verdict", f"no line starts with {marker!r}")
    if count > 1:
        raise _Broken("duplicate", f"{count} verdicts where one is allowed")
    last = lines[-1].rstrip(_BLANK)
    if not last.startswith(marker):
        raise _Broken("no-verdict", "the verdict is not the last line, by itself")
    if _inside_block(lines[:-1], nonce):
        raise _Broken("quoted", "the verdict stands inside quoted text")
    parts = _parts(last[len(marker) :])
    return Read(_values(form, parts, "from_text"), "\n".join(lines[:-1]).strip())


def _after_thoughts(text: str) -> str:
    """What follows the thoughts of a reasoning model, where it shows them."""
    start = text.lstrip()
    if not start.startswith("<think>"):
        return text
    _, closed, answer = start.partition("</think>")
    if not closed:
        raise _Broken("quoted", "the reply ends inside its thoughts")
    return answer


def _inside_block(lines: list[str], nonce: str) -> bool:
    opened = ""
    fences = 0
    for line in lines:
        mark = _BLOCK.match(line)
        if mark and not opened:
            opened = mark[1]
        elif mark and mark[1].startswith(opened) and not line[mark.end() :].strip():
            opened = ""
        fences += line.startswith("<<<BEGIN ") and nonce in line
        fences -= line.startswith("<<<END ") and nonce in line
    return bool(opened) or fences > 0


def _parts(text: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    at = 0
    while at < len(text):
        part = _PART.match(text, at)
        if not part:
            raise _Broken("malformed", f"{_arguments.excerpt(text[at:], 80)} is not name=value, separated by ';'")
        name, value = part[1], part[2]
        if name in found:
            raise _Broken("duplicate", f"{name} is given twice")
        found[name] = _unquoted(value) if value.startswith('"') else value
        at = part.end()
        if part[3] == ";" and at >= len(text):
            raise _Broken("malformed", "the line ends with ';'")
    return found


def _unquoted(value: str) -> Any:
    try:
        return _Quoted(json.loads(value))
    except ValueError:
        raise _Broken("malformed", f"{_arguments.excerpt(value, 80)} is no text in quotes") from None


class _Quoted(str):
    """A value that stood in quotes: a text, never a number or a choice."""


def _from_json(text: str, form: Form, nonce: str) -> Read:
    try:
        reply = json.loads(_after_thoughts(text), object_pairs_hook=_once, parse_constant=_no_constant)
    except RecursionError:
        raise _Broken("malformed", "the reply is nested too deeply") from None
    except ValueError as error:
        raise _Broken("malformed", f"the reply is not one JSON object ({error})") from None
    if not isinstance(reply, dict):
        raise _Broken("malformed", f"the reply is a {type(reply).__name__}, not an object")
    if set(reply) != {"critique", "nonce", "verdict"}:
        raise _Broken("incomplete", f"the reply has {_names(reply)} where critique, nonce and verdict belong")
    if reply["nonce"] != nonce:
        raise _Broken("no-verdict", "the nonce is not that of the request")
    if not isinstance(reply["critique"], str) or not isinstance(reply["verdict"], dict):
        raise _Broken("malformed", "critique is no text or verdict is no object")
    return Read(_values(form, reply["verdict"], "from_json"), reply["critique"])


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise _Broken("duplicate", "a name is given twice in one object")
    return made


def _no_constant(name: str) -> Any:
    raise _Broken("malformed", f"{name} is no number")


def _values(form: Form, parts: Mapping[str, Any], how: Literal["from_text", "from_json"]) -> dict[str, Any]:
    missing = [name for name in form if name not in parts]
    unknown = [name for name in parts if name not in form]
    if missing or unknown:
        what = [f"missing {_names(missing)}"] if missing else []
        what += [f"unknown {_names(unknown)}"] if unknown else []
        raise _Broken("incomplete", "; ".join(what))
    values: dict[str, Any] = {}
    for name, slot in form.items():
        part = parts[name]
        if how == "from_text" and isinstance(part, _Quoted) != slot.quoted:
            raise _Broken("malformed", f"{name}: {_arguments.excerpt(str(part), 60)} is not {slot.expects}")
        try:
            values[name] = slot.from_text(str(part)) if how == "from_text" else slot.from_json(part)
        except OutOfRange as error:
            raise _Broken("out-of-range", f"{name}: {error}") from None
        except ValueError as error:
            raise _Broken("malformed", f"{name}: {error}") from None
    return values


def _names(names: Any) -> str:
    return _arguments.brief(", ".join(sorted(map(str, names))) or "nothing", 200)
