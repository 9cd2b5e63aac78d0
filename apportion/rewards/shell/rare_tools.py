"""Formatters, renamers and other programs, met less often, that change the files they are given."""

from __future__ import annotations

from apportion.rewards.shell.machine import Call, Handler
from apportion.rewards.shell.marks import UNKNOWN, globbing
from apportion.rewards.shell.options import Grammar, grammar_of, read

__all__ = ["HANDLERS"]

_FORMATTERS = ("black", "isort", "ruff", "yapf", "autopep8", "prettier", "eslint", "gofmt", "clang-format", "rustfmt",
               "yq", "dos2unix", "unix2dos", "crudini", "xmlstarlet", "pyupgrade", "2to3", "autoflake", "shfmt",
               "docformatter", "codespell", "stylua", "goimports", "sqlfluff", "jscodeshift", "comby")  # fmt: skip
# Letters with a value, long options with one, and how many operands stand before the files.
_EDITORS: dict[str, tuple[str, tuple[str, ...], int]] = {
    "sd": ("n", ("max-replacements",), 2),
    "rpl": ("", ("encoding",), 2),
    "rename": ("", (), 1),
    "prename": ("", (), 1),
    "perl-rename": ("", (), 1),
    "mmv": ("", (), 0),
    "chattr": ("", (), 1),
    "setfacl": ("mxMX", ("modify", "remove"), 0),
    "fallocate": ("lo", ("length", "offset"), 0),
    "strip": ("oRK", (), 0),
    "exiftool": ("", (), 0),
    "setfattr": ("nvx", (), 0),
}


def _format(call: Call) -> str:
    """Formatters that edit the files they are given; what is in a folder they are given is not listed here."""
    given = read(call.argv[1:], grammar_of(call.name))
    always = call.name in ("black", "isort", "dos2unix", "unix2dos", "crudini")
    asked = {"i", "w", "fix", "write", "in-place", "inplace", "L", "format"} & {*given.flags, *given.operands[:1]}
    if (always or asked) and not given.flags & {"check", "diff", "check-only"}:
        for word in given.operands:
            call.emit("write", word, how=f"{call.name} edits")
    return UNKNOWN


def _edits(call: Call) -> str:
    """Programs that change every file they name."""
    valued, longs, skipped = _EDITORS[call.name]
    given = read(call.argv[1:], Grammar(valued=valued, long_valued={name: name for name in longs}))
    if given.flags & {"preview", "p", "n", "dry-run", "no-act", "s", "dryrun"} and call.name != "chattr":
        return UNKNOWN
    for word in given.operands[skipped:]:
        call.emit("write", globbing(word), how=f"{call.name} changes")
    return UNKNOWN


def _mount(call: Call) -> str:
    """What is mounted on a folder takes its place."""
    given = read(call.argv[1:], Grammar(valued="toLU", long_valued={"types": "t", "options": "o"}))
    if len(given.operands) > 1:
        call.emit("write", given.operands[-1], below=True, mode="replace", how="mount covers")
    return UNKNOWN


def _scp(call: Call) -> str:
    """Copies to the last path, unless that is on another machine."""
    given = read(call.argv[1:], Grammar(valued="cDFiJlOoPSX"))
    if len(given.operands) > 1 and ":" not in given.operands[-1].partition("/")[0]:
        target = given.operands[-1]
        call.emit("write", target, mode="replace", how="scp writes")
        for word in given.operands[:-1]:
            call.emit("write", f"{target.rstrip('/')}/{word.rpartition('/')[2]}", sure=False, how="scp may write")
    return UNKNOWN


def _fetch(call: Call) -> str:
    """`aria2c`, `http --download` and the like."""
    given = read(call.argv[1:], Grammar(valued="od", long_valued={"out": "o", "output": "o", "dir": "d"}))
    name = given.value("o") or (given.operands[-1].rpartition("/")[2] if given.operands else "")
    if name and (call.name not in ("http", "https") or given.flags & {"o", "download"}):
        path = call.emit("write", f"{given.value('d') or '.'}/{name}", mode="replace")
        call.machine.state.keep(path, UNKNOWN)
    return UNKNOWN


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(_FORMATTERS, _format),
    **dict.fromkeys(_EDITORS, _edits),
    "mount": _mount,
    "scp": _scp,
    **dict.fromkeys(("aria2c", "axel", "http", "https"), _fetch),
}
