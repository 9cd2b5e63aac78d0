"""What a command line does: one `Effect` per deed, with the node of the parse it was read from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from apportion.rewards import _arguments
from apportion.rewards.shell.marks import plain

__all__ = ["Effect", "Kind"]

Kind: TypeAlias = Literal["run", "read", "write", "delete", "discard", "restore", "unknown"]
Mode: TypeAlias = Literal["replace", "append", "edit"]


@dataclass(frozen=True, slots=True)
class Effect:
    """One deed.

    Attributes:
        kind: "run" a program, "read", "write" or "delete" a path, "discard" uncommitted changes of a path, "restore" a
            path from a copy or a commit, or "unknown": something is done and nobody can say what.
        how: the deed in words, e.g. "rm deletes /workspace/build".
        node: type of the parse node it was read from.
        text: the source of that node.
        path: absolute and normalised, marked as in marks.py; "" for "run" and "unknown".
        argv: the words of the command after all expansions; the program without its folder first.
        env: variables set for this command alone.
        sure: False when it only may happen (what it touches stands in a file that nobody saw).
        below: also everything below the path.
        mode: for "write": "replace" what was there, "append" to it, or "edit" it in place.
    """

    kind: Kind
    how: str
    node: str
    text: str
    path: str = ""
    argv: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    sure: bool = True
    below: bool = False
    mode: Mode = "edit"

    def __str__(self) -> str:
        shown = _arguments.excerpt(plain(self.text), 100)
        return f"{_arguments.brief(plain(self.how), 160)} ({self.node} {shown})"
