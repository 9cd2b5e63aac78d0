"""Programs that run another command: `env`, `sudo`, `xargs`, `sh -c`, `eval`, `trap`, `find -exec` and the like."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence

from apportion.rewards.shell.destroyers import may_destroy
from apportion.rewards.shell.machine import Call, Handler
from apportion.rewards.shell.marks import UNKNOWN, is_wild
from apportion.rewards.shell.opaque import opaque
from apportion.rewards.shell.options import Grammar, Options, read

__all__ = ["HANDLERS"]

# By wrapper: letters and long options that take a value, and how many operands stand before the command.
_SIMPLE: dict[str, tuple[str, tuple[str, ...], int]] = {
    "nice": ("n", ("adjustment",), 0),
    "ionice": ("cnp", ("class", "classdata"), 0),
    "nohup": ("", (), 0),
    "timeout": ("sk", ("signal", "kill-after"), 1),
    "time": ("fo", ("format", "output"), 0),
    "stdbuf": ("ioe", ("input", "output", "error"), 0),
    "setsid": ("", (), 0),
    "chroot": ("", ("userspec", "groups"), 1),
    "unshare": ("", (), 0),
    "builtin": ("", (), 0),
    "exec": ("a", (), 0),
    "busybox": ("", (), 0),
    "toybox": ("", (), 0),
    "strace": ("eopsaEuIPbO", (), 0),
    "ltrace": ("eopsau", (), 0),
    "taskset": ("", (), 1),
    "chrt": ("", (), 1),
    "doas": ("uC", (), 0),
    "faketime": ("", (), 1),
    "fakeroot": ("", (), 0),
    "caffeinate": ("tw", (), 0),
    "unbuffer": ("", (), 0),
    "proxychains": ("f", (), 0),
    "catchsegv": ("", (), 0),
    "coproc": ("", (), 0),
    "prlimit": ("p", (), 0),
    "choom": ("np", (), 0),
    "cpulimit": ("lpe", ("limit", "pid", "exe"), 0),
    "setarch": ("", (), 0),
    "systemd-run": ("pEMHutG", ("unit", "property", "slice", "setenv", "uid", "gid", "description"), 0),
    "chpst": ("uUbendmlLoprstacf", (), 0),
    "xvfb-run": ("nefps", ("server-args", "server-num"), 0),
    "sem": ("j", ("id",), 0),
    **dict.fromkeys(("chronic", "tini", "dumb-init", "firejail"), ("", (), 0)),
    **dict.fromkeys(("gosu", "su-exec"), ("", (), 1)),
}
_LAUNCHERS = {
    "uv": "run",
    "poetry": "run",
    "pipenv": "run",
    "hatch": "run",
    "pdm": "run",
    "rye": "run",
    "bundle": "exec",
}
_SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "ash", "rbash", "fish")
_SHELL_OPTIONS = Grammar(valued="oO", long_valued={"rcfile": "rcfile", "init-file": "rcfile"}, first=True)
_HARMFUL = re.compile(
    r"\b(unlink|remove|remove_all|remove_file|remove_dir\w*|rmdir|RemoveAll|system|exec\w*|popen|rename|truncate|WriteFile|fopen"
    r"|ofstream|Command|ProcessBuilder|Files|removeSync|writeTextFile\w*|rmSync|unlinkSync|writeFile\w*|symlink|open)\b"
)


def _simple(call: Call) -> str:
    valued, longs, skipped = _SIMPLE[call.name]
    grammar = Grammar(valued=valued, long_valued={name: name for name in longs}, first=True)
    operands = read(call.argv[1:], grammar).operands
    command = operands[skipped:]
    return call.run(command[1:] if command[:1] == ["--"] else command, call.stdin)


def _env(call: Call) -> str:
    grammar = Grammar(
        valued="uCS",
        longs={"ignore-environment": "i", "null": "0"},
        long_valued={"unset": "u", "chdir": "C", "split-string": "S"},
        first=True,
    )
    given = read(call.argv[1:], grammar)
    words = [*_split(given.value("S") or ""), *given.operands]
    assigned: list[tuple[str, str]] = []
    while words and re.match(r"\w+=", words[0]):
        name, _, value = words.pop(0).partition("=")
        assigned.append((name, value))
    with call.machine.subshell():
        folder = given.value("C")
        if folder is not None:
            call.machine.state.cwd = call.path(folder)
        return call.run(words, call.stdin, assigned)


def _sudo(call: Call) -> str:
    grammar = Grammar(
        valued="ughpCTrtUDR", long_valued={"user": "u", "group": "g", "prompt": "p", "chdir": "D"}, first=True
    )
    words = read(call.argv[1:], grammar).operands
    assigned: list[tuple[str, str]] = []
    while words and re.match(r"\w+=", words[0]):
        name, _, value = words.pop(0).partition("=")
        assigned.append((name, value))
    return call.run(words, call.stdin, assigned)


def _command(call: Call) -> str:
    given = read(call.argv[1:], Grammar(first=True))
    if given.flags & {"v", "V"}:
        return "".join(f"/usr/bin/{word}\n" for word in given.operands)
    functions, call.machine.state.functions = call.machine.state.functions, {}
    try:
        return call.run(given.operands, call.stdin)
    finally:
        call.machine.state.functions = functions


def _xargs(call: Call) -> str:
    grammar = Grammar(
        valued="InPLdsEa",
        attached="il",
        longs={"null": "0", "no-run-if-empty": "r", "verbose": "t"},
        long_valued={"replace": "I", "max-args": "n", "max-procs": "P", "delimiter": "d", "arg-file": "a"},
        first=True,
    )
    given = read(call.argv[1:], grammar)
    stdin = call.stdin or ""
    listed = given.value("a")
    if listed is not None:
        stdin = call.machine.state.files.get(call.path(listed), UNKNOWN)
    words = stdin.replace("\1", "\n").split()[: call.machine.limits.words]
    command = given.operands or ["echo"]
    mark = given.value("I") or ("{}" if given.flags & {"I", "i"} else None)
    if mark is None:
        if not words and "r" in given.flags:
            return ""
        return call.run([*command, *words])
    return "".join([call.run([part.replace(mark, word) for part in command]) for word in words])


def _shell(call: Call) -> str:
    machine = call.machine
    given = read([word for word in call.argv[1:] if not re.match(r"\+\w", word)], _SHELL_OPTIONS)
    with machine.subshell():
        for word in [
            *given.values.get("rcfile", []),
            *(text for name, text in call.env if name in ("BASH_ENV", "ENV")),
        ]:
            _script(call, word, ())
        if "c" in given.flags:
            words = given.operands
            machine.state.arguments = words[2:]
            machine.state.variables["0"] = words[1] if len(words) > 1 else "bash"
            return machine.run_text(words[0], call.stdin) if words else ""
        script = given.operands[0] if given.operands and "s" not in given.flags else None
        if script is None or script in ("-", "/dev/stdin"):
            machine.state.arguments = given.operands
            if given.flags & {"help", "version"}:
                return UNKNOWN
            return machine.run_text(call.stdin) if call.stdin is not None else ""
        return _script(call, script, given.operands[1:])


def _script(call: Call, word: str, arguments: Sequence[str]) -> str:
    """Runs a script that the rollout wrote; one that was there before is the workspace's own and is not judged."""
    machine = call.machine
    path = call.path(word)
    if UNKNOWN in path:
        call.unknown(f"runs a script whose path is not known: {call.line}")
        return UNKNOWN
    content = machine.state.files.get(path)
    if content is None:
        return UNKNOWN
    first = content.split("\n", 1)[0]
    interpreter = re.search(r"\b(python|perl|ruby|node|php)[\d.]*\b", first) if first.startswith("#!") else None
    if interpreter is not None:
        return machine.handlers[interpreter[1]](Call(machine, [interpreter[1], path, *arguments], call.stdin, call.env))
    machine.state.arguments = list(arguments)
    return machine.run_text(content, call.stdin)


