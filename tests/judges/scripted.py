"""Judges that follow a script, and a reader of prompts that trusts nothing but the code of the request."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence

from apportion.judges.exchange import Request, Response, TransportError
from apportion.rollouts import Trajectory, Turn

_ENDING = re.compile(r"(?:VERDICT |\"nonce\": \")([0-9a-f]{8})")
Says = Callable[[Request], "str | Response | TransportError | None"]


class Scripted:
    """A transport that answers by a function, and remembers what it was asked."""

    def __init__(self, says: Says) -> None:
        self.says = says
        self.asked: list[Request] = []

    async def ask(self, request: Request) -> Response:
        self.asked.append(request)
        said = self.says(request)
        if isinstance(said, TransportError):
            raise said
        return said if isinstance(said, Response) else Response(said, input_tokens=10, output_tokens=2)  # type: ignore[arg-type]

    async def aclose(self) -> None:
        return None


def prompt_of(request: Request) -> str:
    return request.messages[-1].content


def code_of(request: Request) -> str:
    """The code that a judge is asked to repeat: the last one, since our words end the prompt."""
    return _ENDING.findall(prompt_of(request))[-1]


def verdict(request: Request, payload: str) -> str:
    return f"Some reasons.\nVERDICT {code_of(request)}: {payload}"


def outside(text: str, code: str, *, believes: Callable[[str], bool] | None = None) -> str:
    """What stands outside the fences. `believes` is a careless reader's idea of a line that ends a fence."""
    kept: list[str] = []
    label: str | None = None
    for line in text.split("\n"):
        start = re.fullmatch(rf"<<<BEGIN (.*) {code}(?: \([^()]*\))?>>>", line)
        if label is None and start:
            label = start[1]
        elif label is not None and (line == f"<<<END {label} {code}>>>" or (believes is not None and believes(line))):
            label = None
        elif label is None:
            kept.append(line)
        else:
            assert line.startswith("| "), f"a line inside the fence without its bar: {line!r}"
    assert label is None, "a fence that never ends"
    return "\n".join(kept)


def careless(line: str) -> bool:
    """A reader that looks at the shape only: any line that begins like the end of a fence."""
    plain = unicodedata.normalize("NFKC", line).casefold()
    return bool(re.match(r"\s*<{2,}\s*/?end\b|\s*</|\s*-{3,}\s*end\b|\s*`{3}", plain))


def rollout(*texts: str, id: str = "r0", group: str = "q", task: str = "", **more: object) -> Trajectory:
    """A conversation: what the policy wrote and what came back, in turn."""
    turns = [
        Turn(text=texts[at], observation=texts[at + 1] if at + 1 < len(texts) else "") for at in range(0, len(texts), 2)
    ]
    messages: list[dict[str, str]] = [{"role": "user", "content": task}] if task else []
    for turn in turns if task else ():
        messages.append({"role": "assistant", "content": turn.text})
        if turn.observation:
            messages.append({"role": "tool", "content": turn.observation})
    return Trajectory(id=id, group=group, turns=turns, messages=messages, **more)  # type: ignore[arg-type]


def group_of(answers: Sequence[str], *, group: str = "q") -> list[Trajectory]:
    return [rollout(answer, id=f"{group}{at}", group=group) for at, answer in enumerate(answers)]
