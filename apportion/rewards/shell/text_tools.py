"""What builtins and text filters print, where it can be known: enough to follow text into a shell, a file or a name."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable

from apportion.rewards.shell.machine import Call, Handler
from apportion.rewards.shell.marks import STAR, UNKNOWN, is_wild
from apportion.rewards.shell.options import Grammar, read
from apportion.rewards.shell.words import ansi

__all__ = ["HANDLERS"]

_FILTERS = ("sort", "grep", "egrep", "fgrep", "rg", "tac", "shuf", "column", "nl", "fold", "pv", "tail", "less",
            "more", "bat", "ag", "ack", "zcat")  # fmt: skip
_SPECIFIER = re.compile(r"%[-+ #0]*\d*(?:\.\d+)?([bqscdixXo%])")
_NUMERIC = {"d": "d", "i": "d", "o": "o", "x": "x", "X": "X"}
_SEARCHERS = ("grep", "egrep", "fgrep", "rg", "ag", "ack")
# Letters that take a value.
_FILTER_VALUES = {
    "sort": "oktST",
    "tail": "ncs",
    "nl": "bhfnsvw",
    "fold": "w",
    **dict.fromkeys(_SEARCHERS, "efmABCdDgt"),
}


def _echo(call: Call) -> str:
    call.machine.status = True
    words = call.argv[1:]
    flags = ""
    while words and re.fullmatch(r"-[neE]+", words[0]):
        flags += words.pop(0)
    text = " ".join(words)
    return (ansi(text) if "e" in flags else text) + ("" if "n" in flags else "\n")


def _printf(call: Call) -> str:
    call.machine.status = True
    words = [word for word in call.argv[1:] if word != "--"]
    if words[:1] == ["-v"] and len(words) > 2:
        call.machine.state.assign(words[1], _formatted(words[2], words[3:]))
        return ""
    return _formatted(words[0], words[1:]) if words else ""


def _formatted(template: str, values: list[str]) -> str:
    if len(template) > 20_000:
        return UNKNOWN
    specs = _SPECIFIER.findall(template)
    consumed = sum(spec != "%" for spec in specs)
    turns = max(1, -(-len(values) // consumed)) if consumed else 1
    left = list(values)

    def one(match: re.Match[str]) -> str:
        if match[1] == "%":
            return "%"
        value = left.pop(0) if left else ""
        if match[1] in _NUMERIC:
            return (
                format(int(value, 0), _NUMERIC[match[1]])
                if re.fullmatch(r"-?(\d{1,18}|0x[0-9a-fA-F]{1,15})", value)
                else value
            )
        return ansi(value) if match[1] == "b" else value[:1] if match[1] == "c" else value

    # Escapes belong to the template, not to the values.
    pieces = [
        ansi(piece) if at % 3 == 0 else piece for at, piece in enumerate(re.split(f"({_SPECIFIER.pattern})", template))
    ]
    del pieces[2::3]
    return "".join(_SPECIFIER.sub(one, piece) for _ in range(min(turns, 64)) for piece in pieces)


def _contents(call: Call, operands: list[str]) -> str:
    """Reads files (or standard input) and returns what is in them."""
    if not operands:
        return call.stdin or ""
    printed = []
    for word in operands:
        if word == "-":
            printed.append(call.stdin or "")
            continue
        path = call.emit("read", word)
        printed.append(call.machine.state.files.get(path, UNKNOWN))
    return "".join(printed)


def _cat(call: Call) -> str:
    call.machine.status = None
    return _contents(call, [word for word in call.argv[1:] if word == "-" or not word.startswith("-")])


def _head(call: Call) -> str:
    given = read(call.argv[1:], Grammar(valued="nc", long_valued={"lines": "n", "bytes": "c"}))
    text = _contents(call, given.operands)
    count = next((int(flag) for flag in given.flags if flag.isdigit()), None)
    count = int(given.value("n") or 0) if (given.value("n") or "x").isdigit() else count
    return (
        "".join(text.splitlines(keepends=True)[: 10 if count is None else count]) if "c" not in given.flags else UNKNOWN
    )


def _filter(call: Call) -> str:
    """A filter keeps or reorders lines: what a single line or a glob stands for stays the same."""
    grammar = Grammar(valued=_FILTER_VALUES.get(call.name, ""), long_valued={"output": "o"})
    given = read(call.argv[1:], grammar)
    operands = given.operands
    if call.name in _SEARCHERS and not given.flags & {"e", "f"}:
        operands = operands[1:]
    recursive = given.flags & {"r", "R"} or call.name in ("rg", "ag", "ack")
    text = _contents(call, [] if recursive and not operands else operands)
    target = given.value("o") if call.name == "sort" else None
    if target is not None:
        call.machine.state.keep(call.emit("write", target, mode="replace"), UNKNOWN)
    if operands and call.name != "tail":
        return UNKNOWN
    return text if text.count("\n") <= 1 and "c" not in given.flags else UNKNOWN


def _base64(call: Call) -> str:
    words = [word for word in call.argv[1:] if word not in ("base64", "enc", "-base64", "-a", "-A")]
    given = read(words, Grammar(valued="w", longs={"decode": "d", "ignore-garbage": "i"}, same={"D": "d"}))
    for target in [words[at + 1] for at, word in enumerate(words[:-1]) if word in ("-out", "-o", "--output")]:
        call.machine.state.keep(call.emit("write", target, mode="replace"), UNKNOWN)
    text = _contents(call, given.operands)
    if is_wild(text):
        return UNKNOWN
    try:
        if "d" in given.flags:
            return base64.b64decode(text, validate=False).decode()
        return base64.b64encode(text.encode()).decode() + "\n"
    except (ValueError, binascii.Error):
        return UNKNOWN


def _xxd(call: Call) -> str:
    given = read(call.argv[1:], Grammar(valued="cglos"))
    text = _contents(call, given.operands[:1])
    for target in given.operands[1:2]:
        call.machine.state.keep(call.emit("write", target, mode="replace"), UNKNOWN)
    if is_wild(text) or not {"r", "p"} <= given.flags:
        return UNKNOWN
    try:
        return bytes.fromhex("".join(text.split())).decode()
    except ValueError:
        return UNKNOWN


def _tr(call: Call) -> str:
    given = read(call.argv[1:], Grammar(longs={"delete": "d", "squeeze-repeats": "s"}, same={"C": "c"}))
    text = call.stdin or ""
    sets = [_letters(word) for word in given.operands]
    if is_wild(text) or None in sets or not sets or "c" in given.flags:
        return UNKNOWN
    first, second = str(sets[0]), str(sets[1]) if len(sets) > 1 and sets[1] else ""
    if "d" in given.flags:
        return "".join(char for char in text if char not in first)
    if not second:
        return UNKNOWN
    return text.translate(str.maketrans(first[:4096], (second + second[-1] * len(first))[: len(first[:4096])]))


def _letters(word: str) -> str | None:
    word = ansi(word)
    for name, letters in (("lower", "a-z"), ("upper", "A-Z"), ("digit", "0-9"), ("space", " \t\n")):
        word = word.replace(f"[:{name}:]", letters)
    if "[:" in word or len(word) > 500:
        return None
    return re.sub(
        r"(.)-(.)",
        lambda m: "".join(map(chr, range(ord(m[1]), min(ord(m[2]), ord(m[1]) + 300) + 1))),
        word,
        flags=re.DOTALL,
    )


def _rev(call: Call) -> str:
    text = _contents(call, call.argv[1:])
    return UNKNOWN if is_wild(text) else "".join(line[::-1] + "\n" for line in text.splitlines())


def _read(call: Call) -> str:
    given = read(call.argv[1:], Grammar(valued="dnpNtui", same={"r": "raw"}))
    names = given.operands or ["REPLY"]
    lines = (call.stdin or UNKNOWN).splitlines() or [""]
    # A later line can be the value too, in a loop.
    line = lines[0] if len(lines) == 1 else UNKNOWN
    if "a" in given.flags:
        call.machine.state.assign(names[0], line.split())
        return ""
    # Set for this command alone, as mostly; every character of it separates.
    separators = dict(call.env).get("IFS", " \t\n")
    if separators.strip() and len(names) > 1:
        line = re.sub(f"[{re.escape(separators)}]", " ", line)
    values = line.split(None, len(names) - 1) if UNKNOWN not in line else [line] * len(names)
    for at, name in enumerate(names):
        call.machine.state.assign(name, values[at] if at < len(values) else "")
    return ""


def _mapfile(call: Call) -> str:
    given = read(call.argv[1:], Grammar(valued="dnOsucC"))
    name = given.operands[0] if given.operands else "MAPFILE"
    call.machine.state.assign(name, (call.stdin or UNKNOWN).splitlines())
    return ""


def _which(call: Call) -> str:
    return "".join(f"/usr/bin/{word}\n" for word in call.argv[1:] if not word.startswith("-"))


def _name(call: Call) -> str:
    words = [word for word in call.argv[1:] if not word.startswith("-")]
    if not words:
        return UNKNOWN
    folder, _, name = words[0].rstrip("/").rpartition("/")
    if call.name == "dirname":
        return (folder or ("/" if words[0].startswith("/") else ".")) + "\n"
    return (name.removesuffix(words[1]) if len(words) > 1 else name) + "\n"


def _pwd(call: Call) -> str:
    return call.machine.state.cwd + "\n"


def _realpath(call: Call) -> str:
    words = [word for word in call.argv[1:] if not word.startswith("-")]
    return "".join(call.path(word) + "\n" for word in words)


def _ls(call: Call) -> str:
    """Names of a folder: any of them."""
    words = [word for word in call.argv[1:] if not word.startswith("-")]
    if not words:
        return STAR + "\n"
    # A file is printed as it was named, a folder by what is in it; a name with an ending is taken for a file's.
    return "".join((word if is_wild(word) or "." in word.strip("./") else STAR) + "\n" for word in words)


def _mktemp(call: Call) -> str:
    """A new name in the temporary folder."""
    return "/tmp/tmp.apportion\n" if not set(call.argv[1:]) - {"-d", "-q", "-t"} else UNKNOWN


def _settings(call: Call) -> str:
    """Tools that print settings of their own for `eval`."""
    asked = call.name == "ssh-agent" or re.search(
        r"\b(hook|init|shellenv|env|activate|docker-env)\b", " ".join(call.argv)
    )
    return "" if asked else UNKNOWN


def _seq(call: Call) -> str:
    numbers = [word for word in call.argv[1:] if re.fullmatch(r"-?\d{1,6}", word)]
    if not numbers or len(numbers) > 2:
        return UNKNOWN
    first, last = (1, int(numbers[0])) if len(numbers) == 1 else (int(numbers[0]), int(numbers[1]))
    return "".join(f"{n}\n" for n in range(first, last + 1)) if last - first < 200 else UNKNOWN


def _true(call: Call) -> str:
    call.machine.status = True
    return ""


def _false(call: Call) -> str:
    call.machine.status = False
    return ""


def _silent(_: Call) -> str:
    return ""


def _alias(call: Call) -> str:
    for word in call.argv[1:]:
        name, equals, value = word.partition("=")
        if equals:
            call.machine.state.aliases[name] = value
    return ""


def _unalias(call: Call) -> str:
    for word in call.argv[1:]:
        call.machine.state.aliases.pop(word, None)
    return ""


def _cd(call: Call) -> str:
    words = [word for word in call.argv[1:] if not re.fullmatch(r"-[LPe@]+|--|\+\d+|-\d+", word)]
    state = call.machine.state
    old = state.cwd
    if call.name == "popd" or words[:1] == ["-"]:
        previous = state.variables.get("OLDPWD", UNKNOWN)
        state.cwd = previous if isinstance(previous, str) else UNKNOWN
    else:
        state.cwd = state.resolve(words[0]) if words else (state.workspace.home if call.name == "cd" else old)
    state.variables["OLDPWD"] = old
    call.machine.status = None
    return ""


def _export(call: Call) -> str:
    for word in call.argv[1:]:
        name, equals, value = word.partition("=")
        if equals:
            call.machine.state.assign(name, value)
    return ""


def _set(call: Call) -> str:
    if "--" in call.argv:
        call.machine.state.arguments = call.argv[call.argv.index("--") + 1 :]
    return ""


def _shift(call: Call) -> str:
    del call.machine.state.arguments[:1]
    return ""


_ONE: dict[str, Callable[[Call], str]] = {
    "echo": _echo,
    "printf": _printf,
    "cat": _cat,
    "head": _head,
    "base64": _base64,
    "openssl": _base64,
    "xxd": _xxd,
    "tr": _tr,
    "rev": _rev,
    "read": _read,
    "mapfile": _mapfile,
    "readarray": _mapfile,
    "which": _which,
    "basename": _name,
    "dirname": _name,
    "pwd": _pwd,
    "realpath": _realpath,
    "readlink": _realpath,
    "ls": _ls,
    "seq": _seq,
    "mktemp": _mktemp,
    "true": _true,
    ":": _true,
    "false": _false,
    "alias": _alias,
    "unalias": _unalias,
    "cd": _cd,
    "pushd": _cd,
    "popd": _cd,
    "export": _export,
    "declare": _export,
    "local": _export,
    "readonly": _export,
    "typeset": _export,
    "set": _set,
    "shift": _shift,
    "sleep": _silent,
    "exit": _silent,
    "return": _silent,
    "test": _silent,
    "[": _silent,
}
_SETTERS = ("ssh-agent", "conda", "brew", "pyenv", "rbenv", "nodenv", "direnv", "starship", "zoxide", "opam", "fnm",
            "mise", "minikube", "dircolors", "lesspipe", "register-python-argcomplete")  # fmt: skip
HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(_SETTERS, _settings),
    **dict.fromkeys(_FILTERS, _filter),
    **_ONE,
}