def _source(call: Call) -> str:
    if len(call.argv) < 2:
        return ""
    content = call.machine.state.files.get(call.path(call.argv[1]))
    if content is not None:
        return call.machine.run_text(content, call.stdin)
    if UNKNOWN in call.path(call.argv[1]):
        call.unknown(f"sources a file whose path is not known: {call.line}")
    return ""


def _eval(call: Call) -> str:
    return call.machine.run_text(" ".join(word for word in call.argv[1:] if word != "--"), call.stdin)


def _trap(call: Call) -> str:
    words = [word for word in call.argv[1:] if word not in ("--", "-p", "-l")]
    return call.machine.run_text(words[0]) if len(words) > 1 and words[0] not in ("", "-") else ""


def _text_argument(call: Call) -> str:
    """`watch`, `su -c`, `script -c`, `flock -c`, `parallel`: the command is one text, or the words."""
    grammar = Grammar(valued="cnjds", long_valued={"command": "c", "interval": "n", "jobs": "j"}, first=True)
    given = read(call.argv[1:], grammar)
    if call.name in ("su", "runuser") and "--" in call.argv and "c" not in given.flags:
        return call.run(call.argv[call.argv.index("--") + 1 :])
    if call.name in ("su", "runuser", "script", "flock") and "c" not in given.flags:
        later = read(given.operands[1:], grammar)
        given = later if "c" in later.flags or call.name == "flock" else Options()
    text = given.value("c")
    if call.name == "script":
        for word in given.operands[:1]:
            call.emit("write", word, mode="replace")
    if text is not None:
        return call.machine.run_text(text)
    words = given.operands
    if call.name == "parallel" and words:
        command, _, inputs = " ".join(words).partition(":::")
        given_words = inputs.split() or (call.stdin or "").split()
        return "".join(
            call.machine.run_text(command.replace("{}", word) if "{}" in command else f"{command} {word}")
            for word in given_words[: call.machine.limits.words]
        )
    return call.machine.run_text(" ".join(words)) if words else ""


