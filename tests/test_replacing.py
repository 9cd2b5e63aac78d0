"""A disk that fills up: the old file stays, nothing is left behind, and the error says which file it was."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from apportion.integrations.files import RolloutIndex, write
from apportion.recipes import load
from apportion.report.credit_file import CreditWriter
from apportion.report.scoring import write_state
from apportion.rollouts import Trajectory, Turn

MANY = [Trajectory(id=f"r{k}", group="q", turns=(Turn(text=f"{k:05}" * 20),)) for k in range(400)]


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """No file may grow beyond `size` bytes; the system says so as it would say that the disk is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def credit(path: Path) -> None:
    with CreditWriter(path, {"format": "apportion-credit"}) as out:
        for k in range(400):
            out.write({"id": f"{k:05}" * 20, **dict.fromkeys(("step", "status"), None)})


def state(path: Path) -> None:
    write_state(path, load("grpo"), {"text": "x" * 20_000})


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("rollouts.jsonl", lambda path: write(MANY, path)),
        ("rollouts.parquet", lambda path: write(MANY, path)),
        ("credit.jsonl", credit),
        ("state.json", state),
    ],
)
def test_the_old_file_stays_and_is_named(tmp_path: Path, name: str, make: Callable[[Path], object]) -> None:
    path = tmp_path / name
    path.write_text("old")
    with full_disk(4096), pytest.raises(OSError, match="Errno") as caught:
        make(path)
    assert caught.value.filename == str(path)
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("make", [lambda path: write(MANY, path), credit])
def test_a_folder_that_is_absent_is_named_and_not_the_temporary_file(
    tmp_path: Path, make: Callable[[Path], object]
) -> None:
    path = tmp_path / "absent" / "a.jsonl"
    with pytest.raises(FileNotFoundError) as caught:
        make(path)
    assert caught.value.filename == str(path)


def test_a_temporary_copy_without_room_says_where_it_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, spool = tmp_path / "a.jsonl.gz", tmp_path / "spool"
    spool.mkdir()
    write(MANY, source)
    monkeypatch.setattr("tempfile.tempdir", str(spool))
    with full_disk(4096), pytest.raises(OSError, match="TMPDIR") as caught:
        RolloutIndex(source)
    assert str(spool) in str(caught.value)


def test_what_the_rollouts_cannot_give_is_not_blamed_on_the_file_that_is_written(tmp_path: Path) -> None:
    def broken() -> Iterator[Trajectory]:
        yield MANY[0]
        raise OSError(5, "Input/output error")

    with pytest.raises(OSError, match="Input/output") as caught:
        write(broken(), tmp_path / "a.jsonl")
    assert caught.value.filename is None
