"""A file that appears under its name only when it is complete, and errors that say which file it was."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["naming", "replacing"]


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """The path of a temporary neighbour of `target`, which takes its place when the block ends well.

    Otherwise `target` stays as it was and the neighbour is removed.

    Raises:
        OSError: the file cannot be written; it names `target`, since nobody has heard of the neighbour.

    Example:
        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp(), "a.txt")
        >>> with replacing(target) as part:
        ...     _ = part.write_text("whole")
        >>> target.read_text(), [path.name for path in target.parent.iterdir()]
        ('whole', ['a.txt'])
    """
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        yield part
        os.replace(part, target)
    except OSError as error:
        if error.filename is not None and os.fspath(error.filename) == os.fspath(part):
            error.filename, error.filename2 = str(target), None
        raise
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """What is written inside goes to `path`: the error of a full disk, which knows no name, gets this one.

    Example:
        >>> with naming("credit.jsonl"):
        ...     raise OSError(28, "No space left on device")
        Traceback (most recent call last):
            ...
        OSError: [Errno 28] No space left on device: 'credit.jsonl'
    """
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = os.fspath(path)
        raise