def _later(call: Call) -> str:
    """`at`, `batch` and `newgrp` run what they read."""
    return call.machine.run_text(call.stdin) if call.stdin else ""


def _group(call: Call) -> str:
    """`sg group command`."""
    words = [word for word in call.argv[2:] if word not in ("-", "-c")]
    return call.machine.run_text(words[0]) if words else ""


def _cmake(call: Call) -> str:
    """`cmake -E rm`, `copy`, `rename` and the like, anywhere."""
    words = call.argv[1:]
    names = {"remove": "rm", "remove_directory": "rm", "copy": "cp", "copy_directory": "cp", "rename": "mv",
             "create_symlink": "ln", **{name: name for name in ("rm", "env", "time", "touch", "echo")}}  # fmt: skip
    if words[:1] != ["-E"] or len(words) < 2 or words[1] not in names:
        return opaque(call)
    folder = ["-rf"] if words[1] == "remove_directory" else ["-a"] if words[1] == "copy_directory" else []
    return call.run([names[words[1]], *folder, *words[2:]], call.stdin)


def _finder(call: Call) -> str:
    """`fd` runs a command on what it finds."""
    for at, word in enumerate(call.argv):
        if word in ("-x", "-X", "--exec", "--exec-batch"):
            call.run([*call.argv[at + 1 :], UNKNOWN])
            break
    return UNKNOWN


def _hash(call: Call) -> str:
    """`hash -p program name` gives a program another name."""
    given = read(call.argv[1:], Grammar(valued="p"))
    for name in given.operands if given.value("p") else []:
        call.machine.state.functions[name] = f'{given.value("p")} "$@"'
    return ""


def _launcher(call: Call) -> str:
    words = call.argv[1:]
    if words[:1] != [_LAUNCHERS[call.name]]:
        return opaque(call)
    grammar = Grammar(
        long_valued={"with": "with", "python": "p", "project": "project", "extra": "e"}, valued="p", first=True
    )
    return call.run(read(words[1:], grammar).operands, call.stdin)


def _remote(call: Call) -> str:
    """Another machine or container: what is done there is out of sight."""
    words = [word for text in call.argv[1:] for word in _split(text)]
    # Containers have commands of these names too; what runs inside one comes after exec or run.
    start = (
        0
        if call.name in ("ssh", "rsh")
        else next((at for at, word in enumerate(words) if word in ("exec", "run")), None)
    )
    if start is not None and may_destroy(" ".join(words[start:])):
        call.unknown(f"{call.name} may delete somewhere else: {call.line}")
    return UNKNOWN


def _npx(call: Call) -> str:
    return call.run(read(call.argv[1:], Grammar(valued="pc", first=True)).operands, call.stdin)


