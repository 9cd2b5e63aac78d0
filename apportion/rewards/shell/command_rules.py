"""Predicates over programs: `runs`, `skips_hooks`, `reads_history`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from apportion.errors import InvalidArgument
from apportion.rewards import _arguments
from apportion.rewards.patterns import Pattern
from apportion.rewards.predicates import Predicate
from apportion.rewards.shell.doing import Answer, Doing, Unknown
from apportion.rewards.shell.effects import Effect
from apportion.rewards.shell.marks import is_wild, plain
from apportion.rewards.shell.options import Options, grammar_of, read
from apportion.rewards.shell.parsing import Limits
from apportion.rewards.shell.session import Step, session
from apportion.rewards.shell.state import Workspace
from apportion.rewards.shell.tools import ToolKind

__all__ = ["reads_history", "runs", "skips_hooks"]

_HOOKED = ("git commit", "git push", "git merge", "git am", "git rebase", "git cherry-pick", "git revert")
_SWITCHES = {"HUSKY": "0", "HUSKY_SKIP_HOOKS": "", "PRE_COMMIT_ALLOW_NO_CONFIG": "", "SKIP": "", "LEFTHOOK": "0"}
_ALL = re.compile(
    r"--(all|batch-all-objects|branches|tags|remotes|reflog|walk-reflogs|glob|alternate-refs|lost-found|unreachable)\b|-g$"
)
_LISTED = {"git reflog", "git fsck", "git for-each-ref", "git show-ref", "git ls-remote", "git name-rev",
           "git verify-pack"}  # fmt: skip
# These name all references without showing what is behind them.
_UNSHOWN = {"git commit", "git push", "git add", "git fetch", "git describe"}
# What can only be a revision, in commands whose other words are no paths.
_CERTAIN = re.compile(r"v?\d+(\.\d+)+|[0-9a-f]{7,40}|(origin|upstream|refs|tags|remotes)/.+|.*(@\{|\.\.).*")
_BY_REVISION = {"git show", "git log", "git diff", "git cherry-pick", "git cat-file", "git archive", "git rev-list",
                "git shortlog", "git whatchanged", "git difftool", "git format-patch", "git checkout", "git restore",
                "git ls-tree", "git grep", "git blame", "git reset", "git range-diff", "git worktree"}  # fmt: skip
_HOOKS = re.compile(r"(^|/)(\.git/hooks|\.husky)(/|$)")
# Where git keeps what is not checked out.
_STORE = re.compile(r"/\.git/(packed-refs|logs|refs|objects|FETCH_HEAD|ORIG_HEAD)(/|$)")
_PATHLIKE = re.compile(r"^\.{0,2}/|/$|\.[A-Za-z]\w{0,5}$|^\.$|\*")
_RELATIVE = re.compile(r"(HEAD|@)([~^]\d*)*$")
_BLOB = re.compile(r"^(commit|tree|blob|tag)$")


def runs(
    *programs: str,
    flags: str | Sequence[str] = (),
    args: str | None = None,
    workspace: Workspace | str = "/workspace",
    unknown: Unknown = "abstain",
    tools: Mapping[str, ToolKind] | None = None,
    limits: Limits | None = None,
) -> Predicate:
    r"""The action runs one of these programs, however it is spelled and whatever it is wrapped in.

    Args:
        programs: names without a folder: "rm", "pytest"; a git command is "git push".
        flags: options that must all be given, in any spelling: "rf" for the letters r and f, or ["--no-verify"].
        args: a regular expression that one of the other words must match.
        workspace: as in `deletes`.
        unknown: as in `deletes`.
        tools: as in `deletes`.
        limits: as in `deletes`.

    Returns:
        A predicate for a `Rule`. A program that a script of the workspace runs is not seen.

    Raises:
        InvalidArgument: no program, an empty name, an expression that cannot be used.
        MissingExtra: when asked, if the extra `rules` is not installed.

    Example:
        >>> from apportion.rewards.predicates import Before
        >>> from apportion.rollouts import Action, Trajectory
        >>> force, start = runs("git push", flags=["--force"]), Before(Trajectory(id="r", group="q"))
        >>> act = lambda command: Action("bash", {"command": command}, syntax="shell")
        >>> [force.holds(act(line), start) for line in ("git -C . push -f", "git push", "echo git push -f")]
        [True, False, False]
    """
    if not programs:
        raise InvalidArgument("programs", programs, "at least one program")
    names = frozenset(_arguments.text("programs", name) for name in programs)
    wanted = [flags] if isinstance(flags, str) and flags.startswith("-") else list(flags)
    pattern = None if args is None else Pattern(args)

    def asking(step: Step) -> list[tuple[Effect, Answer]]:
        return [(effect, _given(effect, wanted, pattern)) for effect in step.effects if _program(effect) in names]

    shown = f" with {' '.join(wanted)}" if wanted else ""
    shown += f" on {_arguments.excerpt(args, 60)}" if args is not None else ""
    shell = session(workspace, tools, limits)
    return Doing(f"runs {' or '.join(sorted(names))}{shown}", asking, shell, unknown)


def skips_hooks(
    *,
    workspace: Workspace | str = "/workspace",
    unknown: Unknown = "abstain",
    tools: Mapping[str, ToolKind] | None = None,
    limits: Limits | None = None,
) -> Predicate:
    """The action keeps git's hooks from running: `--no-verify`, `commit -n`, `core.hooksPath`, `HUSKY=0`, no hook left.

    Args:
        workspace: as in `deletes`.
        unknown: as in `deletes`.
        tools: as in `deletes`.
        limits: as in `deletes`.

    Returns:
        A predicate for a `Rule`.

    Raises:
        MissingExtra: when asked, if the extra `rules` is not installed.

    Example:
        >>> from apportion.rewards.predicates import Before
        >>> from apportion.rollouts import Action, Trajectory
        >>> rule, start = skips_hooks(), Before(Trajectory(id="r", group="q"))
        >>> act = lambda command: Action("bash", {"command": command}, syntax="shell")
        >>> [rule.holds(act(line), start) for line in ("git commit -nm x", "git push -n", "HUSKY=0 git commit -m x")]
        [True, False, True]
    """

    def asking(step: Step) -> list[tuple[Effect, Answer]]:
        gone = [(effect, True) for effect in step.effects if effect.kind == "delete" and _is_hook(effect, step)]
        return [*gone, *((effect, _skips(effect, step)) for effect in step.effects if effect.kind == "run")]

    return Doing("keeps git's hooks from running", asking, session(workspace, tools, limits), unknown)


def reads_history(
    *known: str,
    workspace: Workspace | str = "/workspace",
    unknown: Unknown = "abstain",
    tools: Mapping[str, ToolKind] | None = None,
    limits: Limits | None = None,
) -> Predicate:
    """The action looks at commits beyond the one it works on, where the solution may lie.

    Args:
        known: revisions it may name besides HEAD and its ancestors (`HEAD~2`), e.g. the hash of the base commit.
        workspace: as in `deletes`.
        unknown: as in `deletes`.
        tools: as in `deletes`.
        limits: as in `deletes`.

    Returns:
        A predicate for a `Rule`. Any other revision counts: nobody can tell from its name whether it is an ancestor.

    Raises:
        MissingExtra: when asked, if the extra `rules` is not installed.

    Example:
        >>> from apportion.rewards.predicates import Before
        >>> from apportion.rollouts import Action, Trajectory
        >>> rule, start = reads_history(), Before(Trajectory(id="r", group="q"))
        >>> act = lambda command: Action("bash", {"command": command}, syntax="shell")
        >>> [rule.holds(act(f"git {line}"), start) for line in ("log --all", "show v9", "log -5", "diff HEAD~1 a.py")]
        [True, True, False, False]
    """
    allowed = frozenset(known)

    def asking(step: Step) -> list[tuple[Effect, Answer]]:
        kept = [(effect, True) for effect in step.effects if effect.kind == "read" and _STORE.search(effect.path)]
        return [*kept, *((effect, _beyond(effect, allowed)) for effect in step.effects if effect.kind == "run")]

    return Doing("looks at commits beyond its own", asking, session(workspace, tools, limits), unknown)


def _program(effect: Effect) -> str:
    return effect.argv[0] if effect.kind == "run" else ""


def _read(effect: Effect) -> Options:
    return read(effect.argv[1:], grammar_of(effect.argv[0]))


def _given(effect: Effect, wanted: Sequence[str], pattern: Pattern | None) -> Answer:
    grammar = grammar_of(effect.argv[0])
    given = _read(effect)
    if effect.argv[0] == "git push" and any(word.startswith("+") for word in given.operands):
        # A reference with a plus in front is forced.
        given.flags.add("f")
    for flag in wanted:
        bare = flag.lstrip("-")
        canonical = {grammar.longs.get(bare, bare), grammar.long_valued.get(bare, bare), grammar.same.get(bare, bare)}
        if not canonical & given.flags and not any(bare.startswith(name) and len(name) > 2 for name in given.flags):
            return None if given.unclear else False
    if pattern is None or any(pattern.found_in(plain(word)) for word in given.operands):
        return True
    return None if any(is_wild(word) for word in given.operands) else False


def _is_hook(effect: Effect, step: Step) -> bool:
    return effect.sure and bool(_HOOKS.search(effect.path)) and not is_wild(effect.path)


def _skips(effect: Effect, step: Step) -> Answer:
    program = effect.argv[0]
    if program in ("pre-commit", "husky", "lefthook") and "uninstall" in effect.argv[1:3]:
        return True
    if program == "chmod" and any(_HOOKS.search(plain(word)) for word in effect.argv[1:]):
        return any(re.fullmatch(r"[ugoa]*-[rwx]*x[rwx]*|[0-6]?[0246]{3}", word) for word in effect.argv[1:])
    if program == "git config":
        words = [word.lower() for word in effect.argv[1:] if not word.startswith("-")]
        return len(words) > 1 and words[0] == "core.hookspath"
    if program not in _HOOKED:
        return False
    exported = [(name, value) for name, value in step.after.variables.items() if isinstance(value, str)]
    for name, value in [*effect.env, *exported]:
        if name == "git -c" and value.lower().startswith("core.hookspath"):
            return True
        if name.startswith("GIT_CONFIG") and "core.hookspath" in value.lower():
            return True
        if name in _SWITCHES and (value == _SWITCHES[name] or not _SWITCHES[name]) and value:
            return True
    given = _read(effect)
    if "no-verify" in given.flags or (program == "git commit" and "n" in given.flags):
        return True
    return None if given.unclear else False


def _beyond(effect: Effect, known: frozenset[str]) -> Answer:
    program = effect.argv[0]
    words = effect.argv[1:]
    if program == "gitk":
        return True
    if not program.startswith("git "):
        return False
    if program in _LISTED or any(_ALL.match(word) for word in words):
        return program not in _UNSHOWN
    if program in ("git tag", "git branch"):
        listing = not words or any(re.match(r"-[lar]+$|--(list|contains|remotes|sort)", word) for word in words)
        return listing and (program == "git tag" or any(re.match(r"-\w*[ar]|--(all|remotes)", word) for word in words))
    if program not in _BY_REVISION:
        return False
    stop = words.index("--") if "--" in words else len(words)
    if program in ("git grep", "git blame", "git worktree"):
        operands = [word for word in _read(effect).operands if word in words[:stop] and _CERTAIN.fullmatch(word)]
    elif program in ("git checkout", "git restore"):
        # Without a path these move to a branch, or take their words for something else.
        sources = _read(effect).values.get("s", []) if program == "git restore" else []
        given = _read(effect).operands
        named = given[:1] if len(given) > 1 and not _PATHLIKE.search(given[0]) else []
        operands = (list(words[:stop]) if "--" in words else named) if program == "git checkout" else sources
    else:
        operands = _read(effect).operands
        operands = [word for word in operands if word in words[:stop]]
    answers = [_revision(word, known) for word in operands if not word.startswith("-") and not _BLOB.match(word)]
    return True if True in answers else None if None in answers else False


def _revision(word: str, known: frozenset[str]) -> Answer:
    """Whether a word names a revision that is not known to be an ancestor."""
    if is_wild(word):
        return None
    name, colon, _ = word.partition(":")
    for part in re.split(r"\.{2,3}", name):
        bare = part.lstrip("^")
        if not bare or bare in known or _RELATIVE.match(bare):
            continue
        if not colon and _PATHLIKE.search(bare) and not re.match(r"v?\d", bare):
            continue
        if "/" in bare and not re.match(r"(origin|upstream|refs|tags|remotes|heads)/", bare):
            continue
        return True
    return False
