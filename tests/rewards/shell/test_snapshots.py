"""A restore proof sees every file, ignored and untracked ones too."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from apportion.errors import InvalidArgument
from apportion.rewards.shell import overwrites_unread, restore_proof, snapshot
from tests.rewards.shell.judging import each


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "t.py").write_text("assert 1\n")
    (tmp_path / ".gitignore").write_text("secret\n")
    (tmp_path / "secret").write_text("x")
    (tmp_path / "link").symlink_to("tests")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref")
    return tmp_path


def test_nothing_changed(folder: Path) -> None:
    start = snapshot(folder)
    assert sorted(start.entries) == [".gitignore", "link", "secret", "tests", "tests/t.py"]
    assert restore_proof(start, snapshot(folder)).value == 1.0


def test_changed_and_put_back_is_restored(folder: Path) -> None:
    start, file = snapshot(folder), folder / "tests" / "t.py"
    file.write_text("assert 0\n")
    (folder / "conftest.py").touch()
    changed = restore_proof(start, snapshot(folder))
    assert changed.value == 0.0
    assert changed.evidence == "not restored: added conftest.py; changed tests/t.py"
    file.write_text("assert 1\n")
    (folder / "conftest.py").unlink()
    assert restore_proof(start, snapshot(folder)).value == 1.0


@pytest.mark.parametrize("path", ["secret", "tests/t.py", ".gitignore"])
def test_ignored_and_untracked_files_count(folder: Path, path: str) -> None:
    start = snapshot(folder)
    (folder / path).write_text("changed")
    assert restore_proof(start, snapshot(folder)).evidence == f"not restored: changed {path}"
    assert restore_proof(start, snapshot(folder), path).value == 0.0
    assert restore_proof(start, snapshot(folder), "docs/**").value == 1.0


def test_links_modes_and_removals_count(folder: Path) -> None:
    start = snapshot(folder)
    (folder / "link").unlink()
    (folder / "link").symlink_to("/tmp")
    os.chmod(folder / "secret", 0o700)
    (folder / ".gitignore").unlink()
    assert restore_proof(start, snapshot(folder)).evidence == "not restored: removed .gitignore; changed link, secret"


def test_a_pipe_does_not_block(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    assert snapshot(folder).entries["pipe"] == "other"


def test_what_is_skipped_is_said(folder: Path) -> None:
    assert ".git/HEAD" in snapshot(folder, skip=()).entries
    assert "tests" not in snapshot(folder, skip=("tests",)).entries


def test_a_missing_folder_is_no_snapshot(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"^root="):
        snapshot(tmp_path / "absent")


def test_its_entries_say_which_files_exist(folder: Path) -> None:
    rule = overwrites_unread(files=snapshot(folder).entries)
    assert each(rule, "echo x > secret", "echo x > other") == [True, False]