def _make(call: Call) -> str:
    """Recipes of a Makefile that the rollout wrote; any other is the workspace's own."""
    grammar = Grammar(valued="fCjIoW", long_valued={"file": "f", "makefile": "f", "directory": "C", "jobs": "j"})
    given = read(call.argv[1:], grammar)
    with call.machine.subshell():
        if given.value("C") is not None:
            call.machine.state.cwd = call.path(str(given.value("C")))
        usual = (
            ["justfile", "Justfile", ".justfile"] if call.name == "just" else ["GNUmakefile", "makefile", "Makefile"]
        )
        names = given.values.get("f", usual)
        texts = [
            call.stdin if name in ("-", "/dev/stdin") else call.machine.state.files.get(call.path(name))
            for name in names
        ]
        recipes = [
            line for text in texts if text for line in re.findall(r"(?:^[\t ]|;)[ \t]*[@+-]*(.*)", text, re.MULTILINE)
        ]
        if any(text and is_wild(text) for text in texts):
            call.unknown(f"the Makefile is not known: {call.line}")
        opaque(call)
        if "n" not in given.flags:
            for recipe in recipes:
                call.machine.run_text(recipe.replace("$$", "$"))
    return UNKNOWN


def _npm(call: Call) -> str:
    """Scripts of a package.json that the rollout wrote."""
    words = [word for word in call.argv[1:] if not word.startswith("-")]
    if words[:1] in (["dlx"], ["exec"], ["x"]):
        return _npx(Call(call.machine, call.argv[call.argv.index(words[0]) :], call.stdin, call.env))
    content = call.machine.state.files.get(call.path("package.json"))
    if not words or content is None:
        return opaque(call)
    name = words[1] if words[0] in ("run", "run-script") and len(words) > 1 else words[0]
    try:
        scripts = json.loads(content).get("scripts", {})
        text = scripts.get(name) if isinstance(scripts, dict) else None
    except (ValueError, AttributeError, RecursionError):
        call.unknown(f"package.json is not known: {call.line}")
        return UNKNOWN
    return call.machine.run_text(text) if isinstance(text, str) else UNKNOWN


def _compiler(call: Call) -> str:
    """A program made of source that the rollout wrote: unknown when that source can touch files or run commands."""
    files = call.machine.state.files
    given = read(call.argv[1:], Grammar(valued="oILDxl", long_valued={"out-dir": "d"}))
    if given.value("o") is not None:
        call.emit("write", str(given.value("o")), mode="replace")
    sources = [files[call.path(word)] for word in call.argv[1:] if call.path(word) in files]
    if not any(is_wild(text) or _HARMFUL.search(text) for text in sources):
        return UNKNOWN
    if call.name in ("go", "java", "deno", "bun", "ts-node", "tsx", "zig", "swift"):
        call.unknown(f"runs a program whose source can touch files: {call.line}")
    call.machine.state.keep(call.path(given.value("o") or "a.out"), UNKNOWN)
    return UNKNOWN


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


HANDLERS: dict[str, Handler] = {
    "": opaque,
    **dict.fromkeys(_SIMPLE, _simple),
    **dict.fromkeys(_SHELLS, _shell),
    **dict.fromkeys(_LAUNCHERS, _launcher),
    **dict.fromkeys(("watch", "su", "runuser", "script", "flock", "parallel"), _text_argument),
    **dict.fromkeys(("at", "batch", "newgrp"), _later),
    "sg": _group,
    "cmake": _cmake,
    **dict.fromkeys(("ssh", "kubectl", "docker", "podman", "rsh"), _remote),
    **dict.fromkeys(("npx", "pnpx", "bunx", "uvx", "pipx"), _npx),
    **dict.fromkeys(("npm", "yarn", "pnpm"), _npm),
    **dict.fromkeys(("make", "gmake", "just"), _make),
    **dict.fromkeys(
        ("gcc", "cc", "g++", "c++", "clang", "clang++", "tcc", "rustc", "go", "java", "ts-node", "tsx", "zig"),
        _compiler,
    ),
    **dict.fromkeys(("fd", "fdfind"), _finder),
    "hash": _hash,
    "env": _env,
    "sudo": _sudo,
    "command": _command,
    "xargs": _xargs,
    "eval": _eval,
    "source": _source,
    ".": _source,
    "trap": _trap,
}
