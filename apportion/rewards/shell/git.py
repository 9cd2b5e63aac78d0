"""What git does to the working tree: files it writes, deletes and restores, changes it throws away."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from apportion.rewards.shell.destroyers import may_destroy
from apportion.rewards.shell.files import taken_back, write_patched
from apportion.rewards.shell.machine import Call, Handler
from apportion.rewards.shell.marks import DEEP, STAR, UNKNOWN
from apportion.rewards.shell.options import Grammar, Options, grammar_of, read
from apportion.rewards.shell.patches import patched

__all__ = ["HANDLERS"]

_GLOBALS = Grammar(
    valued="Cc",
    longs={"no-pager": "no-pager", "paginate": "p", "bare": "bare", "literal-pathspecs": "literal-pathspecs"},
    long_valued={
        "git-dir": "git-dir",
        "work-tree": "work-tree",
        "namespace": "namespace",
        "exec-path": "exec-path",
        "config-env": "config-env",
    },
    first=True,
)
_PATHLIKE = re.compile(r"^(\.{1,2}(/.*)?|.*/|:/.*|[^:]*\.[A-Za-z]\w{0,5}|\*.*|.*/[^/]+\.\w+)$")
_REVISION = re.compile(r"(HEAD|FETCH_HEAD|ORIG_HEAD|@)([~^@].*)?$|^[0-9a-f]{7,40}$|^(origin|upstream)/")


def _git(call: Call) -> str:
    given = read(call.argv[1:], _GLOBALS)
    settings = given.values.get("c", [])
    if not given.operands:
        return UNKNOWN
    name, rest = given.operands[0], given.operands[1:]
    machine = call.machine
    with machine.subshell():
        folder = given.value("C") or given.value("work-tree") or dict(call.env).get("GIT_WORK_TREE")
        if folder is not None:
            machine.state.cwd = call.path(folder)
        aliases = machine.state.git_aliases | {
            key.removeprefix("alias."): value for key, _, value in (text.partition("=") for text in settings)
        }
        if UNKNOWN in name:
            call.unknown(f"the git command is not known: {call.line}")
            return UNKNOWN
        if name in aliases and name not in _COMMANDS:
            text = aliases[name]
            if text.startswith("!"):
                return machine.run_text(text[1:] + " " + " ".join(rest), call.stdin)
            return call.run(["git", *text.split(), *rest], call.stdin)
        env = (*call.env, *(("git -c", setting) for setting in settings))
        machine.report("run", f"runs git {name}", argv=(f"git {name}", *rest), env=env)
        for setting in settings:
            if may_destroy(setting):
                call.unknown(f"git may run: {setting}")
        parsed = read(rest, grammar_of(f"git {name}"))
        for target in parsed.values.get("output", []):
            call.emit("write", target, mode="replace", how=f"git {name} --output writes")
        _hooks(call, name)
        command = _COMMANDS.get(name)
        if command is None:
            return UNKNOWN
        return command(Call(machine, ["git", name, *rest], call.stdin, env), parsed) or UNKNOWN


def _hooks(call: Call, name: str) -> None:
    """Hooks that the rollout wrote run with the commands they are for."""
    folder = f"{call.machine.state.workspace.root}/.git/hooks/"
    for path, content in list(call.machine.state.files.items()) if name in _HOOKED else ():
        if path.startswith(folder) and not path.endswith(".sample"):
            call.machine.run_text(content)


_HOOKED = ("commit", "push", "merge", "checkout", "switch", "rebase", "am", "pull", "cherry-pick", "revert")


def _after_dashes(call: Call, given: Options) -> list[str]:
    return call.argv[call.argv.index("--") + 1 :] if "--" in call.argv else []


def _take_back(call: Call, words: Sequence[str], how: str) -> None:
    """Paths whose content comes from the index or a commit."""
    for word in words:
        where = word.removeprefix(":/").removeprefix(":(top)") if word.startswith(":") else word
        below = "." not in where.rpartition("/")[2] or where in (".", "..", "./") or where.endswith("/")
        path = call.emit("write", where or ".", below=below, mode="replace", how=how)
        call.emit("discard", where or ".", below=below, how=f"{how} and discards changes of")
        call.emit("restore", where or ".", below=below, how=f"{how} and restores")
        call.machine.state.forget(path)


def _everything(call: Call, how: str) -> None:
    root = call.machine.state.workspace.root
    call.emit("discard", root, below=True, how=how)
    call.emit("write", f"{root}/{DEEP}", sure=False, how=how)
    call.emit("restore", root, below=True, sure=False, how=how)


def _checkout(call: Call, given: Options) -> str | None:
    paths = _after_dashes(call, given)
    operands = [word for word in given.operands if word not in paths]
    if "pathspec-from-file" in given.flags:
        call.unknown(f"git checkout of paths listed in a file: {call.line}")
    if given.flags & {"b", "B"}:
        if "f" in given.flags:
            _everything(call, "git checkout --force discards changes below")
        return None
    if not paths and operands:
        first_is_path = bool(_PATHLIKE.match(operands[0])) and not _REVISION.search(operands[0])
        paths = operands if first_is_path and len(operands) == 1 else operands[1:]
        if first_is_path and len(operands) > 1 and not _REVISION.search(operands[0]):
            paths = operands
    if paths:
        _take_back(call, paths, "git checkout writes")
    elif "f" in given.flags:
        _everything(call, "git checkout --force discards changes below")
    elif operands and not given.unclear:
        # A folder, if there is no branch of that name.
        call.emit("write", operands[0], sure=False, below=True, how="git checkout may write")
    elif given.unclear:
        call.unknown(f"git checkout of something that is not known: {call.line}")
    return None


def _restore(call: Call, given: Options) -> str | None:
    if "pathspec-from-file" in given.flags:
        call.unknown(f"git restore of paths listed in a file: {call.line}")
    if "S" not in given.flags or "W" in given.flags:
        _take_back(call, given.operands, "git restore writes")
    return None


def _switch(call: Call, given: Options) -> str | None:
    if "f" in given.flags:
        _everything(call, "git switch --discard-changes discards changes below")
    return None


def _reset(call: Call, given: Options) -> str | None:
    if "hard" in given.flags:
        _everything(call, "git reset --hard discards changes below")
    elif given.unclear:
        call.unknown(f"git reset with options that are not known: {call.line}")
    return None


def _clean(call: Call, given: Options) -> str | None:
    forced = "f" in given.flags or any("requireforce" in key.lower() for _, key in call.env)
    if "n" in given.flags or (not forced and not given.unclear):
        return None
    for word in given.operands or ["."]:
        path = word.rstrip("/")
        # Some files below, unlike all of them.
        call.emit("delete", f"{path}/{DEEP}{STAR}", how="git clean deletes untracked files below")
        call.emit("discard", word, below=True, how="git clean discards untracked files below")
    return None


def _stash(call: Call, given: Options) -> str | None:
    action = given.operands[0] if given.operands and given.operands[0] in _STASH else "push"
    root = call.machine.state.workspace.root
    paths = _after_dashes(call, given)
    if action in ("drop", "clear"):
        call.emit("discard", root, below=True, how=f"git stash {action} discards what was put aside from")
    elif action in ("push", "save") and paths:
        for word in paths:
            call.emit("write", word, how="git stash takes away changes of")
    elif action not in ("list", "show", "create", "store", "branch"):
        call.emit("write", f"{root}/{DEEP}", sure=False, how=f"git stash {action} may change")
        if action in ("pop", "apply"):
            call.emit("restore", root, below=True, sure=False, how=f"git stash {action} may restore")
    return None


_STASH = ("push", "save", "pop", "apply", "drop", "clear", "list", "show", "create", "store", "branch")


def _rm(call: Call, given: Options) -> str | None:
    if not given.flags & {"cached", "n"}:
        for word in given.operands:
            below = "r" in given.flags
            path = call.emit("delete", word, below=below, last=False, how="git rm deletes")
            if "f" in given.flags:
                call.emit("discard", word, below=below, how="git rm --force discards changes of")
            call.machine.state.forget(path)
    return None


def _mv(call: Call, given: Options) -> str | None:
    if "n" not in given.flags:
        call.run(["mv", *call.argv[2:]])
    return None


def _apply(call: Call, given: Options) -> str | None:
    if given.flags & {"check", "stat", "cached"}:
        return None
    files = call.machine.state.files
    for text in [files.get(call.path(word), UNKNOWN) for word in given.operands] or [call.stdin or UNKNOWN]:
        write_patched(call, patched(text, given.value("p") or "1"))
        if "R" in given.flags:
            taken_back(call)
    return None


def _commits(call: Call, given: Options) -> str | None:
    """`cherry-pick`, `revert`, `am`: what they touch stands in the commits."""
    if not given.flags & {"abort", "quit", "skip"}:
        write_patched(call, None)
    return None


def _show(call: Call, given: Options) -> str | None:
    for word in given.operands:
        _, colon, path = word.partition(":")
        if colon and path:
            call.emit("read", path, how="git reads a committed version of")
    return None


def _rev_parse(call: Call, given: Options) -> str | None:
    return call.machine.state.workspace.root + "\n" if "show-toplevel" in given.flags else None


def _config(call: Call, given: Options) -> str | None:
    words = [word for word in given.operands if word != "set"]
    where = given.value("f")
    if where is not None and (len(words) > 1 or given.flags & {"unset", "add"}):
        call.emit("write", where, how="git config edits")
    if len(words) > 1 and words[0].startswith("alias."):
        call.machine.state.git_aliases[words[0].removeprefix("alias.")] = words[1]
    elif len(words) > 1 and not words[0].startswith(("user.", "commit.")) and may_destroy(words[1]):
        call.unknown(f"git may run {words[0]}: {words[1][:80]}")
    return None


def _runs(call: Call, given: Options) -> str | None:
    """Commands inside `bisect run`, `submodule foreach`, `rebase --exec` and `filter-branch`."""
    operands = given.operands
    if operands[:1] == ["run"]:
        call.run(operands[1:])
    elif operands[:1] == ["foreach"]:
        call.machine.run_text(" ".join(word for word in operands[1:] if not word.startswith("--")))
    for text in given.values.get("x", []):
        call.machine.run_text(text)
    for at, word in enumerate(call.argv[:-1]):
        if re.fullmatch(r"--(tree|index|msg|env|commit)-filter", word):
            call.machine.run_text(call.argv[at + 1])
    return None


def _worktree(call: Call, given: Options) -> str | None:
    if given.operands[:1] == ["remove"]:
        for word in given.operands[1:]:
            call.emit("delete", word, below=True, how="git worktree remove deletes")
            if "f" in given.flags or "force" in given.flags:
                call.emit("discard", word, below=True, how="git worktree remove --force discards changes of")
    return None


def _checkout_index(call: Call, given: Options) -> str | None:
    if "f" in given.flags or "force" in given.flags:
        _take_back(call, given.operands or ["."], "git checkout-index writes")
    return None


def _read_tree(call: Call, given: Options) -> str | None:
    if "reset" in given.flags and "u" in given.flags:
        _everything(call, "git read-tree --reset -u discards changes below")
    elif "u" in given.flags:
        write_patched(call, None)
    return None


_COMMANDS: dict[str, Callable[[Call, Options], str | None]] = {
    "checkout": _checkout,
    "restore": _restore,
    "switch": _switch,
    "reset": _reset,
    "clean": _clean,
    "stash": _stash,
    "rm": _rm,
    "mv": _mv,
    "apply": _apply,
    **dict.fromkeys(("cherry-pick", "revert", "am"), _commits),
    **dict.fromkeys(("show", "cat-file"), _show),
    "config": _config,
    "rev-parse": _rev_parse,
    **dict.fromkeys(("bisect", "submodule", "rebase", "filter-branch"), _runs),
    "worktree": _worktree,
    "checkout-index": _checkout_index,
    "read-tree": _read_tree,
    **dict.fromkeys(
        ("commit", "push", "log", "diff", "status", "add", "branch", "fetch", "pull", "merge"), lambda *_: None
    ),
}
HANDLERS: dict[str, Handler] = {"git": _git, "hub": lambda call: call.run(["git", *call.argv[1:]], call.stdin)}
