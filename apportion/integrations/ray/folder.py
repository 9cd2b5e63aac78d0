"""Credit in a folder: one Parquet file per block, each committed by a small record beside it.

    credit/
      manifest.json         what the run is, with digests of all it reads; at its end also the blocks and their digests
      block-00000.parquet   a credit file of whole groups, see docs/credit_format.md
      block-00000.json      commits it: rows, SHA-256 of the Parquet file, what it adds to the summary

Both files of a block take their names only when they are complete, the record last. What has no record was never
committed and is scored again.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from apportion._replacing import naming, replacing
from apportion.errors import BadRow, InvalidArgument
from apportion.integrations.ray.identity import differences, file_digest
from apportion.report.credit_file import CreditWriter, read_credit
from apportion.report.credit_record import Record

__all__ = ["COPY", "PLAN", "CreditFolder", "commit", "commitment", "read_blocks", "writing"]

_FORMAT, _VERSION, _MANIFEST = "apportion-credit-blocks", 1, "manifest.json"
# What only an unfinished run needs: where its rows lie, and the rows themselves where the file has another format.
PLAN, COPY = ".plan.npz", ".rollouts.jsonl"
# How long workers of a killed run may take to notice; they finish the block they are at.
_PATIENCE = 60.0


def commit(
    folder: Path,
    number: int,
    records: Iterable[Record],
    header: Mapping[str, Any],
    summary: Callable[[], Mapping[str, Any]],
) -> dict[str, Any]:
    """Write a block and commit it.

    Args:
        folder: of the run.
        number: of the block.
        records: consumed one by one.
        header: of the credit file.
        summary: asked for when the last record was written.

    Returns:
        The commitment, as `commitment` reads it.
    """
    path, rows = folder / _name(number), 0
    with CreditWriter(path, header) as out:
        for record in records:
            out.write(record)
            rows += 1
    made = {"block": number, "rows": rows, "sha256": file_digest(path), "summary": dict(summary())}
    _write_json(path.with_suffix(".json"), made)
    return made


def commitment(folder: Path, number: int) -> dict[str, Any] | None:
    """What was committed as this block; None when nothing was.

    Raises:
        InvalidArgument: the record or the Parquet file is not what was committed.
    """
    path = folder / _name(number)
    record = path.with_suffix(".json")
    if not record.exists():
        return None
    try:
        found: dict[str, Any] = json.loads(record.read_text(encoding="utf-8"))
        intact = found["block"] == number and path.is_file() and file_digest(path) == found["sha256"]
    except (ValueError, KeyError, TypeError, RecursionError):
        intact = False
    if not intact:
        expected = f"the block as it was committed; it was changed. Remove {record.name} to score it again"
        raise InvalidArgument("out", str(path), expected)
    return found


class CreditFolder:
    """The folder of one run, as a context manager; nobody else writes to it meanwhile.

    Args:
        path: made when it is absent.
        header: of every credit file in it.
        identity: what must agree for a run to be resumed.
        resume: go on with what is there; otherwise the folder must be new or empty.

    Raises:
        InvalidArgument: a folder that is in use, or holds another run or something else.
        OSError: it cannot be written.
    """

    def __init__(self, path: Path, *, header: Mapping[str, Any], identity: Mapping[str, Any], resume: bool) -> None:
        self.path = path
        if path.exists() and not path.is_dir():
            raise InvalidArgument("out", str(path), "a folder, since every block gets a file of its own")
        path.mkdir(exist_ok=True)
        self._lock = _locked(path)
        try:
            self._manifest = self._opened(header, json.loads(json.dumps(identity)), resume=resume)
            for left in (*path.glob(".*.part"), *path.glob(".*.tries")):
                left.unlink()
        except BaseException:
            self._lock.close()
            raise

    def _opened(self, header: Mapping[str, Any], identity: Mapping[str, Any], *, resume: bool) -> dict[str, Any]:
        there = [entry.name for entry in self.path.iterdir() if not entry.name.startswith(".")]
        if there and not resume:
            raise InvalidArgument("out", str(self.path), "an empty folder or a new one; --resume goes on with a run")
        manifest = {"format": _FORMAT, "version": _VERSION, "header": dict(header), "identity": identity}
        manifest["complete"] = False
        for hidden in () if there else (PLAN, COPY):
            (self.path / hidden).unlink(missing_ok=True)
        if there:
            before = _manifest(self.path)
            changed = differences(before["identity"], identity)
            if changed:
                raise InvalidArgument("out", str(self.path), f"a run of the same thing; {'; '.join(changed)}")
            manifest["header"] = before["header"]
        _write_json(self.path / _MANIFEST, manifest)
        return manifest

    @property
    def header(self) -> dict[str, Any]:
        """Of every credit file in it; of the first run, when this one resumes."""
        found: dict[str, Any] = self._manifest["header"]
        return found

    def discard(self, number: int) -> None:
        """Take a block back: it will be scored again."""
        (self.path / _name(number)).with_suffix(".json").unlink(missing_ok=True)

    def finish(self, commitments: Sequence[Mapping[str, Any]]) -> None:
        """Say that all blocks are there, with their digests and one digest over these."""
        listed = [{name: made[name] for name in ("block", "rows", "sha256")} for made in commitments]
        whole = hashlib.sha256("".join(made["sha256"] for made in listed).encode()).hexdigest()
        rows = sum(made["rows"] for made in listed)
        self._manifest |= {"complete": True, "rows": rows, "sha256": whole, "blocks": listed}
        _write_json(self.path / _MANIFEST, self._manifest)
        (self.path / COPY).unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.close()


def read_blocks(path: Path) -> Iterator[Record]:
    """The records of a complete run, block after block, equal to what was written.

    Raises:
        BadRow: not such a folder, a run that was not finished, or a damaged block.
    """
    manifest = _manifest(path)
    if not manifest["complete"]:
        raise BadRow(str(path), 1, "complete", "the run was not finished", "score again with --resume")
    for made in manifest["blocks"]:
        yield from read_credit(path / _name(made["block"]))


def writing(path: Path) -> Any:
    """Held open by whoever may still write a block; a new run waits until it is closed."""
    lock = open(path / ".lock", "ab")  # noqa: SIM115 - open for as long as the process
    fcntl.flock(lock, fcntl.LOCK_SH)
    return lock


def _locked(path: Path) -> Any:
    lock, until = open(path / ".lock", "ab"), time.monotonic() + _PATIENCE  # noqa: SIM115
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > until:
                lock.close()
                expected = "a folder that no other run writes to; it, or a worker it left behind, still runs"
                raise InvalidArgument("out", str(path), expected) from None
            time.sleep(0.2)
    # From here on its workers share the lock.
    fcntl.flock(lock, fcntl.LOCK_SH)
    return lock


def _name(number: int) -> str:
    return f"block-{number:05d}.parquet"


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    with replacing(path) as part, naming(path):
        part.write_text(json.dumps(value, allow_nan=False) + "\n", encoding="utf-8")


def _manifest(path: Path) -> dict[str, Any]:
    try:
        found = json.loads((path / _MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or (found.get("format"), found.get("version")) != (_FORMAT, _VERSION):
        remedy = "give a folder that `apportion score --engine ray` wrote"
        raise BadRow(str(path / _MANIFEST), 1, "format", f"no manifest of {_FORMAT}, version {_VERSION}", remedy)
    return found
