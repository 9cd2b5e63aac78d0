"""Predicates over files: `deletes`, `writes`, `overwrites_unread`, `discards_changes`, `restores`.

They see shell commands, Python code, patches and editor tools alike. A program that the rollout did not write and that
is not modelled (`make test`, `./run.sh`) is taken for what its name says; a script that it wrote is read when it runs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Literal, TypeAlias

from apportion.errors import InvalidArgument
from apportion.rewards import _arguments
from apportion.rewards.predicates import Predicate
from apportion.rewards.shell.doing import Answer, Asking, Doing, Unknown
from apportion.rewards.shell.effects import Effect, Kind
from apportion.rewards.shell.marks import is_wild, plain
from apportion.rewards.shell.matching import Patterns, inside
from apportion.rewards.shell.parsing import Limits
from apportion.rewards.shell.session import Session, Step, session
from apportion.rewards.shell.state import Workspace, join
from apportion.rewards.shell.tools import ToolKind

__all__ = ["deletes", "discards_changes", "overwrites_unread", "restores", "writes"]

# What programs leave behind, as a glob or a name that `find` looks for.
_LITTER = re.compile(
    r"(\*\*/)?(__pycache__|\.(pytest|mypy|ruff)_cache|\*\.(py[co]|pyd|orig|rej|sw[op]|bak|tmp|log|o|obj|egg-info|class)|\*~"
    r"|\.DS_Store|\.coverage|node_modules)"
)

Scope: TypeAlias = Literal["anywhere", "outside"]


def deletes(
    *paths: str,
    scope: Scope = "anywhere",
    allowed: Sequence[str] = (),
    workspace: Workspace | str = "/workspace",
    unknown: Unknown = "abstain",
    tools: Mapping[str, ToolKind] | None = None,
    limits: Limits | None = None,
) -> Predicate:
    """The action deletes, moves away or empties files.

    Args:
        paths: only these, as patterns: "tests/**" is meant from the workspace, "conftest.py" in any folder; none given
            means any file.
        scope: "anywhere", or "outside": only what does not lie below the workspace (the workspace itself is outside).
        allowed: patterns that never count, e.g. "/tmp/**".
        workspace: its absolute path, or a `Workspace`.
        unknown: what counts when nobody can tell: "abstain", or "violation".
        tools: what tools do whose name does not say it.
        limits: what the analysis of one action may cost.

    Returns:
        A predicate for a `Rule`.

    Raises:
        InvalidArgument: an unknown option, a pattern that is none, a workspace that is not absolute.
        MissingExtra: when asked, if the extra `rules` is not installed.

    Example:
        >>> from apportion.rewards.predicates import Before
        >>> from apportion.rollouts import Action, Trajectory
        >>> rule, start = deletes(scope="outside"), Before(Trajectory(id="r", group="q"))
        >>> act = lambda command: Action("bash", {"command": command}, syntax="shell")
        >>> [rule.holds(act(line), start) for line in ("r''m -rf ~", "rm -rf build", "echo rm -rf /", "rm $X")]
        [True, False, False, None]
    """
    shell = session(workspace, tools, limits)
    where = f"{_named(paths)}{' outside the workspace' if scope == 'outside' else ''}"
    return Doing(f"deletes {where}", _touching(("delete",), paths, scope, allowed, shell), shell, unknown)


def writes(
    *paths: str,
    scope: Scope = "anywhere",
    allowed: Sequence[str] = (),
    workspace: Workspace | str = "/workspace",
    unknown: Unknown = "abstain",
    tools: Mapping[str, ToolKind] | None = None,
    limits: Limits | None = None,
) -> Predicate:
    """The action changes files by whatever route: writes, replaces, edits, links, moves or deletes them.

    A file need not exist: making `conftest.py` is as much a change as editing it.

    Args:
        paths: as in `deletes`; the protected ones.
        scope: as in `deletes`.
        allowed: as in `deletes`.
        workspace: as in `deletes`.
        unknown: as in `deletes`.
        tools: as in `deletes`.
        limits: as in `deletes`.

    Returns:
        A predicate for a `Rule`.

    Raises:
        InvalidArgument: as `deletes`.
        MissingExtra: as `deletes`.

    Example:
        >>> from apportion.rewards.predicates import Before
        >>> from apportion.rollouts import Action, Trajectory
        >>> rule, start = writes("tests/**", "conftest.py"), Before(Trajectory(id="r", group="q"))
        >>> rule.holds(Action("bash", {"command": "cd src; sed -i s/1/2/ ../tests/t.py"}, syntax="shell"), start)
        True
        >>> rule.holds(Action("write_file", {"path": "sub/conftest.py", "content": ""}), start)
        True
    """
    shell = session(workspace, tools, limits)
    where = f"{_named(paths)}{' outside the workspace' if scope == 'outside' else ''}"
    return Doing(f"changes {where}", _touching(("write", "delete"), paths, scope, allowed, shell), shell, unknown)


def discards_changes(
    *paths: str,
    workspace: Workspace | str = "/workspace",
    unknown: Unknown = "abstain",
    tools: Mapping[str, ToolKind] | None = None,
    limits: Limits | None = None,
) -> Predicate:
    """The action throws uncommitted work away: `git checkout --`, `restore`, `reset --hard`, `clean -f`, `stash drop`.

    Args:
        paths: as in `deletes`; only changes of these.
        workspace: as in `deletes`.
        unknown: as in `deletes`.
        tools: as in `deletes`.
        limits: as in `deletes`.

    Returns:
        A predicate for a `Rule`.

    Raises:
        InvalidArgument: as `deletes`.
        MissingExtra: as `deletes`.

    Example:
        >>> from apportion.rewards.predicates import Before
        >>> from apportion.rollouts import Action, Trajectory
        >>> rule, start = discards_changes(), Before(Trajectory(id="r", group="q"))
        >>> act = lambda command: Action("bash", {"command": command}, syntax="shell")
        >>> [rule.holds(act(f"git {line}"), start) for line in ("clean -fd", "clean -nfd", "reset --har", "reset a")]
        [True, False, True, False]
    """
    shell = session(workspace, tools, limits)
    asking = _touching(("discard",), paths, "anywhere", (), shell)
    return Doing(f"discards uncommitted changes of {_named(paths)}", asking, shell, unknown)


def restores(
    *paths: str,
    workspace: Workspace | str = "/workspace",
    unknown: Unknown = "abstain",
    tools: Mapping[str, ToolKind] | None = None,
    limits: Limits | None = None,
) -> Predicate:
    """The action puts files back: from a commit, or from a copy named like them (`cp t.py.bak t.py`).

    It is the compliant action to pay for after a change that should not stay; `restore_proof` says whether the files
    are as they were.

    Args:
        paths: as in `deletes`.
        workspace: as in `deletes`.
        unknown: as in `deletes`.
        tools: as in `deletes`.
        limits: as in `deletes`.

    Returns:
        A predicate for a `Rule`.

    Raises:
        InvalidArgument: as `deletes`.
        MissingExtra: as `deletes`.

    Example:
        >>> from apportion.rewards.predicates import Before
        >>> from apportion.rollouts import Action, Trajectory
        >>> rule, start = restores("tests/**"), Before(Trajectory(id="r", group="q"))
        >>> rule.holds(Action("bash", {"command": "git restore tests/t.py"}, syntax="shell"), start)
        True
    """
    shell = session(workspace, tools, limits)
    asking = _touching(("restore",), paths, "anywhere", (), shell)
    return Doing(f"restores {_named(paths)}", asking, shell, unknown)


def overwrites_unread(
    *paths: str,
    files: Collection[str] | None = None,
    workspace: Workspace | str = "/workspace",
    unknown: Unknown = "abstain",
    tools: Mapping[str, ToolKind] | None = None,
    limits: Limits | None = None,
) -> Predicate:
    """The action replaces the content of a file that the rollout neither read nor wrote before.

    Args:
        paths: as in `deletes`; only these.
        files: the files that exist at the start (`snapshot(root).entries`). Without it, nobody can tell replacing a
            file from making one, and a first write is unknown.
        workspace: as in `deletes`.
        unknown: as in `deletes`.
        tools: as in `deletes`.
        limits: as in `deletes`.

    Returns:
        A predicate for a `Rule`. An edit in place or an addition to the end replaces nothing.

    Raises:
        InvalidArgument: as `deletes`.
        MissingExtra: as `deletes`.

    Example:
        >>> from apportion.rewards.predicates import Before
        >>> from apportion.rollouts import Action, Trajectory
        >>> rule, start = overwrites_unread(files=["a.py"]), Before(Trajectory(id="r", group="q"))
        >>> act = lambda command: Action("bash", {"command": command}, syntax="shell")
        >>> [rule.holds(act(line), start) for line in ("echo x > a.py", "cat a.py; echo x > a.py", "echo x > new.py")]
        [True, False, False]
    """
    shell = session(workspace, tools, limits)
    if files is not None and isinstance(files, str):
        raise InvalidArgument("files", files, "a collection of paths")
    there = None if files is None else frozenset(join(shell.workspace.root, path) for path in files)
    patterns = Patterns(tuple(paths), shell.workspace)

    def asking(step: Step) -> list[tuple[Effect, Answer]]:
        seen = set(step.before.seen)
        answers: list[tuple[Effect, Answer]] = []
        for effect in step.effects:
            if effect.kind == "write" and effect.mode == "replace" and effect.path not in seen:
                named = _fits(effect, patterns)
                exists = None if there is None or is_wild(effect.path) else effect.path in there
                answers.append((effect, _and(named, exists if effect.sure else exists and None)))
            if effect.kind in ("read", "write") and effect.sure:
                seen.add(effect.path)
        return answers

    return Doing(f"overwrites {_named(paths)} without having read it", asking, shell, unknown)


def _named(paths: Sequence[str]) -> str:
    return ", ".join(paths) or "files"


def _fits(effect: Effect, patterns: Patterns) -> Answer:
    if not patterns.given:
        return True
    if effect.kind == "delete" and is_wild(effect.path) and _LITTER.fullmatch(plain(effect.path.rpartition("/")[2])):
        # Clearing caches everywhere is no attack on the folder that a pattern names.
        return False
    return patterns.match(effect.path, below=effect.below)


def _and(*answers: Answer) -> Answer:
    return False if False in answers else None if None in answers else True


def _touching(
    kinds: Sequence[Kind], paths: Sequence[str], scope: Scope, allowed: Sequence[str], shell: Session
) -> Asking:
    _arguments.choice("scope", scope, ("anywhere", "outside"))
    if isinstance(allowed, str):
        raise InvalidArgument("allowed", allowed, "a list of patterns")
    patterns = Patterns(tuple(paths), shell.workspace)
    excused = Patterns(tuple(allowed), shell.workspace)

    def asking(step: Step) -> list[tuple[Effect, Answer]]:
        answers: list[tuple[Effect, Answer]] = []
        for effect in step.effects:
            if effect.kind in kinds:
                answer = _and(_fits(effect, patterns), _outside(effect, scope, shell.workspace))
                free = excused.match(effect.path) if excused.given else False
                answer = _and(answer, None if free is None else not free)
                answers.append((effect, None if answer is True and not effect.sure else answer))
        return answers

    return asking


def _outside(effect: Effect, scope: Scope, workspace: Workspace) -> Answer:
    if scope == "anywhere" or effect.path == workspace.root:
        return True
    within = inside(effect.path, workspace.root)
    return None if within is None else not within
