"""The README's Python examples run as they are printed."""

import re
from pathlib import Path

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)


def test_there_is_an_example() -> None:
    assert BLOCKS


@pytest.mark.parametrize("source", BLOCKS)
def test_example_runs(source: str) -> None:
    exec(compile(source, "README.md", "exec"), {"__name__": "__readme__"})
