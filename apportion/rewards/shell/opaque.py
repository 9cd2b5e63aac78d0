"""Programs that are not modelled: taken for what they say they are, unless they are handed something that destroys."""

from __future__ import annotations

import itertools
import re

from apportion.rewards.shell.destroyers import DESTROYERS, may_destroy
from apportion.rewards.shell.machine import Call
from apportion.rewards.shell.marks import UNKNOWN, plain

__all__ = ["opaque"]

# Programs that read commands of their own, one of which runs a shell's.
_READERS = {"m4", "gdb", "lldb", "expect", "tclsh", "lftp", "tmux", "screen", "sftp", "ftp"}
# Programs whose arguments name programs without running them.
_TALKERS = {"man", "info", "apropos", "whatis", "which", "type", "whereis", "hash", "help", "apt", "apt-get",
            "brew", "pip", "npm", "dpkg", "yum", "dnf", "apk", "pgrep", "pkill", "killall", "tldr", "git",
            "docker", "kubectl", "cargo", "go", "aws", "gh", "conda", "snap", "pacman", "logger", "wall",
            "notify-send", "say", "figlet", "cowsay", "test", "[", "expr", "complete", "compgen", "history",
            "fc", "bind", "set", "shopt", "wc", "cut", "paste", "diff", "cmp", "comm", "join", "file", "stat",
            "du", "df", "tree", "od", "hexdump", "strings", "jq", "ps", "top", "id", "date", "locate",
            "pytest", "tox", "nox", "ruff", "mypy", "yarn", "pnpm", "gsutil", "gcloud", "heroku", "helm",
            "terraform", "poetry", "uv", "hatch", "md5sum", "sha256sum", "crontab"}  # fmt: skip
# An option whose value is code; what deletes files in languages that are not modelled, and what may.
_CODE = re.compile(r"--?(e|c|E|r|run|exec|execute|eval|evaluate|[cC]ommand|ex|code)")
_CODE_DELETES = re.compile(
    r"\b(rm_rf!?|rm_r|rmtree|unlink|Remove-Item|del_dir\w*|delete-(file|directory)|deltree|File\.rm|deleteDir|file:delete"
    r"|file delete|removeFile|removeDirectory\w*|removeItem|(Files?|Path)\b[^;\n]{0,80}\.delete)\b"
)
_CODE_MAY_DELETE = re.compile(r"\b(delete|remove|system|writefile)\w*\s*\(")

# How a program that nobody knows is mostly told to edit a file, and what looks like one.
_IN_PLACE = {"-i", "-w", "--in-place", "--inplace", "--write", "--fix", "--overwrite", "--replace"}
_FILE = re.compile(r"[^-][^:=\s]*\.[A-Za-z]\w{0,5}")


def opaque(call: Call) -> str:
    """A program that is not modelled: taken for what it says it is, unless it is handed a command that destroys."""
    if call.name not in _TALKERS:
        for at, word in enumerate(call.argv[1:-1], start=1):
            if word.rpartition("/")[2] in DESTROYERS and not _is_value(call.argv, at):
                call.unknown(f"{plain(call.name)} may run: {plain(' '.join(call.argv[at:]))[:100]}")
                return UNKNOWN
        for text in call.argv[1:] + ([call.stdin] if call.stdin and call.name in _READERS else []):
            if re.search(r"\s", text) and may_destroy(text):
                call.unknown(f"{plain(call.name)} may run: {plain(text)[:100]}")
                break
        for option, text in itertools.pairwise(call.argv[1:]):
            if _CODE.fullmatch(option) and _CODE_DELETES.search(text):
                # Which file it is stands somewhere in the code.
                call.emit("delete", UNKNOWN, last=False, how=f"{plain(call.name)} runs code that deletes")
            elif _CODE.fullmatch(option) and _CODE_MAY_DELETE.search(text):
                call.unknown(f"{plain(call.name)} runs code that may delete: {plain(text)[:100]}")
        if call.stdin and (_CODE_DELETES.search(call.stdin) or _CODE_MAY_DELETE.search(call.stdin)):
            call.unknown(f"{plain(call.name)} may run code that deletes: {plain(call.stdin)[:100]}")
        if _IN_PLACE & set(call.argv[1:]):
            for word in call.argv[1:]:
                if _FILE.fullmatch(word):
                    call.emit("write", word, sure=False, how=f"{plain(call.name)} may edit")
    return UNKNOWN


def _is_value(argv: list[str], at: int) -> bool:
    """Whether a word is the value of the long option before it: `--title rm --body x`, unlike `--scope rm -rf x`."""
    before, after = argv[at - 1], argv[at + 1]
    return before.startswith("--") and before != "--" and "=" not in before and after.startswith("--")
