"""Programs with an output option or operand: they write one file and are not followed further."""

from __future__ import annotations

import re

from apportion.rewards.shell.machine import Call, Handler
from apportion.rewards.shell.marks import DEEP, STAR, UNKNOWN
from apportion.rewards.shell.options import Grammar, read

__all__ = ["HANDLERS"]

# The letter (or long name) of the output option.
_OPTION = {"iconv": "o", "gpg": "o", "pandoc": "o", "dot": "o", "age": "o", "protoc": "o", "csplit": "f"}
# Which operand is written: 1 is the second, -1 the last.
_OPERAND = {"uniq": 1, "ffmpeg": -1, "convert": -1, "magick": -1, "zip": 0, "split": 1, "pdftotext": 1}
_MANY = {"split", "csplit"}


def _option(call: Call) -> str:
    letter = _OPTION[call.name]
    given = read(call.argv[1:], Grammar(valued=letter, long_valued={"output": letter, "prefix": letter}))
    _written(call, given.value(letter))
    return UNKNOWN


def _operand(call: Call) -> str:
    given = read(call.argv[1:], Grammar(valued={"split": "blnaC", "ffmpeg": "ifcsv"}.get(call.name, "")))
    at = _OPERAND[call.name]
    if given.operands and at < len(given.operands):
        _written(call, given.operands[at])
    if call.name == "zip" and given.flags & {"m", "move"}:
        for word in given.operands[1:]:
            call.emit("delete", word, below=True, how="zip -m moves away")
    return UNKNOWN


def _written(call: Call, word: str | None) -> None:
    if word is not None and word != "-":
        path = call.emit("write", f"{word}{STAR}" if call.name in _MANY else word, mode="replace")
        call.machine.state.keep(path, UNKNOWN)


def _unpacks(call: Call) -> str:
    """Archives whose list of files is not known."""
    words = call.argv[1:]
    if any(re.match(r"-?-?(i|x|e|extract|d)", word) for word in words[:1]):
        call.emit("write", f"./{DEEP}", sure=False, how=f"{call.name} unpacks into")
    if "-sdel" in words:
        for word in words[2:]:
            if not word.startswith("-"):
                call.emit("delete", word, below=True, how=f"{call.name} -sdel deletes")
    return UNKNOWN


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(_OPTION, _option),
    **dict.fromkeys(_OPERAND, _operand),
    **dict.fromkeys(("cpio", "ar", "7z", "7za", "unrar", "jar"), _unpacks),
}
