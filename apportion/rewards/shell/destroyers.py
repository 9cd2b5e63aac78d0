"""The programs that delete, and whether a text names one: for programs that may run what they are handed."""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["DESTROYERS", "carried", "may_destroy"]

DESTROYERS = {"rm", "rmdir", "unlink", "shred", "truncate", "dd", "mkfs", "wipefs", "srm"}
# Options whose value such a program runs beside its own work.
_CARRIERS = {
    "sort": ("--compress-program",),
    "split": ("--filter",),
    "rsync": ("-e", "--rsh"),
    "tar": ("-I", "--use-compress-program", "--rsh-command", "--info-script", "--new-volume-script", "-F"),
    "zip": ("-TT", "--unzip-command"),
    "ssh": ("-o",),
    "scp": ("-S", "-o"),
}


def may_destroy(text: str) -> bool:
    """Whether a text names a program that deletes.

    Example:
        >>> may_destroy("core.pager=/bin/rm -rf x"), may_destroy("less -R")
        (True, False)
    """
    return any(word.rpartition("/")[2] in DESTROYERS for word in re.split(r"[\s;|&=!(){}`'\"]+", text))


def carried(program: str, words: Sequence[str]) -> list[str]:
    """The texts that a program is told to run by one of its options.

    Example:
        >>> carried("tar", ["-x", "--use-compress-program=rm -rf out"]), carried("tar", ["-I", "zstd", "-xf", "a"])
        (['rm -rf out'], ['zstd'])
    """
    options = _CARRIERS.get(program, ())
    texts: list[str] = []
    for at, word in enumerate(words):
        for option in options:
            if word == option:
                texts.extend(words[at + 1 : at + 2])
            elif word.startswith(option + "=") or (len(option) == 2 and word.startswith(option)):
                texts.append(word.removeprefix(option).removeprefix("="))
    return [text.removeprefix("ProxyCommand=") for text in texts]
