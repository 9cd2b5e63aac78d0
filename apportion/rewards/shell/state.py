"""What the shell of a rollout remembers between commands: folder, variables, aliases, functions, links, files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from apportion.errors import InvalidArgument
from apportion.rewards.shell.marks import EMPTY, TILDE, UNKNOWN

__all__ = ["State", "Workspace", "join", "merge"]

# A list is a shell array; UNKNOWN in a text is a part that nobody can know.
Value: TypeAlias = str | list[str]

_LINKS = 8
_KEPT = 2_000
# Text of a variable or a file that is followed; what is longer counts as unknown.
_LONGEST = 50_000


@dataclass(frozen=True, slots=True)
class Workspace:
    """Where a rollout works.

    Attributes:
        root: absolute path of its folder; relative patterns are meant from here.
        home: what `~` and `$HOME` are.
        start: the folder that the first command runs in; default: `root`.
        persistent: whether folder, variables, aliases and functions last from one action to the next. Files and links
            always do.
        ignore_case: whether the file system takes `A` and `a` for one name.

    Raises:
        InvalidArgument: a path that is not absolute.
    """

    root: str = "/workspace"
    home: str = "/root"
    start: str | None = None
    persistent: bool = True
    ignore_case: bool = False

    def __post_init__(self) -> None:
        for argument in ("root", "home", "start"):
            given = getattr(self, argument)
            if given is None and argument == "start":
                continue
            if not isinstance(given, str) or not given.startswith("/"):
                raise InvalidArgument(argument, given, "an absolute path")
            object.__setattr__(self, argument, join("/", given))


@dataclass(slots=True)
class State:
    """See the module.

    Attributes:
        workspace: where the rollout works.
        cwd: absolute path; UNKNOWN in it where nobody can know.
        variables: by name, those assigned in the rollout.
        aliases: by name, their text.
        functions: by name, the source of their body.
        arguments: `$1`, `$2`, ...
        links: from path to target, both absolute.
        files: content of files written in the rollout; UNKNOWN where it cannot be known.
        seen: paths that were read or written; the session replaces them after each action, copies share them.
        git_aliases: by name.
        lost: whether there were more variables, files or links than are followed; nothing is certain from then on.
    """

    workspace: Workspace
    cwd: str = ""
    variables: dict[str, Value] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    functions: dict[str, str] = field(default_factory=dict)
    arguments: list[str] = field(default_factory=list)
    links: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    git_aliases: dict[str, str] = field(default_factory=dict)
    lost: bool = False

    def __post_init__(self) -> None:
        self.cwd = self.cwd or self.workspace.start or self.workspace.root

    def copy(self) -> State:
        """An independent copy."""
        return replace(
            self,
            variables=dict(self.variables),
            aliases=dict(self.aliases),
            functions=dict(self.functions),
            arguments=list(self.arguments),
            links=dict(self.links),
            files=dict(self.files),
            git_aliases=dict(self.git_aliases),
        )

    def between_actions(self) -> None:
        """What a new shell forgets."""
        self.arguments = []
        if not self.workspace.persistent:
            self.cwd = self.workspace.start or self.workspace.root
            self.variables, self.aliases, self.functions = {}, {}, {}

    def assign(self, name: str, value: Value) -> None:
        """Sets a variable; what is too long to follow becomes unknown."""
        if len(self.variables) >= _KEPT and name not in self.variables:
            self.lost = True
            return
        length = len(value) if isinstance(value, str) else sum(map(len, value))
        self.variables[name] = UNKNOWN if length > _LONGEST else value

    def keep(self, path: str, content: str) -> None:
        """Remembers what was written to a file; nothing at all is remembered of a path that is not known."""
        if UNKNOWN in path:
            for other in self.files:
                self.files[other] = UNKNOWN
        elif len(self.files) < _KEPT or path in self.files:
            self.files[path] = UNKNOWN if len(content) > _LONGEST else content
            self.links.pop(path, None)
        else:
            self.lost = True

    def forget(self, path: str) -> None:
        """A file or folder that is gone."""
        for table in (self.files, self.links):
            for gone in [name for name in table if name == path or name.startswith(path + "/")]:
                del table[gone]

    def link(self, path: str, target: str) -> None:
        """A symbolic link."""
        if len(self.links) < _KEPT or path in self.links:
            self.links[path] = target
        else:
            self.lost = True

    def resolve(self, word: str, *, last: bool = True) -> str:
        """The absolute path that a word means.

        Args:
            word: an expanded word.
            last: whether a link in the last place is followed (a write does, a removal does not).
        """
        word = word.replace(EMPTY, "")
        if word == TILDE or word.startswith(TILDE + "/"):
            word = self.workspace.home + word[1:]
        word = word.replace(TILDE, "~")
        path = join(self.cwd, word)
        for _ in range(_LINKS):
            followed = self._follow(path, last)
            if followed == path:
                return path
            path = followed
        return path if not self.links else UNKNOWN

    def _follow(self, path: str, last: bool) -> str:
        if not self.links:
            return path
        parts = path.split("/")
        for end in range(2, len(parts) + (1 if last else 0)):
            target = self.links.get("/".join(parts[:end]))
            if target is not None:
                return join(target, "/".join(parts[end:]))
        return path


def join(folder: str, word: str) -> str:
    """`word` seen from `folder`, without `.`, `..` and doubled slashes.

    Example:
        >>> join("/w/src", "../tests//./t.py")
        '/w/tests/t.py'
    """
    if not word:
        return folder
    # A word that starts with an unknown part may be absolute.
    whole = word if word.startswith(("/", UNKNOWN)) else f"{folder}/{word}"
    parts: list[str] = []
    for part in whole.split("/"):
        if part == "..":
            if parts and UNKNOWN in parts[-1]:
                parts[-1] = UNKNOWN
            elif parts:
                parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    path = "/".join(parts)
    return path if path.startswith(UNKNOWN) else f"/{path}"


def merge(into: State, others: Iterable[State]) -> None:
    """After branches of which one was taken: what they disagree about is unknown; files and links of all are kept."""
    for other in others:
        if other.cwd != into.cwd:
            into.cwd = UNKNOWN
        for name in {*into.variables, *other.variables}:
            if into.variables.get(name) != other.variables.get(name):
                into.variables[name] = UNKNOWN
        into.aliases = other.aliases | into.aliases
        into.functions = other.functions | into.functions
        into.links = other.links | into.links
        for path, content in other.files.items():
            into.files[path] = content if into.files.get(path, content) == content else UNKNOWN
        into.git_aliases = other.git_aliases | into.git_aliases
        into.lost = into.lost or other.lost
