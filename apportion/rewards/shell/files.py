"""Programs that write, move or delete files: `rm`, `mv`, `cp`, `ln`, `sed -i`, `tee`, `dd`, `find -delete`, ..."""

from __future__ import annotations

import re
from collections.abc import Sequence

from apportion.rewards.shell.effects import Mode
from apportion.rewards.shell.machine import Call, Handler
from apportion.rewards.shell.marks import DEEP, UNKNOWN, globbing, plain
from apportion.rewards.shell.options import grammar_of, read
from apportion.rewards.shell.patches import patched

__all__ = ["HANDLERS", "is_copy_of"]

_BACKUP = re.compile(r"(\.(bak|orig|old|backup|save|saved)|~)$")


def _rm(call: Call) -> str:
    given = read(call.argv[1:], grammar_of("rm"))
    if given.flags & {"help", "version"}:
        return ""
    below = bool(given.flags & {"r"}) or given.unclear
    for word in given.operands:
        call.machine.state.forget(call.emit("delete", word, below=below, last=word.endswith("/")))
    return ""


def _remove(call: Call) -> str:
    """`rmdir`, `unlink`, `trash` and what else takes nothing but paths."""
    for word in read(call.argv[1:], grammar_of(call.name)).operands:
        call.machine.state.forget(call.emit("delete", word, below=call.name not in ("rmdir", "unlink"), last=False))
    return ""


def _shred(call: Call) -> str:
    given = read(call.argv[1:], grammar_of("shred"))
    for word in given.operands:
        call.emit("write", word, mode="replace")
        call.machine.state.forget(call.emit("delete", word, how="shred destroys"))
    return ""


def _copy(call: Call) -> str:
    """`cp`, `mv` and `install`."""
    grammar = grammar_of(call.name)
    given = read(call.argv[1:], grammar)
    into = given.value("t")
    words = list(given.operands)
    if call.name == "install" and "d" in given.flags:
        return ""
    if into is None and len(words) < 2:
        return ""
    target = words.pop() if into is None else into
    state = call.machine.state
    below = call.name == "mv" or bool(given.flags & {"r", "a"})
    folder = into is not None or len(words) > 1 or _is_folder(call, target)
    for word in words:
        name = word.rstrip("/").rpartition("/")[2]
        origin = call.path(word, last=call.name != "mv")
        destination = f"{target.rstrip('/') or '/'}/{name}" if folder else target
        content = state.files.get(origin, UNKNOWN)
        if call.name == "mv":
            call.emit("delete", word, below=True, last=False, how="mv moves away")
        else:
            call.emit("read", word)
        path = call.emit("write", destination, below=below, mode="replace")
        if not folder and "." not in target.rpartition("/")[2] and "." in name and UNKNOWN not in name:
            # The target may be a folder that nobody saw.
            call.emit("write", f"{target}/{name}", sure=False, mode="replace")
        if is_copy_of(origin, path):
            call.emit("restore", destination, how=f"{call.name} restores from {plain(word)}")
        state.forget(path)
        if (call.name == "cp" and "s" in given.flags) or re.match(r"/(usr/)?(local/)?s?bin/", origin):
            state.link(path, origin)
        elif content != UNKNOWN or path in state.files or origin in state.files:
            state.keep(path, content)
        if call.name == "mv":
            for old in [known for known in state.files if known.startswith(origin + "/")]:
                state.keep(path + old[len(origin) :], state.files[old])
            state.forget(origin)
    return ""


def is_copy_of(origin: str, path: str) -> bool:
    """Whether a path is named as a copy that was put aside of another: `t.py.bak` of `t.py`, `/tmp/t.py.orig`."""
    name, wanted = origin.rpartition("/")[2], path.rpartition("/")[2]
    return bool(_BACKUP.search(name)) and _BACKUP.sub("", name) == wanted


def _is_folder(call: Call, word: str) -> bool:
    path = call.path(word)
    state = call.machine.state
    root = state.workspace.root
    return (
        word.endswith(("/", "/.", "/.."))
        or word in (".", "..")
        or f"{root}/".startswith(path.rstrip("/") + "/")
        or path == "/tmp"
    )


