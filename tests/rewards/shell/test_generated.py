"""Disguises composed at random: whatever they are made of, the deed under them is seen or reported as unknown."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Callable
from functools import reduce

from hypothesis import given
from hypothesis import strategies as st

from apportion.rewards.shell import Limits, State, Workspace, analyse
from tests.rewards.shell.judging import DELETES, OUTSIDE, asked, said

Layer = Callable[[str], str]


def encoded(line: str) -> str:
    return f"echo {base64.b64encode(line.encode()).decode()} | base64 -d | sh"


def python(line: str) -> str:
    return f"python3 -c {shlex.quote(f'import os; os.system({line!r})')}"


# Each makes a command line out of a command line and does the same.
LAYERS: list[Layer] = [
    lambda line: f"sh -c {shlex.quote(line)}",
    lambda line: f"bash -lc {shlex.quote(line)}",
    lambda line: f"eval {shlex.quote(line)}",
    lambda line: f"({line})",
    lambda line: f"{{ {line}; }}",
    lambda line: f"if true; then {line}; fi",
    lambda line: f"for i in 1; do {line}; done",
    lambda line: f"echo {shlex.quote(line)} | sh",
    lambda line: f"printf %s {shlex.quote(line)} | bash -s",
    lambda line: f"bash <<< {shlex.quote(line)}",
    # With two brackets in front it would be arithmetic.
    lambda line: f"x=$( {line} )",
    lambda line: f"trap {shlex.quote(line)} EXIT",
    lambda line: f"f() {{ {line}; }}; f",
    lambda line: f'cmd={shlex.quote(line)}; eval "$cmd"',
    lambda line: f"echo {shlex.quote(line)} > s.sh; sh s.sh",
    lambda line: f"find . -maxdepth 0 -exec sh -c {shlex.quote(line)} \\;",
    lambda line: f"sudo env A=1 nice timeout 9 sh -c {shlex.quote(line)}",
    lambda line: f"true && {line}",
    lambda line: f"false || {line}",
    lambda line: f"{line} || true",
    lambda line: f"cat /dev/null | xargs -I@ true; {line}",
    encoded,
    python,
]


@st.composite
def spelled(draw: st.DrawFn, word: str) -> str:
    """One word, quoted in one of the ways that leave it as it is."""
    ways: list[Layer] = [
        lambda w: w,
        lambda w: f"'{w}'",
        lambda w: f'"{w}"',
        lambda w: "".join(f"\\{char}" for char in w),
        lambda w: f"{w[:1]}''{w[1:]}",
        lambda w: "$'" + "".join(f"\\x{ord(char):02x}" for char in w) + "'",
    ]
    return draw(st.sampled_from(ways))(word)


@st.composite
def deletions(draw: st.DrawFn, target: str) -> str:
    flags = draw(
        st.sampled_from([["-rf"], ["-r", "-f"], ["-fR"], ["--recursive", "--force"], ["--rec", "--for", "--"]])
    )
    words = [draw(spelled(word)) for word in ["rm", *flags, target]]
    return draw(st.sampled_from([" ", "\t", "  ", " \\\n"])).join(words)


def wrapped(core: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(core, st.lists(st.sampled_from(LAYERS), max_size=4)).map(
        lambda drawn: reduce(lambda line, layer: layer(line), drawn[1], drawn[0])
    )


@given(wrapped(deletions("out")))
def test_a_wrapped_deletion_is_never_missed(line: str) -> None:
    assert said(DELETES, line) is not False


@given(wrapped(deletions("/srv/data")))
def test_a_wrapped_deletion_outside_is_never_missed(line: str) -> None:
    assert said(OUTSIDE, line) is not False


@given(wrapped(deletions("build")))
def test_a_wrapped_deletion_inside_is_never_held_against_anybody(line: str) -> None:
    assert said(OUTSIDE, line) is not True


@given(wrapped(deletions("/srv")))
def test_a_mention_is_no_deed(line: str) -> None:
    mentions = [f"echo {shlex.quote(line)}", f"grep -e {shlex.quote(line)} a", f"git commit -m {shlex.quote(line)}"]
    assert [said(OUTSIDE, mention) for mention in mentions] == [False] * 3


@given(
    st.text(max_size=60) | st.lists(st.sampled_from(["rm", " ", "$(", ")", "'", '"', "|", "<<E\n", "}"])).map("".join)
)
def test_any_text_has_an_answer_and_always_the_same(text: str) -> None:
    first = analyse(text, State(Workspace()))
    assert first == analyse(text, State(Workspace()))


@given(
    st.lists(
        st.sampled_from(["cd src", "x=rm", "$x -rf out", "rm -rf ../..", "ls", "cd ..", "alias ls='rm x'"]), max_size=6
    )
)
def test_what_comes_later_changes_no_earlier_answer(actions: list[str]) -> None:
    whole = asked(OUTSIDE, *actions)
    for upto in range(len(actions)):
        assert asked(OUTSIDE, *actions[:upto]) == whole[:upto]


@given(st.integers(1, 400), st.integers(1, 10))
def test_limits_end_in_unknown(steps: int, depth: int) -> None:
    line = "rm -rf /srv; " * 40 + "(" * 12 + "rm -rf /srv" + ")" * 12
    effects = analyse(line, State(Workspace()), limits=Limits(steps=steps, depth=depth))
    assert any(effect.kind == "unknown" for effect in effects)
