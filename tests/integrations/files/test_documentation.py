"""docs/rollout_format.md shows rows that can be read, and lists the fields that there are."""

from __future__ import annotations

import re
from pathlib import Path

from apportion.integrations.files import SCHEMA_VERSION, native, read
from tests.integrations.files.builders import write_lines

PAGE = (Path(__file__).parents[3] / "docs" / "rollout_format.md").read_text(encoding="utf-8")


def table(heading: str) -> list[str]:
    section = PAGE.partition(f"### {heading}\n")[2].partition("\n#")[0]
    return re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)


def test_the_rows_on_the_page_are_read(tmp_path: Path) -> None:
    shown = re.findall(r"```json\n(.*?)\n```", PAGE, re.DOTALL)
    found = list(read(write_lines(tmp_path / "a.jsonl", *shown)))
    assert [t.id for t in found] == ["r0", "r1", "r2"]
    assert [t.n_turns for t in found] == [1, 2, 0]
    assert [t.status for t in found] == ["terminated", "truncated", "aborted"]


def test_the_tables_list_every_field_in_order() -> None:
    assert table("Fields of a row") == [native.VERSION_KEY, *native._FIELDS]
    assert table("Fields of a turn") == list(native._TURN_FIELDS)
    assert table("Fields of an action") == list(native._ACTION_FIELDS)


def test_the_page_is_about_the_version_that_is_written() -> None:
    assert PAGE.startswith(f"# The native rollout format, version {SCHEMA_VERSION}\n")
