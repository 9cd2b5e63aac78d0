"""What a word of a command line becomes: quotes removed, variables, substitutions, braces and `~` expanded.

A word comes out as one or several marked texts (marks.py); a part that nobody can know is UNKNOWN in them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from apportion.rewards.shell.marks import ANY as ANY_MARK
from apportion.rewards.shell.marks import CLOSE, COMMA, EMPTY, LEFT, OPEN, RIGHT, SPLIT, STAR, TILDE, UNKNOWN, globbing
from apportion.rewards.shell.parameters import Parameters
from apportion.rewards.shell.parsing import decoded, source

if TYPE_CHECKING:
    from tree_sitter import Node

    from apportion.rewards.shell.machine import Machine

__all__ = ["Expander", "ansi", "braces", "literal"]

_BRACES = str.maketrans({"{": LEFT, ",": COMMA, "}": RIGHT})
_UNBRACED = str.maketrans({LEFT: "{", COMMA: ",", RIGHT: "}"})
_LITERAL = str.maketrans(
    {STAR: "*", ANY_MARK: "?", OPEN: "[", CLOSE: "]", LEFT: "{", COMMA: ",", RIGHT: "}", SPLIT: " ", EMPTY: ""}
)
# Characters of one word that are read over to expand its braces.
_READ = 400_000
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v"}
_ANSI = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|0?([0-7]{1,3})|(.))", re.DOTALL)
_QUOTED_ESCAPE = re.compile(r"\\([$`\"\\\n])")
_SEQUENCE = re.compile(r"(-?\d{1,6}|[A-Za-z])\.\.(-?\d{1,6}|[A-Za-z])(?:\.\.-?\d{1,6})?")


class Expander:
    """Expands words in the state of a machine; command substitutions run there."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.parameters = Parameters(machine)

    def words(self, nodes: Iterable[Node]) -> list[str]:
        """The words that several nodes become."""
        found: list[str] = []
        most = self.machine.limits.words
        for node in nodes:
            for whole in braces(self.marked(node), most):
                found.extend(part.replace(EMPTY, "") for part in whole.split(SPLIT) if part)
            if len(found) > most * 4:
                return [*found[: most * 4], UNKNOWN]
        return found

    def text(self, node: Node) -> str:
        """The text that a node becomes where nothing is split (an assignment, a here-string)."""
        return literal(self.marked(node), self.machine.state.workspace.home)

    def marked(self, node: Node, *, quoted: bool = False) -> str:
        """The text of a node with its marks."""
        self.machine.step()
        kind = node.type
        if kind == "raw_string":
            return EMPTY + source(node)[1:-1]
        if kind == "ansi_c_string":
            return EMPTY + ansi(source(node)[2:-1])
        if kind == "string":
            return EMPTY + self.pieces(node, node.start_byte + 1, node.end_byte - 1, quoted=True)
        if kind == "translated_string":
            return "".join(self.marked(child) for child in node.named_children)
        if kind == "concatenation":
            return self.pieces(node, node.start_byte, node.end_byte, quoted=quoted)
        if kind == "simple_expansion":
            return self.parameters.plain(source(node)[1:], quoted)
        if kind == "expansion":
            return self.parameters.braced(node, self, quoted)
        if kind == "command_substitution":
            return self.parameters.value(self.machine.captured(node).rstrip("\n"), quoted)
        if kind == "process_substitution":
            return self.machine.substituted(node)
        if kind == "arithmetic_expansion":
            self.machine.statements.substitutions(node)
            digits = source(node)[3:-2].strip()
            return digits if digits.isdigit() else UNKNOWN
        if kind == "string_content":
            return _QUOTED_ESCAPE.sub(_unquote, source(node))
        first = node.prev_sibling is None or node.prev_sibling.end_byte < node.start_byte or node.type != "word"
        return EMPTY + source(node) if quoted else _unquoted(source(node), tilde=first or _after_equals(node))

    def pieces(self, node: Node, start: int, stop: int, *, quoted: bool) -> str:
        """The bytes from `start` to `stop` of a node: its children expanded, what lies between them as it stands."""
        whole = node.text or b""
        base = node.start_byte
        made: list[str] = []
        at = start
        for child in node.children:
            if child.start_byte < at or child.end_byte > stop or not child.is_named:
                continue
            made.append(self._between(whole[at - base : child.start_byte - base], quoted))
            made.append(self.marked(child, quoted=quoted) if child.is_named else "")
            at = child.end_byte
        made.append(self._between(whole[at - base : stop - base], quoted))
        return "".join(made)

    def broken(self, text: str) -> list[str]:
        """The words of a brace expansion in the place of a command, which the grammar does not know."""
        return braces(_unquoted(text, tilde=False), self.machine.limits.words)

    def body(self, node: Node, *, expanded: bool) -> str:
        """The text of a here-document."""
        if not expanded:
            return source(node)
        return literal(self.pieces(node, node.start_byte, node.end_byte, quoted=True), "~")

    @staticmethod
    def _between(raw: bytes, quoted: bool) -> str:
        text = decoded(raw)
        return _QUOTED_ESCAPE.sub(_unquote, text) if quoted else _unquoted(text, tilde=False)