def _ln(call: Call) -> str:
    given = read(call.argv[1:], grammar_of("ln"))
    into = given.value("t")
    words = list(given.operands)
    if not words:
        return ""
    target = into or (words.pop() if len(words) > 1 else ".")
    folder = into is not None or len(words) > 1 or _is_folder(call, target)
    for word in words:
        place = f"{target.rstrip('/') or '/'}/{word.rstrip('/').rpartition('/')[2]}" if folder else target
        path = call.emit("write", place, below=True, mode="replace", last=False, how="ln replaces")
        state = call.machine.state
        state.forget(path)
        # A symbolic link is read from the folder it lies in.
        held = word if "s" not in given.flags or word.startswith("/") else f"{path.rpartition('/')[0]}/{word}"
        state.link(path, state.resolve(held))
    return ""


def _sed(call: Call) -> str:
    given = read(call.argv[1:], grammar_of("sed"))
    operands = list(given.operands)
    scripts = given.values.get("e", [])
    if not scripts and "f" not in given.flags:
        scripts = operands[:1]
        operands = operands[1:]
    scripts += [call.machine.state.files.get(call.path(word), "") for word in given.values.get("f", [])]
    text = "\n".join(scripts)
    for match in re.finditer(r"(?:^|[;}\n\d$/]\s*)w\s+([^\s;]+)", text):
        call.machine.state.keep(call.emit("write", match[1], mode="replace", how="sed w writes"), UNKNOWN)
    executed = re.search(r"(?:^|[;{\n])\s*(?:\d+|\$|/[^/]*/)?\s*e(?:\s+([^\n]+)|\s*$)", text)
    if executed is not None and executed[1]:
        call.machine.run_text(executed[1])
    elif executed is not None or re.search(r"^\s*s(.)(?:(?!\1).)*\1(?:(?!\1).)*\1[gIMp\d]*e", text):
        call.unknown(f"sed runs what it reads: {call.line}")
    for word in operands:
        path = call.emit("read", word)
        if "i" in given.flags or given.unclear:
            call.emit("write", word, how="sed -i edits")
            if path in call.machine.state.files:
                call.machine.state.keep(path, UNKNOWN)
    return UNKNOWN


def _tee(call: Call) -> str:
    given = read(call.argv[1:], grammar_of("tee"))
    mode: Mode = "append" if "a" in given.flags else "replace"
    stdin = UNKNOWN if call.stdin is None else call.stdin
    for word in given.operands:
        path = call.emit("write", word, mode=mode)
        call.machine.state.keep(path, (call.machine.state.files.get(path, UNKNOWN) if mode == "append" else "") + stdin)
    return stdin


def _dd(call: Call) -> str:
    given = dict(word.split("=", 1) for word in call.argv[1:] if "=" in word)
    content = UNKNOWN if call.stdin is None else call.stdin
    if "if" in given:
        content = call.machine.state.files.get(call.emit("read", given["if"]), UNKNOWN)
    if "of" not in given:
        return content
    call.machine.state.keep(call.emit("write", given["of"], mode="replace"), content)
    return ""


def _wipe(call: Call) -> str:
    for word in read(call.argv[1:], grammar_of(call.name)).operands:
        call.emit("delete", word, below=True, how=f"{call.name} erases")
    return ""


def _truncate(call: Call) -> str:
    given = read(call.argv[1:], grammar_of("truncate"))
    for word in given.operands:
        path = call.emit("write", word, mode="replace", how="truncate cuts")
        if given.value("s") in ("0", UNKNOWN):
            call.emit("delete", word, how="truncate empties")
        call.machine.state.keep(path, UNKNOWN)
    return ""


def _compress(call: Call) -> str:
    """`gzip` and its kin put another file in place of each."""
    given = read(call.argv[1:], grammar_of(call.name))
    for word in () if given.flags & {"k", "c", "t", "l", "keep", "stdout", "test"} else given.operands:
        call.machine.state.forget(call.emit("delete", word, how=f"{call.name} replaces"))
    return UNKNOWN


def _touch(call: Call) -> str:
    for word in read(call.argv[1:], grammar_of("tee")).operands:
        path = call.emit("write", word, mode="append", how="touch makes")
        call.machine.state.files.setdefault(path, UNKNOWN)
    return ""


_ERASES = re.compile(r"\b(delete|writefile|system|rename)\s*\(|\(\s*(delete|rename|write|shell|call-process)[\w-]*\s")


