"""Patterns against paths, where either may be wild."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.rewards.shell import Workspace
from apportion.rewards.shell.marks import DEEP, STAR, UNKNOWN, globbing
from apportion.rewards.shell.matching import Patterns, fits, inside
from apportion.rewards.shell.state import State, join

LETTERS = st.text("ab.", max_size=5)


@pytest.mark.parametrize(
    ("pattern", "path", "answer"),
    [
        ("a.py", "/workspace/a.py", True),
        ("a.py", "/workspace/d/a.py", True),
        ("a.py", "/workspace/a.pyc", False),
        ("d/a.py", "/workspace/d/a.py", True),
        ("d/a.py", "/workspace/x/d/a.py", False),
        ("d/**/a.py", "/workspace/d/a.py", True),
        ("d/**/a.py", "/workspace/d/x/y/a.py", True),
        ("d/*.py", "/workspace/d/x/a.py", False),
        ("d", "/workspace/d/x", True),
        ("/etc/**", "/etc/passwd", True),
        ("d/**", f"/workspace/d/{STAR}", True),
        ("d/**", f"/workspace/d/{UNKNOWN}", None),
        ("d/**", f"/workspace/{UNKNOWN}", None),
        ("d/**", f"/workspace/e/{STAR}", False),
        ("d/main.py", f"/workspace/{DEEP}main.py", True),
        ("d/a.py", f"{UNKNOWN}/b.py", False),
    ],
)
def test_match(pattern: str, path: str, answer: bool | None) -> None:
    assert Patterns((pattern,), Workspace()).match(path) is answer


@given(st.text("ab*?", max_size=6), LETTERS)
def test_fits_is_fnmatch(pattern: str, name: str) -> None:
    assert fits(globbing(pattern), name) is fnmatchcase(name, pattern)


@given(LETTERS, st.text("ab/.", max_size=8))
def test_a_joined_path_has_no_dots_left(folder: str, word: str) -> None:
    path = join(f"/{folder.strip('.')}", word)
    assert path.startswith("/")
    assert not {"", ".", ".."} & set(path.split("/")[1:]) or path == "/"


def test_inside() -> None:
    assert inside("/w/a", "/w") is True
    assert inside("/wa", "/w") is False
    assert inside(f"/w/{STAR}", "/w") is True
    assert inside(f"/{STAR}", "/w") is False
    assert inside(UNKNOWN, "/w") is None


def test_links_are_followed_and_circles_end() -> None:
    state = State(Workspace())
    state.link("/workspace/l", "/srv")
    assert state.resolve("l/x") == "/srv/x"
    assert state.resolve("l", last=False) == "/workspace/l"
    state.link("/workspace/a", "/workspace/b")
    state.link("/workspace/b", "/workspace/a")
    assert state.resolve("a/x") == UNKNOWN
