"""The example of docs/planning.md runs as it is printed."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "planning.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)


def test_there_is_an_example() -> None:
    assert BLOCKS


@pytest.mark.parametrize("source", BLOCKS)
def test_example_runs(source: str) -> None:
    exec(compile(source, "planning.md", "exec"), {"__name__": "__docs__"})
