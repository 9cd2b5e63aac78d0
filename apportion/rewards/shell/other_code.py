"""What Perl, Ruby, Node, PHP and awk code does to files, by its recognised operations; what builds code is unknown."""

from __future__ import annotations

import re
from collections.abc import Iterable

from apportion.rewards.shell.machine import Call, Handler
from apportion.rewards.shell.marks import UNKNOWN, globbing, is_wild, plain
from apportion.rewards.shell.options import Grammar, read
from apportion.rewards.shell.parsing import Exhausted

__all__ = ["HANDLERS"]

_TEXT = (
    r"""(?:"((?:[^"\\]|\\.){0,500})"|'((?:[^'\\]|\\.){0,500})'|`([^`]{0,500})`"""
    r"""|q\w?[({\[/|]([^)}\]/|]{0,500})[)}\]/|])"""
)
_FIRST = r"\b{}\b\s*\(?\s*\[?\s*(?:{}|(\S)|\Z)"
_CALL = {
    "delete": r"(?:unlink(?:Sync)?|rmSync|rmdirSync|rmdir|rmtree|remove_tree|rm_rf|rm_r|rm_f|rm|remove_entry"
    r"|remove_dir|delete|rimraf|removeSync|emptyDirSync|Deno\.remove|Deno\.removeSync|os\.remove|file\.remove)",
    "write": r"(?:writeFileSync|writeFile|appendFileSync|appendFile|createWriteStream|truncateSync|file_put_contents"
    r"|File\.write|IO\.write|outputFileSync|outputJsonSync)",
    "run": r"(?:system|exec|execSync|spawnSync|spawn|execFileSync|execFile|shell_exec|passthru|popen|proc_open"
    r"|pcntl_exec|os\.execute)",
    "move": r"(?:rename|renameSync|copyFileSync|copyFile|cpSync|symlinkSync|linkSync|move|copy|mv|cp|ln_sf|ln_s"
    r"|symlink|os\.rename)",
}
_OPEN = re.compile(r"\b(?:open|fopen|File\.open|File\.new|openSync)\b\s*\(?\s*(?P<before>[^;]{0,300})")
_DYNAMIC = re.compile(
    r"\beval\b|\bFunction\s*\(|\batob\s*\(|Buffer\.from|\bpack\s*\(|\bunpack\b|base64_decode|decode_base64|\bconst_get\b|\bsend\s*\("
    r"|\w\[\s*['\"`]\w*['\"`]\s*\+|\bcreate_function\b|require\([^'\"`]"
)
# What is no function of these languages, but an ordinary word.
_FOREIGN = {
    "perl": {"rm", "delete", "cp", "mv", "copy", "move", "rm_rf", "rm_r", "rm_f", "spawn"},
    "php": {"rm", "delete", "cp", "mv", "move", "rm_rf", "rm_r", "rm_f", "spawn"},
}
# "delete" and "copy" are ordinary words of these languages: only as methods of the file modules.
_METHODS = re.compile(
    r"(File|FileUtils|Dir|fs|fsp|fse|promises|Pathname|Path|shell|sh)(\([^()]*\)|\.new\([^()]*\))?\s*[.]\s*$|require\([^)]*\)\s*\.\s*$"
)
_PLAIN_WORDS = {"delete", "rm", "copy", "move", "cp", "mv", "exec", "spawn", "rmdir", "rename", "symlink"}


def _run_code(call: Call, language: str, code: str) -> str:
    machine = call.machine
    if len(code) > machine.limits.characters:
        raise Exhausted(f"code longer than {machine.limits.characters} characters")
    if is_wild(code):
        call.unknown(f"{language} code that is not known: {plain(code)[:60]!r}")
    if _DYNAMIC.search(code):
        call.unknown(f"{language} code that builds code or text: {plain(code)[:60]!r}")
    for kind, names in _CALL.items():
        for match in re.finditer(_FIRST.format(names, _TEXT), code):
            machine.step()
            name = re.match(r"[\w.]+", match[0])
            word = name[0] if name else kind
            if word in _FOREIGN.get(language, ()) and not (word in ("copy", "move") and "File::Copy" in code):
                continue
            owned = bool(_METHODS.search(code[max(match.start() - 40, 0) : match.start()]))
            if language == "node" and word in _PLAIN_WORDS and not owned and not _imported(word, code):
                continue
            if language == "ruby" and word in _PLAIN_WORDS - {"exec", "spawn"} and not owned:
                continue
            _report(call, language, kind, word, _strings(match[0], code[match.end() :]))
    for match in _OPEN.finditer(code):
        _open(call, match["before"])
    if language in ("perl", "ruby", "php"):
        for match in re.finditer(r"`([^`]+)`|(?:\bqx|%x)\s*([({\[/|])([^)}\]/|]+)", code):
            machine.run_text(match[1] or match[3] or "")
    return UNKNOWN


