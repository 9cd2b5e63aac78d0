"""Runs a parsed command line without running anything: every command becomes the effects that it would have."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from apportion.rewards.shell.destroyers import carried, may_destroy
from apportion.rewards.shell.effects import Effect, Kind, Mode
from apportion.rewards.shell.marks import UNKNOWN, is_wild, plain
from apportion.rewards.shell.matching import fits
from apportion.rewards.shell.parsing import Exhausted, Limits, parse, source
from apportion.rewards.shell.state import State
from apportion.rewards.shell.statements import Statements
from apportion.rewards.shell.words import Expander

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["Call", "Handler", "Machine"]

_DEVICES = re.compile(r"/dev/(null|stdout|stderr|stdin|tty|fd/\d+|full|zero|u?random)")
_NAMES = re.compile(r"(python|pypy|perl|ruby|node|nodejs|php|lua)[\d.]*(?:\.exe)?")
# Seconds of parsing per action, all texts together.
_PARSING = 2.0
# Of a glob in the place of a program.
_LONGEST = 30
# Variables whose text other programs run.
_RUN_BY_OTHERS = re.compile(
    r"(PAGER|EDITOR|VISUAL|SSH|SSH_COMMAND|ASKPASS|PROMPT_COMMAND|BASH_ENV|LESSOPEN|LESSCLOSE|EXTERNAL_DIFF|RSH|PS[014])$"
)
_SUBSTITUTED = "/dev/fd/apportion"


@dataclass(slots=True)
class Call:
    """One command about to run.

    Attributes:
        machine: where it runs.
        argv: its words, the program without its folder first.
        stdin: what it reads; None when nothing was given, UNKNOWN in it where nobody can know.
        env: variables set for it alone.
    """

    machine: Machine
    argv: list[str]
    stdin: str | None = None
    env: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """The program."""
        return self.argv[0]

    @property
    def line(self) -> str:
        """The command in words, for the evidence."""
        return plain(" ".join(self.argv))[:120]

    def path(self, word: str, *, last: bool = True) -> str:
        """The absolute path that one of its words means."""
        return self.machine.state.resolve(word, last=last)

    def emit(
        self,
        kind: Kind,
        word: str,
        *,
        sure: bool = True,
        below: bool = False,
        mode: Mode = "edit",
        last: bool = True,
        how: str = "",
    ) -> str:
        """Reports a deed on a path and returns the path."""
        path = self.path(word, last=last)
        verb = how or f"{self.name} {kind}s"
        self.machine.report(kind, f"{verb} {plain(path)}", path=path, sure=sure, below=below, mode=mode)
        return path

    def unknown(self, why: str) -> None:
        """Reports that nobody can say what it does."""
        self.machine.report("unknown", why)

    def run(self, argv: Sequence[str], stdin: str | None = None, env: Sequence[tuple[str, str]] = ()) -> str:
        """Runs another command in its place."""
        return self.machine.dispatch(list(argv), stdin, (*self.env, *env))


# Reports what the command does and returns what it prints.
Handler = Callable[[Call], str]


class Machine:
    """The shell of one rollout while it works on one action.

    Attributes:
        state: what it knows; changed in place.
        limits: what it may cost.
        effects: what was done so far.
        status: whether the last command succeeded, where that is certain.
    """

    def __init__(self, state: State, handlers: dict[str, Handler], limits: Limits) -> None:
        self.state = state
        self.limits = limits
        self.handlers = handlers
        self.effects: list[Effect] = []
        self.status: bool | None = None
        self.expander = Expander(self)
        self.statements = Statements(self)
        self.expanding: set[str] = set()
        self._steps = 0
        self._depth = 0
        self._parsing = 0.0
        self._node = ("program", "")

    def step(self) -> None:
        """Counts one unit of work."""
        self._steps += 1
        if self._steps > self.limits.steps:
            raise Exhausted(f"more than {self.limits.steps} steps")

    @contextmanager
    def deeper(self) -> Iterator[None]:
        """One level of nesting."""
        self._depth += 1
        try:
            if self._depth > self.limits.depth:
                raise Exhausted(f"nested more than {self.limits.depth} deep")
            yield
        finally:
            self._depth -= 1

    @contextmanager
    def at(self, node: Node) -> Iterator[None]:
        """Effects are read from this node."""
        before, self._node = self._node, (node.type, source(node)[:400])
        try:
            yield
        finally:
            self._node = before

    def place(self, kind: str, text: str) -> None:
        """Effects that follow are read from here: an argument of a tool, which is no node of a parse."""
        self._node = (kind, text[:400])

    @contextmanager
    def subshell(self) -> Iterator[None]:
        """What changes inside is forgotten, files, links and settings of git aside."""
        outside = self.state
        self.state = outside.copy()
        try:
            yield
        finally:
            inside, self.state = self.state, outside
            outside.files, outside.links = inside.files, inside.links
            outside.git_aliases, outside.lost = inside.git_aliases, inside.lost

    def report(
        self,
        kind: Kind,
        how: str,
        *,
        path: str = "",
        argv: Sequence[str] = (),
        env: tuple[tuple[str, str], ...] = (),
        sure: bool = True,
        below: bool = False,
        mode: Mode = "edit",
    ) -> None:
        """Adds one effect at the current node."""
        self.step()
        if path and _DEVICES.fullmatch(path):
            return
        if path.startswith(_SUBSTITUTED):
            return
        node, text = self._node
        self.effects.append(Effect(kind, how[:300], node, text, path, tuple(argv), env, sure, below, mode))

    def run_text(self, text: str, stdin: str | None = None) -> str:
        """Runs shell source and returns what it prints."""
        if is_wild(text):
            # What is known of it still runs; what is not may be anything.
            self.report("unknown", f"runs text that nobody can know: {plain(text)[:80]}")
            text = "".join("$__UNKNOWN__" if is_wild(char) else char for char in text)
        if len(text) > self.limits.characters:
            raise Exhausted(f"longer than {self.limits.characters} characters")
        with self.deeper():
            started = time.monotonic()
            root = parse(text)
            # Each parse has its own clock; many slow ones must not add up either.
            self._parsing += time.monotonic() - started
            if self._parsing > _PARSING:
                raise Exhausted(f"parsing takes more than {_PARSING} s")
            return self.statements.run(root, stdin)

    def captured(self, node: Node) -> str:
        """What `$(...)` prints."""
        with self.deeper(), self.subshell():
            inner = [child for child in node.named_children if child.type != "comment"]
            if len(inner) == 1 and inner[0].type == "file_redirect":
                return self.statements.redirected(inner).stdin or ""
            return "".join(self.statements.run(child, None) for child in inner)

    def substituted(self, node: Node) -> str:
        """The path of `<(...)`, with what it prints as content."""
        with self.deeper(), self.subshell():
            printed = "".join(self.statements.run(child, UNKNOWN) for child in node.named_children)
        path = f"{_SUBSTITUTED}{len(self.state.files)}"
        self.state.keep(path, printed)
        return path

    def dispatch(self, argv: list[str], stdin: str | None, env: tuple[tuple[str, str], ...] = ()) -> str:
        """Runs one command given as words and returns what it prints."""
        self.step()
        self.status = None
        # Reserved words that the grammar took for a command's.
        while argv and argv[0] in ("{", "!", "(", "}"):
            argv = argv[1:]
        if not argv:
            return ""
        path = self.state.resolve(argv[0]) if "/" in argv[0] else ""
        # A link to a program, or a copy of one, is that program.
        name, rest = self._program(path or argv[0]), argv[1:]
        if UNKNOWN in name:
            self.report("unknown", f"the program is not known: {plain(' '.join(argv))[:80]}", argv=(name, *rest))
            return UNKNOWN
        for variable, text in env:
            if _RUN_BY_OTHERS.search(variable) and may_destroy(text):
                self.report("unknown", f"{name} may run {variable}={plain(text)[:80]}")
        for text in carried(name, rest):
            if may_destroy(text):
                # It is handed files, too.
                self.run_text(f"{text} $__UNKNOWN__")
        self.report("run", f"runs {plain(' '.join(argv))[:120]}", argv=(name, *rest), env=env)
        if "/" not in argv[0] and name in self.state.functions and name not in self.expanding:
            return self._function(name, rest, stdin)
        with self.deeper():
            if path in self.state.files:
                return self.handlers["sh"](Call(self, ["sh", path, *rest], stdin, env))
            canonical = _NAMES.sub(r"\1", name)
            handler = self.handlers.get(canonical, self.handlers[""])
            return handler(Call(self, [canonical, *rest], stdin, env))

    def _function(self, name: str, arguments: list[str], stdin: str | None) -> str:
        saved, self.state.arguments = self.state.arguments, arguments
        try:
            return self.run_text(self.state.functions[name], stdin)
        finally:
            self.state.arguments = saved

    def _program(self, word: str) -> str:
        """The program a word names: without its folder, guessed where a glob or a stray variable hides it."""
        name = word.rstrip("/").rpartition("/")[2]
        if not is_wild(name):
            return name
        stripped = name.replace(UNKNOWN, "")
        if UNKNOWN in name:
            # An unset variable inside a name is nothing; one that is the whole name can be anything.
            return stripped if stripped in self.handlers and stripped else name
        if len(name) > _LONGEST:
            return UNKNOWN
        fitting = sorted(known for known in self.handlers if known and fits(name, known))
        return fitting[0] if fitting else UNKNOWN
