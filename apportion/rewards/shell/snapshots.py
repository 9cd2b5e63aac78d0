"""What a folder holds, hashed, so that "everything is as it was" is a proof: ignored and untracked files included."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from apportion.errors import InvalidArgument
from apportion.rewards.shell.matching import Patterns
from apportion.rewards.shell.state import Workspace
from apportion.verdicts import Scored

__all__ = ["Changes", "Snapshot", "restore_proof", "snapshot"]

_BLOCK = 1 << 20
_LISTED = 5


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The entries of a folder.

    Attributes:
        entries: from the path inside the folder to what is there: "file:<x or ->:<SHA-256>", "link:<target>",
            "folder", or "other".
    """

    entries: Mapping[str, str]

    def changes(self, later: Snapshot) -> Changes:
        """What is different in a later snapshot."""
        before, after = self.entries, later.entries
        return Changes(
            added=tuple(sorted(after.keys() - before.keys())),
            removed=tuple(sorted(before.keys() - after.keys())),
            changed=tuple(sorted(path for path in before.keys() & after.keys() if before[path] != after[path])),
        )


@dataclass(frozen=True, slots=True)
class Changes:
    """The paths that differ between two snapshots."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]

    def __str__(self) -> str:
        told = []
        for word in ("added", "removed", "changed"):
            paths: tuple[str, ...] = getattr(self, word)
            if paths:
                more = f" and {len(paths) - _LISTED} more" if len(paths) > _LISTED else ""
                told.append(f"{word} {', '.join(paths[:_LISTED])}{more}")
        return "; ".join(told) or "nothing changed"


def snapshot(root: str | os.PathLike[str], *, skip: Sequence[str] = (".git",)) -> Snapshot:
    """Hashes everything in a folder; git is not asked, so ignored and untracked files count like any other.

    Args:
        root: the folder.
        skip: names of entries that are left out wherever they lie, e.g. caches that a test run writes.

    Returns:
        The snapshot; links are recorded and not followed.

    Raises:
        InvalidArgument: `root` is no folder.
        OSError: a file that cannot be read; a proof that leaves it out would prove nothing.

    Example:
        >>> import tempfile, pathlib
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> before = snapshot(folder)
        >>> _ = (folder / "conftest.py").write_text("")
        >>> str(before.changes(snapshot(folder)))
        'added conftest.py'
    """
    if not os.path.isdir(root):
        raise InvalidArgument("root", os.fspath(root), "a folder")
    left_out = frozenset(skip)
    entries: dict[str, str] = {}
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        with os.scandir(os.path.join(root, folder)) as listing:
            for entry in listing:
                if entry.name in left_out:
                    continue
                path = f"{folder}/{entry.name}" if folder else entry.name
                entries[path] = _entry(entry)
                if entries[path] == "folder":
                    waiting.append(path)
    return Snapshot(entries)


def _entry(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return f"link:{os.readlink(entry.path)}"
    if entry.is_dir():
        return "folder"
    mode = entry.stat(follow_symlinks=False).st_mode
    if not stat.S_ISREG(mode):
        # A pipe would block for ever.
        return "other"
    digest = hashlib.sha256()
    with open(entry.path, "rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return f"file:{'x' if mode & stat.S_IXUSR else '-'}:{digest.hexdigest()}"


def restore_proof(start: Snapshot, end: Snapshot, *paths: str) -> Scored:
    """1 when the named files are at the end exactly as they were at the start, else 0 with what differs.

    Args:
        start: taken before the rollout.
        end: taken after it.
        paths: patterns as in `deletes`, meant from the snapshot's folder; none given means everything in it.

    Returns:
        The verdict. Files that came and are gone again, or were put back byte by byte, count as restored.

    Raises:
        InvalidArgument: a pattern that is none.

    Example:
        >>> a, b = Snapshot({"t.py": "file:-:1"}), Snapshot({"t.py": "file:-:2", "new": "folder"})
        >>> restore_proof(a, b, "t.py")
        Scored(value=0.0, evidence='not restored: changed t.py')
        >>> restore_proof(a, a).value
        1.0
    """
    patterns = Patterns(tuple(paths), Workspace(root="/"))
    found = start.changes(end)
    if paths:
        found = Changes(*(tuple(path for path in part if patterns.match(f"/{path}")) for part in _parts(found)))
    same = not any(_parts(found))
    return Scored(1.0, "restored: nothing differs") if same else Scored(0.0, f"not restored: {found}")


def _parts(changes: Changes) -> tuple[tuple[str, ...], ...]:
    return (changes.added, changes.removed, changes.changed)