def _imported(word: str, code: str) -> bool:
    """Whether Node code takes a function of that name out of a module, or calls it on one held in a variable."""
    return bool(
        re.search(rf"\{{[^}}]{{0,200}}\b{word}\b[^}}]{{0,200}}\}}\s*(=\s*(await\s+import|require)|from\b)", code)
        or (
            word != "delete"
            and re.search(
                rf"\b(\w+)\s*=\s*require\(['\"](node:)?(fs|child_process)[^)]*\).*\b\1\.{word}\b", code, re.DOTALL
            )
        )
    )


def _strings(found: str, rest: str) -> list[str]:
    """The text arguments of a call, from its first on; UNKNOWN for one that is no plain text."""
    head = re.search(_TEXT, found)
    if head is None:
        return [UNKNOWN]
    values = [_literal(head)]
    for match in re.finditer(rf"\s*,\s*\[?\s*{_TEXT}", rest[:600].split(")", 1)[0]):
        values.append(_literal(match))
    if re.match(r"\s*[.+]\s*[\w$\"']", rest):
        values[0] = UNKNOWN
    return values


def _literal(match: re.Match[str]) -> str:
    body = next((group for group in match.groups() if group is not None), "")
    quoted_only = match[0].lstrip(" ,[").startswith("'")
    text = re.sub(r"\\(.)", r"\1", body)
    return text if quoted_only else re.sub(r"\$\{?\w+\}?|#\{[^}]*\}|@\w+", UNKNOWN, text)


def _report(call: Call, language: str, kind: str, word: str, values: list[str]) -> None:
    first = values[0]
    if kind == "delete":
        for value in values if language in ("perl", "ruby") else values[:1]:
            call.emit(
                "delete", globbing(value), below="unlink" not in word, last=False, how=f"{language} {word} deletes"
            )
    elif kind == "write":
        mode_append = "append" in word
        call.emit("write", first, mode="append" if mode_append else "replace", how=f"{language} {word} writes")
    elif kind == "move":
        target = values[1] if len(values) > 1 else UNKNOWN
        if re.match(r"re|mo|mv", word):
            call.emit("delete", first, below=True, last=False, how=f"{language} {word} moves away")
        call.emit("write", target, below=True, mode="replace", how=f"{language} {word} writes")
    elif len(values) > 1 and not (language == "node" and re.match(r"exec(Sync)?$", word)):
        call.run(values)
    else:
        call.machine.run_text(first)


def _open(call: Call, arguments: str) -> None:
    texts = [_literal(match) for match in re.finditer(_TEXT, arguments)]
    if not texts:
        return
    joined = re.match(r"\s*(\+?[>|]{1,2})\s*(.*)", texts[0]) if len(texts) == 1 else None
    if joined is not None:
        if "|" in joined[1]:
            call.machine.run_text(joined[2])
        elif joined[2]:
            call.emit("write", joined[2], mode="append" if joined[1] == ">>" else "replace", how="open writes")
    elif len(texts) > 1 and re.match(r"\s*\+?(>>?|\+<)", texts[0]):
        call.emit("write", texts[1], mode="append" if ">>" in texts[0] else "replace", how="open writes")
    elif len(texts) > 1 and re.match(r"-\||\|-", texts[0]):
        call.run(texts[1:])
    elif len(texts) > 1 and re.fullmatch(r"[wax]b?\+?|r\+b?|[wa]\+?b?", texts[1]):
        call.emit("write", texts[0], mode="append" if "a" in texts[1] else "replace", how="open writes")
    elif len(texts) == 1 and texts[0].endswith("|"):
        call.machine.run_text(texts[0][:-1])