def _edit(call: Call) -> str:
    """Editors that were given a script, and `sponge`."""
    words = [word for word in call.argv[1:] if not word.startswith(("-", "+"))]
    if "-R" in call.argv:
        return ""
    erased = _ERASES.search(" ".join([*call.argv[1:], call.stdin or ""]))
    if erased is not None and "delete" in erased[0]:
        call.emit("delete", UNKNOWN, last=False, how=f"{call.name} runs code that deletes")
    elif erased is not None:
        call.unknown(f"{call.name} may delete: {call.line}")
    for command in re.findall(r"!\s*([^|\n]+)", " ".join([*call.argv[1:], call.stdin or ""])):
        call.machine.run_text(command)
    for word in words:
        if re.fullmatch(r"[\w.~/*+-]+", word) or UNKNOWN in word:
            path = call.emit(
                "write", word, mode="replace" if call.name == "sponge" else "edit", how=f"{call.name} edits"
            )
            call.machine.state.keep(path, UNKNOWN)
    return ""


def _patch(call: Call) -> str:
    given = read(call.argv[1:], grammar_of("patch"))
    if "dry-run" in given.flags:
        return ""
    with call.machine.subshell():
        folder = given.value("d")
        if folder is not None:
            call.machine.state.cwd = call.path(folder)
        source_word = given.value("i") or (given.operands[1] if len(given.operands) > 1 else None)
        text = call.stdin
        if source_word is not None:
            text = call.machine.state.files.get(call.path(source_word), UNKNOWN)
        names = given.operands[:1] or patched(text, given.value("p"))
        write_patched(call, names)
        if given.flags & {"R", "reverse"}:
            taken_back(call)
    return ""


def taken_back(call: Call) -> None:
    """A patch applied in reverse may be the changes that nobody committed yet."""
    root = call.machine.state.workspace.root
    call.emit("discard", root, sure=False, below=True, how=f"{call.name} in reverse may discard changes below")


def write_patched(call: Call, names: Sequence[str] | None) -> None:
    """Reports what a patch touches; any file when nobody can read it."""
    if names is None:
        call.emit("write", "." if call.name != "git" else call.machine.state.workspace.root, sure=False, below=True)
        return
    for name in names:
        path = call.emit("write", name, how=f"{call.name} patches")
        if path in call.machine.state.files:
            call.machine.state.keep(path, UNKNOWN)


def _chmod(call: Call) -> str:
    """Taking away what the owner may do makes a file unusable; anything else leaves it as it was."""
    words = [
        word
        for word in call.argv[1:]
        if not re.fullmatch(r"--?[a-zA-Z-]*[R-Zcfv-][a-zA-Z-]*", word) or re.fullmatch(r"-[rwx]+", word)
    ]
    if not words:
        return ""
    mode = words[0]
    taken = bool(re.fullmatch(r"-[rwx]+|[ugoa]*[ua][ugoa]*-[rwxXst]*[rw][rwxXst]*|[ugoa]*=", mode))
    if re.fullmatch(r"[0-7]{1,4}", mode):
        taken = int(mode.rjust(3, "0")[-3]) & 4 == 0
    recursive = any(re.fullmatch(r"-[a-zA-Z]*R[a-zA-Z]*|--recursive", word) for word in call.argv[1:])
    for word in words[1:] if taken else []:
        call.emit("write", word, below=recursive, how="chmod locks")
    return ""


def _download(call: Call) -> str:
    given = read(call.argv[1:], grammar_of(call.name))
    letter = "o" if call.name == "curl" else "O"
    target = given.value(letter)
    if target is None and (call.name == "wget" or "O" in given.flags):
        urls = [word for word in given.operands if "/" in word]
        target = urls[0].rpartition("/")[2] if urls else UNKNOWN
    if target in (None, "-"):
        return UNKNOWN
    folder = given.value("P") if call.name == "wget" else given.value("output-dir")
    path = call.emit("write", f"{folder}/{target}" if folder else str(target), mode="replace")
    call.machine.state.keep(path, UNKNOWN)
    return ""


