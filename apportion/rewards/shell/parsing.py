"""The parse of a command line by tree-sitter's grammar of bash, within limits that hostile text cannot exceed."""

from __future__ import annotations

import re
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from apportion._extras import require
from apportion.rewards.shell.marks import clean

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

__all__ = ["Exhausted", "Limits", "decoded", "parse", "source"]

# What the grammar's error recovery takes quadratic time over, and how often it may stand in one text.
_COSTLY = ("<<", "=(", "${", "$((")
_REPEATS = 1_000
# The last resort where counting did not help. Whatever takes so long is no command that anybody typed.
_SECONDS = 1.0
_BLOCK = 1 << 16
# Bytes that no text takes long to parse.
_SHORT = 4_000

# The grammar's scanner looks letters up in a table of 256 and may crash on others: those are spelled in control
# characters for the parse, as hexadecimal digits and an end mark.
_FAR = re.compile("[\x80-\x9f\u0100-\U0010ffff]")
_SPELLED = re.compile("[\x80-\x8f]+\x90")
_CONTROLS = str.maketrans("0123456789abcdef", "".join(map(chr, range(0x80, 0x90))))
_DIGITS = str.maketrans("".join(map(chr, range(0x80, 0x90))), "0123456789abcdef")


class Exhausted(Exception):
    """The analysis would cost more than its limits allow."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the analysis of one action may cost; beyond it the answer is "unknown", never a crash and never a guess.

    Counts and not seconds, so that one rollout gets the same answer on every machine.

    Attributes:
        characters: of one command line, script or piece of code.
        steps: visited nodes of the parse, scripts and functions that it runs included.
        depth: of nesting: subshells, functions, scripts, `sh -c`.
        words: that one word may expand to.
    """

    characters: int = 100_000
    steps: int = 20_000
    depth: int = 80
    words: int = 256


# A parser keeps a state while it parses, so each thread has its own.
_THREAD = threading.local()


def _parser() -> Parser:
    if not hasattr(_THREAD, "parser"):
        sitter = require("tree_sitter", extra="rules")
        bash = require("tree_sitter_bash", extra="rules")
        _THREAD.parser = sitter.Parser(sitter.Language(bash.language()))
    made: Parser = _THREAD.parser
    return made


def parse(text: str) -> Node:
    """The root of the parse; text that is not bash gives a tree with ERROR nodes.

    Raises:
        Exhausted: a text that would take the parser very long.

    Example:
        >>> parse("rm -rf build").children[0].type
        'command'
    """
    for mark in _COSTLY:
        if text.count(mark) > _REPEATS:
            raise Exhausted(f"more than {_REPEATS} times {mark}")
    code = _FAR.sub(_spelled, clean(text)).encode()
    parser = _parser()
    if len(code) > _SHORT:
        _try(parser, code)
    return parser.parse(code).root_node


def _try(parser: Parser, code: bytes) -> None:
    """Parses under a clock, which the parser only heeds where it does not keep the text of the nodes."""
    until = time.monotonic() + _SECONDS
    late = False

    def watch(*_: object) -> bool:
        nonlocal late
        late = time.monotonic() > until
        return late

    try:
        parser.parse(lambda at, _: code[at : at + _BLOCK], progress_callback=watch)
    except ValueError:
        parser.reset()
    if late:
        parser.reset()
        raise Exhausted(f"parsing takes more than {_SECONDS} s")


def source(node: Node) -> str:
    """The text of a node, as it was written."""
    return decoded(node.text or b"")


def decoded(code: bytes) -> str:
    """Text from the bytes of a node."""
    return _SPELLED.sub(lambda match: chr(int(match[0][:-1].translate(_DIGITS), 16)), code.decode("utf-8", "replace"))


def _spelled(match: re.Match[str]) -> str:
    return f"{ord(match[0]):x}".translate(_CONTROLS) + "\x90"