def _interpreter(call: Call) -> str:
    language = "node" if call.name == "nodejs" else call.name
    letters = {"perl": "eEIMmCD", "ruby": "eIrC", "node": "epr", "php": "rfdB", "lua": "e"}.get(language, "e")
    grammar = Grammar(
        valued=letters,
        attached="iF",
        long_valued={"eval": "e", "print": "p", "require": "r"},
        first=True,
        same={"E": "e"} if language == "perl" else {},
    )
    words = call.argv[1:]
    if language in ("perl", "ruby"):
        # -0 and -l take only digits, and only attached ones.
        words = [
            re.sub(r"^(-[a-zA-Z]*?)[0l][0-7]*", r"\1", word) if re.match(r"-\w*[0l]", word) else word for word in words
        ]
        words = [word for word in words if word != "-" or word in call.argv]
    elif language == "node":
        words = ["-e" if word in ("-pe", "-ep") else word for word in words]
    elif language in ("deno", "bun") and words[:1] == ["eval"]:
        words = ["-e", *words[1:]]
    elif language in ("deno", "bun") and words[:1] == ["run"]:
        words = words[1:]
    given = read(words, grammar)
    letters_of_code = ("e", "r") if language == "php" else ("e", "p") if language == "node" else ("e",)
    code = "\n".join(text for letter in letters_of_code for text in given.values.get(letter, []))
    operands = list(given.operands)
    for required in given.values.get("r", []) if language == "node" else []:
        code += "\n" + call.machine.state.files.get(call.path(required), "")
    if not code and operands and operands[0] in ("-", "/dev/stdin"):
        code = call.stdin or ""
    elif not code and operands:
        path = call.path(operands.pop(0))
        content = call.machine.state.files.get(path)
        if content is None:
            if UNKNOWN in path:
                call.unknown(f"runs a script whose path is not known: {call.line}")
            return UNKNOWN
        code = content
    elif not code and call.stdin:
        code = call.stdin
    if code:
        _run_code(call, language, code)
    if "i" in given.flags and language in ("perl", "ruby"):
        _edit_in_place(call, operands)
    return UNKNOWN


def _edit_in_place(call: Call, operands: Iterable[str]) -> None:
    for word in operands:
        path = call.emit("write", word, how=f"{call.name} -i edits")
        if path in call.machine.state.files:
            call.machine.state.keep(path, UNKNOWN)


def _awk(call: Call) -> str:
    given = read(call.argv[1:], Grammar(valued="Fvfiel", first=True, long_valued={"file": "f", "source": "e"}))
    program = given.value("e") or (given.operands[0] if given.operands and "f" not in given.flags else "")
    if "f" in given.flags:
        program += call.machine.state.files.get(call.path(given.value("f") or ""), "")
    for match in re.finditer(r'system\s*\(\s*(?:"((?:[^"\\]|\\.)*)"\s*\)|([^)]*))', program):
        call.machine.run_text(re.sub(r"\\(.)", r"\1", match[1]) if match[1] is not None else UNKNOWN)
    for match in re.finditer(r'\|\s*(?:getline\b|"((?:[^"\\]|\\.)*)")|"((?:[^"\\]|\\.)*)"\s*\|\s*getline', program):
        text = match[1] or match[2]
        if text and re.match(r"\s*(sh|bash)\b", text):
            call.unknown(f"awk feeds a shell: {call.line}")
        elif text:
            call.machine.run_text(text)
    given_names = dict(word.split("=", 1) for word in given.values.get("v", []) if "=" in word)
    for match in re.finditer(r"\bprintf?\b[^;}|()>]*(>>?)\s*([A-Za-z_]\w*|\$\w+)", program):
        call.emit("write", given_names.get(match[2], UNKNOWN), mode="edit", how="awk writes")
    for match in re.finditer(r'(>>?)\s*"([^"]+)"', program):
        call.emit("write", match[2], mode="append" if match[1] == ">>" else "replace", how="awk writes")
    for word in given.operands[1:] if "f" not in given.flags else given.operands:
        if "=" not in word:
            call.emit("read", word)
            if given.value("i") == "inplace":
                call.emit("write", word, how="awk -i inplace edits")
    return UNKNOWN


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(("perl", "ruby", "node", "nodejs", "php", "lua", "deno", "bun", "Rscript", "julia"), _interpreter),
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), _awk),
}