def literal(text: str, home: str) -> str:
    """A marked text without its marks, UNKNOWN aside."""
    if text.replace(EMPTY, "").startswith(TILDE):
        text = text.replace(TILDE, home, 1)
    return text.translate(_LITERAL).replace(TILDE, "~")


def _after_equals(node: Node) -> bool:
    before = node.prev_sibling
    return before is not None and before.type == "="


def _unquote(match: re.Match[str]) -> str:
    return "" if match[1] == "\n" else match[1]


def _unquoted(text: str, *, tilde: bool) -> str:
    if "\\" not in text:
        made = globbing(text).translate(_BRACES)
    else:
        parts = re.split(r"\\(.)", text, flags=re.DOTALL)
        made = "".join(
            (part if part != "\n" else "") if at % 2 else globbing(part).translate(_BRACES)
            for at, part in enumerate(parts)
        )
    return TILDE + made[1:] if tilde and text.startswith("~") else made


def ansi(text: str) -> str:
    r"""The text of `$'...'` and of `echo -e`.

    Example:
        >>> ansi(r"\x72\155\t")
        'rm\t'
    """

    def one(match: re.Match[str]) -> str:
        for group, base in ((1, 16), (2, 16), (3, 16), (4, 8)):
            if match[group]:
                code = int(match[group], base)
                return chr(code) if 0 < code < 0xD800 else "\ufffd"
        return _ESCAPES.get(match[5], match[5])

    return _ANSI.sub(one, text)


def braces(text: str, most: int) -> list[str]:
    """The words that `{a,b}` and `{1..3}` make of one, at most so many.

    Example:
        >>> from apportion.rewards.shell.marks import COMMA, LEFT, RIGHT
        >>> braces(f"x{LEFT}a{COMMA}b{RIGHT}", 9)
        ['xa', 'xb']
    """
    done: list[str] = []
    waiting = [text]
    turns = 0
    while waiting:
        turns += 1
        if len(done) + len(waiting) > most or turns > most * 4 or turns * len(text) > _READ:
            return [*done, UNKNOWN]
        word = waiting.pop()
        start = word.find(LEFT)
        if start < 0:
            done.append(word.translate(_UNBRACED))
            continue
        choices, end = _choices(word, start)
        if len(choices) == 1:
            # Not a brace expansion: the braces are letters.
            waiting.append(f"{word[:start]}{{{word[start + 1 :]}")
        else:
            waiting.extend(word[:start] + choice + word[end:] for choice in reversed(choices))
    return done


def _choices(word: str, start: int) -> tuple[list[str], int]:
    depth, cuts = 0, [start]
    for at in range(start, len(word)):
        char = word[at]
        depth += (char == LEFT) - (char == RIGHT)
        if char == COMMA and depth == 1:
            cuts.append(at)
        elif depth == 0:
            if len(cuts) == 1:
                return _sequence(word[start + 1 : at]), at + 1
            return [word[a + 1 : b] for a, b in zip(cuts, [*cuts[1:], at], strict=True)], at + 1
    return [""], start


def _sequence(body: str) -> list[str]:
    match = _SEQUENCE.fullmatch(body)
    if match is None:
        return [""]
    if match[1].lstrip("-").isdigit() and match[2].lstrip("-").isdigit():
        first, last = int(match[1]), int(match[2])
        if abs(last - first) > 300:
            return [UNKNOWN, UNKNOWN]
        return [str(n) for n in range(first, last + 1)] or [str(n) for n in range(first, last - 1, -1)]
    if len(match[1]) == len(match[2]) == 1:
        low, high = sorted((ord(match[1]), ord(match[2])))
        return [chr(code) for code in range(low, high + 1)] + ([""] if low == high else [])
    return [""]
