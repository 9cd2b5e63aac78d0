"""Whether a path that a command names is one that a rule names, where either may be a pattern.

Both become strings of tokens (sets of characters, one character, any run within a folder, any run at all). A path
without a wild part is decided by a regular expression; otherwise the question is whether the two have a text in common.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

from apportion.errors import InvalidArgument
from apportion.rewards.shell.marks import ANY, CLOSE, DEEP, OPEN, STAR, UNKNOWN, is_wild
from apportion.rewards.shell.state import Workspace, join

__all__ = ["Patterns", "fits", "inside"]

# None: one character other than "/"; "*": any run of them; "**": any run at all.
Token: TypeAlias = frozenset[str] | str | None

_LONGEST = 400


@dataclass(frozen=True)
class Patterns:
    """Paths that a rule names.

    A pattern without a slash is a name in any folder, one with a slash is meant from the workspace's root; `*` and `?`
    stay within a folder and `**` does not. A pattern that names a folder names everything below it.

    Attributes:
        given: the patterns.
        workspace: where relative ones start.

    Raises:
        InvalidArgument: a pattern that is no text, or is empty or longer than 400 characters.

    Example:
        >>> tests = Patterns(("tests/**", "conftest.py"), Workspace())
        >>> tests.match("/workspace/tests/unit/test_a.py"), tests.match("/workspace/src/conftest.py")
        (True, True)
        >>> tests.match("/workspace/src/a.py"), tests.match(UNKNOWN)
        (False, None)
    """

    given: tuple[str, ...]
    workspace: Workspace
    tokens: tuple[tuple[Token, ...], ...] = field(init=False, repr=False, compare=False)
    compiled: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for pattern in self.given:
            if not isinstance(pattern, str) or not pattern.strip("/") or len(pattern) > _LONGEST:
                raise InvalidArgument("paths", pattern, f"a path or pattern of 1 to {_LONGEST} characters")
        made = tuple(tuple(_from_pattern(pattern, self.workspace)) for pattern in self.given)
        object.__setattr__(self, "tokens", made)
        flags = re.DOTALL | (re.IGNORECASE if self.workspace.ignore_case else 0)
        # A folder that is named stands for what is below it too.
        source = "|".join(f"(?:{''.join(map(_regex, tokens))})(?:/.*)?" for tokens in made)
        object.__setattr__(self, "compiled", re.compile(source, flags))

    def match(self, path: str, *, below: bool = False) -> bool | None:
        """Whether a path is one of them.

        Args:
            path: absolute and normalised, marked as in marks.py.
            below: also when one of them lies below the path (it is removed or moved with everything in it).
        """
        if not self.given:
            return False
        if not is_wild(path):
            if self.compiled.fullmatch(path) is not None:
                return True
            return below and self._holds(path)
        if len(path) > _LONGEST:
            return None
        head = re.split(f"[{STAR}{ANY}{OPEN}{DEEP}{UNKNOWN}]", path, maxsplit=1)[0]
        if UNKNOWN not in path and head.endswith("/") and self.compiled.fullmatch(head + "\1") is not None:
            return True
        shown = path.casefold() if self.workspace.ignore_case else path
        if path.endswith("/" + DEEP) and not is_wild(path[:-2]) and self._holds(path[:-2] or "/"):
            return True
        read, sure = tuple(_from_path(shown)), UNKNOWN not in path
        # Below a folder elsewhere, a bare name is not expected.
        near = DEEP not in head and (
            f"{head}/".startswith(f"{self.workspace.root}/") or self.workspace.root.startswith(head)
        )
        answers = [
            _common(read, tokens, sure)
            for tokens, given in zip(self.tokens, self.given, strict=True)
            if near or DEEP not in path or "/" in given.rstrip("/")
        ]
        if below and not any(answers):
            if sure and path.endswith("/" + STAR) and self._holds(path[:-2] or "/"):
                return True
            # A bare name may lie in any folder; nobody protects every folder by it.
            deep = [tokens for tokens, given in zip(self.tokens, self.given, strict=True) if "/" in given.rstrip("/")]
            answers += [_common((*read, "**"), tokens, sure=False) for tokens in deep]
        return True if True in answers else None if None in answers else False

    def _holds(self, folder: str) -> bool:
        """Whether a named path lies below; a bare name lies in any folder, so only the whole workspace holds it."""
        root = self.workspace.root
        base = folder.rstrip("/") + "/"
        if f"{root}/".startswith(base):
            return any(pattern[:1] != "/" or pattern.startswith(base) for pattern in self.given)
        heads = [re.split(r"[*?\[]", join(root, pattern))[0] for pattern in self.given if "/" in pattern.rstrip("/")]
        return any(head.startswith(base) for head in heads)


def inside(path: str, folder: str) -> bool | None:
    """Whether a path lies in a folder or is it; None when an unknown part could lead out.

    Example:
        >>> inside("/w/build", "/w"), inside("/etc", "/w"), inside("/w/" + UNKNOWN, "/w")
        (True, False, None)
    """
    if path == folder or path.startswith(folder.rstrip("/") + "/"):
        return None if UNKNOWN in path else True
    if not is_wild(path):
        return False
    if UNKNOWN in path:
        return None
    # A glob never crosses a slash: compare as many parts as the folder has.
    parts, wanted = path.split("/"), folder.split("/")
    if len(parts) <= len(wanted) or DEEP in "".join(parts[: len(wanted) + 1]):
        return False
    return None if all(fits(a, b) for a, b in zip(parts, wanted, strict=False)) else False


@lru_cache(maxsize=8192)
def fits(wild: str, name: str) -> bool:
    """Whether a word with globs can stand for a name.

    Example:
        >>> fits("r" + ANY, "rm"), fits("r" + ANY, "cp")
        (True, False)
    """
    return len(wild) <= _LONGEST and _meet(tuple(_from_path(wild)), tuple(frozenset(char) for char in name))


def _from_pattern(pattern: str, workspace: Workspace) -> list[Token]:
    anywhere = "/" not in pattern.rstrip("/")
    text = pattern.rstrip("/") if anywhere else join(workspace.root, pattern)
    tokens: list[Token] = ["**", frozenset("/")] if anywhere else []
    at = 0
    while at < len(text):
        if text.startswith("**", at):
            tokens.append("**")
            # "a/**/b" is also "a/b"; the slash after ** is part of what it stands for.
            at += 3 if text.startswith("**/", at) else 2
        elif text[at] == "*":
            tokens.append("*")
            at += 1
        elif text[at] == "?":
            tokens.append(None)
            at += 1
        elif text[at] == "[" and "]" in text[at + 2 :]:
            end = text.index("]", at + 2)
            tokens.append(_bracket(text[at + 1 : end]))
            at = end + 1
        else:
            tokens.append(frozenset(_fold(text[at], workspace.ignore_case)))
            at += 1
    return tokens


def _fold(char: str, ignore_case: bool) -> set[str]:
    return {char.casefold(), char} if ignore_case else {char}


def _from_path(path: str) -> list[Token]:
    tokens: list[Token] = []
    at = 0
    while at < len(path):
        char = path[at]
        if char in (UNKNOWN, DEEP):
            tokens.append("**")
        elif char == STAR:
            tokens.append("*")
        elif char == ANY:
            tokens.append(None)
        elif char == OPEN and CLOSE in path[at + 2 :]:
            end = path.index(CLOSE, at + 2)
            tokens.append(_bracket(path[at + 1 : end]))
            at = end
        else:
            tokens.append(frozenset({OPEN: "[", CLOSE: "]"}.get(char, char)))
        at += 1
    return tokens


def _bracket(body: str) -> Token:
    if body[:1] in ("!", "^") or "[:" in body or "-" in body.strip("-"):
        return None
    return frozenset(body)


def _regex(token: Token) -> str:
    if token is None:
        return "[^/]"
    if isinstance(token, str):
        return "[^/]*" if token == "*" else ".*"
    return f"[{''.join(map(re.escape, sorted(token)))}]"


@lru_cache(maxsize=4096)
def _common(path: tuple[Token, ...], pattern: tuple[Token, ...], sure: bool) -> bool | None:
    """False when no text is both; True when the path's own letters spell the pattern out, None when it only may."""
    if not _meet(path, pattern):
        return False
    if all(isinstance(token, frozenset) and len(token) == 1 for token in path):
        return True
    if not sure or not all(isinstance(token, frozenset) for token in pattern[2 if pattern[0] == "**" else 0 :]):
        return None
    # Enough letters of the last name, its ending aside, to say that this file was meant.
    last: list[str] = []
    for token in reversed(path):
        if token == frozenset("/"):
            break
        last.append(next(iter(token)) if isinstance(token, frozenset) and len(token) == 1 else "")
    if all(last):
        return True
    name = "".join(reversed([char or "*" for char in last])).rpartition(".")
    stem = name[0] or name[2]
    return True if sum(char not in "*?" for char in stem) >= 2 else None


def _meet(one: tuple[Token, ...], two: tuple[Token, ...]) -> bool:
    """Whether two token strings have a text in common, by a table over both."""
    row = [False] * (len(two) + 1)
    row[len(two)] = True
    for j in reversed(range(len(two))):
        row[j] = row[j + 1] and isinstance(two[j], str)
    for i in reversed(range(len(one))):
        below, row = row, [False] * (len(two) + 1)
        row[len(two)] = below[len(two)] and isinstance(one[i], str)
        for j in reversed(range(len(two))):
            a, b = one[i], two[j]
            if isinstance(a, str):
                row[j] = below[j] or (row[j + 1] and _takes(a, b)) or (isinstance(b, str) and row[j + 1])
            elif isinstance(b, str):
                row[j] = row[j + 1] or (below[j] and _takes(b, a))
            else:
                row[j] = below[j + 1] and _same(a, b)
    return row[0]


def _takes(run: str, other: Token) -> bool:
    """Whether a run can swallow one more token."""
    return run == "**" or isinstance(other, str) or other is None or other != frozenset("/")


def _same(a: Token, b: Token) -> bool:
    if a is None or b is None:
        other = b if a is None else a
        return other is None or other != frozenset("/")
    return bool(set(a) & set(b))
