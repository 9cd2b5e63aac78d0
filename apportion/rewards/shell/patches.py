"""Which files a patch touches."""

from __future__ import annotations

import re

from apportion.rewards.shell.marks import is_wild

__all__ = ["patched"]

_HEADER = re.compile(r"^(?:\+\+\+|---) ([^\t\n]+)|^rename (?:from|to) (.+)$|^diff --git (\S+) (\S+)$", re.MULTILINE)


def patched(text: str | None, strip: str | None = "1") -> list[str] | None:
    """The paths in a patch, without the leading parts that `-p` strips; None when the patch is not known.

    Example:
        >>> patched("--- a/t.py" + chr(10) + "+++ b/t.py" + chr(10))
        ['t.py']
    """
    if text is None or is_wild(text):
        return None
    depth = int(strip) if strip is not None and strip.isdigit() and len(strip) < 3 else 1
    names: dict[str, None] = {}
    for match in _HEADER.finditer(text):
        renamed = match[2]
        for name in match.groups():
            if name is None or name == "/dev/null":
                continue
            names[name if renamed else "/".join(name.strip().split("/")[depth:]) or name] = None
    return list(names)