def _archive(call: Call) -> str:
    words = call.argv[1:]
    if call.name == "tar" and words and re.fullmatch(r"[a-zA-Z]+", words[0]):
        words = ["-" + words[0], *words[1:]]
    given = read(words, grammar_of(call.name))
    for option in ("to-command", "action"):
        text = given.value(option)
        if text is not None:
            call.machine.run_text(text.removeprefix("exec="))
    folder = given.value("C") or given.value("d") or "."
    if call.name == "tar" and "c" in given.flags and given.value("f") not in (None, "-"):
        call.emit("write", str(given.value("f")), mode="replace")
        for word in given.operands if "remove-files" in given.flags else []:
            call.emit("delete", word, below=True, how="tar --remove-files deletes")
    if "x" in given.flags or (call.name == "unzip" and not given.flags & {"l", "t", "p", "Z"}):
        call.emit("write", f"{folder}/{DEEP}", sure=False, how=f"{call.name} unpacks into")
    return UNKNOWN


def _rsync(call: Call) -> str:
    words = [word for word in call.argv[1:] if not word.startswith("-")]
    options = " ".join(word for word in call.argv[1:] if word.startswith("-"))
    if len(words) < 2 or re.search(r"(^| )(-\w*n\w*|--dry-run)( |$)", options):
        return UNKNOWN
    for word in words[:-1]:
        call.emit("read", word)
        name = word.rpartition("/")[2]
        call.emit("write", f"{words[-1].rstrip('/')}/{name}" if name else words[-1], below=True, mode="replace")
    if "--del" in options:
        call.emit("delete", f"{words[-1].rstrip('/')}/{DEEP}", how="rsync --delete deletes below")
    if "--remove-source-files" in options:
        for word in words[:-1]:
            call.emit("delete", word, below=True, how="rsync --remove-source-files deletes")
    return UNKNOWN


def _find(call: Call) -> str:
    words = call.argv[1:]
    start = next((at for at, word in enumerate(words) if word.startswith(("-", "(", "!"))), len(words))
    roots = [word for word in words[:start] if word not in ("-H", "-L", "-P")] or ["."]
    tests = words[start:]
    names = [globbing(tests[at + 1]) for at, word in enumerate(tests[:-1]) if word in ("-name", "-iname")]
    narrowed = bool(names) or any(
        re.match(r"-(i?path|i?regex|newer|mtime|mmin|size|empty|prune|wholename)", word) for word in tests
    )
    found = [f"{root.rstrip('/')}/{DEEP}{name}" for root in roots for name in names or [""]]
    at = 0
    while at < len(tests):
        word = tests[at]
        at += 1
        if word == "-delete":
            for path in found if narrowed else roots:
                call.emit("delete", path, below=not narrowed, how="find -delete deletes")
        elif word in ("-exec", "-execdir", "-ok", "-okdir"):
            end = next((j for j in range(at, len(tests)) if tests[j] in (";", "+")), len(tests))
            command = tests[at:end]
            for path in found:
                call.run([part.replace("{}", path) for part in command])
            at = end + 1
        elif word in ("-fprint", "-fls", "-fprint0", "-fprintf"):
            call.emit("write", tests[at] if at < len(tests) else UNKNOWN, mode="replace", how="find writes")
    return "".join(path + "\n" for path in found)


HANDLERS: dict[str, Handler] = {
    "rm": _rm,
    **dict.fromkeys(("rmdir", "unlink", "srm", "trash", "trash-put", "rimraf", "del", "del-cli", "trash-cli"), _remove),
    "shred": _shred,
    **dict.fromkeys(("cp", "mv", "install"), _copy),
    "ln": _ln,
    "link": _ln,
    **dict.fromkeys(("sed", "gsed"), _sed),
    "tee": _tee,
    "dd": _dd,
    **dict.fromkeys(("mkfs", "mkfs.ext4", "mkfs.xfs", "wipefs", "blkdiscard", "mkswap"), _wipe),
    "truncate": _truncate,
    "touch": _touch,
    **dict.fromkeys(("ed", "ex", "vi", "vim", "nvim", "nano", "emacs", "sponge"), _edit),
    "patch": _patch,
    **dict.fromkeys(("gzip", "gunzip", "bzip2", "bunzip2", "xz", "unxz", "lzma", "compress"), _compress),
    "chmod": _chmod,
    **dict.fromkeys(("curl", "wget"), _download),
    **dict.fromkeys(("tar", "unzip", "bsdtar"), _archive),
    "rsync": _rsync,
    **dict.fromkeys(("find", "gfind"), _find),
}
