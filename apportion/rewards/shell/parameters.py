"""Shell parameters: `$x`, `$@`, `${x:-word}`, `${x/a/b}`, `${!x}` and the like."""

from __future__ import annotations

import fnmatch
import re
from typing import TYPE_CHECKING

from apportion.rewards.shell.marks import EMPTY, SPLIT, UNKNOWN, globbing
from apportion.rewards.shell.parsing import source

if TYPE_CHECKING:
    from tree_sitter import Node

    from apportion.rewards.shell.machine import Machine
    from apportion.rewards.shell.words import Expander

__all__ = ["Parameters"]

_BRACED = re.compile(r"([!#]?)(\w+|[@*#?$!-])(?:\[([^\]]*)\])?(.*)", re.DOTALL)
_SUBSTRING = re.compile(r":\s*(-?\d+)\s*(?::\s*(-?\d+)\s*)?$")
_SPACE = re.compile(r"[ \t\n]+")
_FIXED = {"IFS": " \t\n", "SHELL": "/bin/bash", "BASH": "/bin/bash", "TMPDIR": "/tmp", "0": "bash"}
# What these mean by convention where nobody set them.
_USUAL = {"EDITOR": "vi", "VISUAL": "vi", "PAGER": "less", "PYTHON": "python", "MAKE": "make", "CC": "cc", "CXX": "c++"}


class Parameters:
    """Looks parameters up in the state of a machine."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def plain(self, name: str, quoted: bool) -> str:
        """`$name`."""
        values = self.lookup(name)
        if name == "*" and quoted:
            return EMPTY + " ".join(values)
        if name in ("@", "*"):
            return self._all(values, quoted)
        return self.value(values[0] if values else "", quoted)

    def braced(self, node: Node, expander: Expander, quoted: bool) -> str:
        """`${...}`."""
        match = _BRACED.fullmatch(source(node)[2:-1])
        if match is None:
            return UNKNOWN
        sign, name, index, rest = match.groups()
        if sign == "#":
            counted = self.lookup(name)
            if rest or UNKNOWN in "".join(counted):
                return UNKNOWN
            return str(len(counted) if index in ("@", "*") else len("".join(counted[:1])))
        if sign == "!":
            inner = "".join(self.lookup(name)[:1])
            return self.plain(inner, quoted) if re.fullmatch(r"\w+", inner) and not rest else UNKNOWN
        values = self._indexed(name, index)
        if index in ("@", "*") or name in ("@", "*"):
            if rest:
                values = [self._changed(value, rest) for value in values]
            return EMPTY + " ".join(values) if quoted and "*" in (index, name) else self._all(values, quoted)
        value = values[0] if values else ""
        choice = re.match(r":?[-=?+]", rest)
        if choice is None:
            return self.value(self._changed(value, rest), quoted)
        assigned = bool(value) if choice[0][0] == ":" else name in self.machine.state.variables
        if value == UNKNOWN and name not in self.machine.state.variables:
            # Nobody set it in this rollout, so what the policy wrote as the fallback is what it expects to get.
            assigned = False
        if assigned is (choice[0][-1] == "+"):
            start = node.start_byte + 2 + len((sign + name + choice[0]).encode())
            word = expander.pieces(node, start, node.end_byte - 1, quoted=quoted)
            if choice[0][-1] == "=":
                self.machine.state.assign(name, word.replace(EMPTY, ""))
            return word
        return "" if choice[0][-1] == "+" else self.value(value, quoted)

    def lookup(self, name: str) -> list[str]:
        """The values of a parameter; one for most, UNKNOWN where nobody set it."""
        state = self.machine.state
        if name in ("@", "*"):
            return list(state.arguments)
        if name == "#":
            return [str(len(state.arguments))]
        if name.isdigit() and name != "0":
            return state.arguments[int(name) - 1 : int(name)] if len(name) < 4 else []
        if name in state.variables:
            value = state.variables[name]
            return [value] if isinstance(value, str) else list(value)
        special = {"HOME": state.workspace.home, "PWD": state.cwd, **_FIXED, **_USUAL}
        return [special.get(name, UNKNOWN)]

    def value(self, value: str, quoted: bool) -> str:
        """A value where a word stands: split and globbed unless quoted."""
        if quoted:
            return EMPTY + value
        separators = "".join(self.lookup("IFS")[:1])
        if separators == UNKNOWN or separators == " \t\n":
            return globbing(_SPACE.sub(SPLIT, value))
        return globbing(re.sub(f"[{re.escape(separators)}]+", SPLIT, value) if separators else value)

    def _all(self, values: list[str], quoted: bool) -> str:
        return SPLIT.join((EMPTY + value) if quoted else self.value(value, False) for value in values)

    def _indexed(self, name: str, index: str | None) -> list[str]:
        values = self.lookup(name)
        if index is None or index in ("@", "*"):
            return values
        if not re.fullmatch(r"-?\d{1,6}", index):
            return [UNKNOWN]
        at = int(index)
        return [values[at]] if -len(values) <= at < len(values) else [""]

    def _changed(self, value: str, rest: str) -> str:
        """`${x%.py}`, `${x/a/b}`, `${x:1:2}`, `${x^^}` and the like on a known value."""
        if not rest:
            return value
        if UNKNOWN in value or "$" in rest or "`" in rest:
            return UNKNOWN
        if rest in ("^^", ",,", "^", ","):
            if rest in ("^^", ",,"):
                return value.upper() if rest == "^^" else value.lower()
            head = value[:1].upper() if rest == "^" else value[:1].lower()
            return head + value[1:]
        cut = _SUBSTRING.match(rest)
        if cut is not None:
            start = int(cut[1]) if int(cut[1]) >= 0 else max(len(value) + int(cut[1]), 0)
            stop = None if cut[2] is None else (start + int(cut[2]) if int(cut[2]) >= 0 else int(cut[2]))
            return value[start:stop]
        if rest[0] in "#%":
            return _trimmed(value, rest)
        if rest[0] == "/":
            return _replaced(value, rest)
        return value if rest[0] == "@" else UNKNOWN


def _unquote(word: str) -> str:
    return re.sub(r"[\"'\\]", "", word)


def _trimmed(value: str, rest: str) -> str:
    greedy = rest[:2] in ("##", "%%")
    pattern = _unquote(rest[2:] if greedy else rest[1:])
    if len(value) > 2_000 or pattern.count("*") > 4:
        return UNKNOWN
    matches = re.compile(fnmatch.translate(pattern)).match
    ends = range(len(value) + 1)
    if rest[0] == "#":
        cuts = [end for end in ends if matches(value[:end])]
        return value[(max if greedy else min)(cuts) :] if cuts else value
    cuts = [end for end in ends if matches(value[end:])]
    return value[: (min if greedy else max)(cuts)] if cuts else value


def _replaced(value: str, rest: str) -> str:
    every = rest.startswith("//")
    old, _, new = _unquote(rest[2:] if every else rest[1:]).partition("/")
    if not old or re.search(r"[*?\[]", old):
        return UNKNOWN
    anchor = old[0] if old[0] in "#%" and not every else ""
    old = old[1:] if anchor else old
    if anchor == "#":
        return new + value[len(old) :] if value.startswith(old) else value
    if anchor == "%":
        return value[: len(value) - len(old)] + new if value.endswith(old) else value
    return value.replace(old, new) if every else value.replace(old, new, 1)
