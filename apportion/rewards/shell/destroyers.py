"""The programs that delete, and whether a text names one: for programs that may run what they are handed."""

from __future__ import annotations

import re

__all__ = ["DESTROYERS", "may_destroy"]

DESTROYERS = {"rm", "rmdir", "unlink", "shred", "truncate", "dd", "mkfs", "wipefs", "srm"}


def may_destroy(text: str) -> bool:
    """Whether a text names a program that deletes.

    Example:
        >>> may_destroy("core.pager=/bin/rm -rf x"), may_destroy("less -R")
        (True, False)
    """
    return any(word.rpartition("/")[2] in DESTROYERS for word in re.split(r"[\s;|&=!(){}`'\"]+", text))
