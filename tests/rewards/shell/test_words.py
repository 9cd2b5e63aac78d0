"""What a word becomes: quotes, variables, substitutions, braces, globs."""

from __future__ import annotations

import pytest

from apportion.rewards.shell import State, Workspace, analyse
from apportion.rewards.shell.marks import plain
from apportion.rewards.shell.words import ansi, braces


def argv(line: str) -> list[str]:
    """The words of the last command, as it would run."""
    ran = [effect for effect in analyse(line, State(Workspace())) if effect.kind == "run"]
    return [plain(word) for word in ran[-1].argv]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("p a\\ b 'c d' \"e f\" g''h", ["a b", "c d", "e f", "gh"]),
        ("p '' \"\" \"$unset\"", ["", "", "…"]),
        ("x='a b'; p $x \"$x\" '$x' \\$x", ["a", "b", "a b", "$x", "$x"]),
        ("x=; p a $x b", ["a", "b"]),
        ("p $'\\t\\x41\\101\\u0041'", ["\tAAA"]),
        ("p {a,b}{1..3}", ["a1", "a2", "a3", "b1", "b2", "b3"]),
        ("p x{,.bak} '{a,b}' {a} \\{a,b}", ["x", "x.bak", "{a,b}", "{a}", "{a,b}"]),
        ("p {c..a} {3..1}", ["a", "b", "c", "3", "2", "1"]),
        ("p *.py '*.py' [ab]?", ["*.py", "*.py", "[ab]?"]),
        ("p $(echo a b) \"$(echo a b)\" `echo c`", ["a", "b", "a b", "c"]),
        ("a=(x 'y z'); p ${a[1]} \"${a[@]}\" ${#a[@]}x", ["y", "z", "x", "y z", "2x"]),
        ("f() { p \"$@\" $# $1; }; f 'a b' c", ["a b", "c", "2", "a", "b"]),
        ("x=src/a.py; p ${x%.py} ${x##*/} ${x#*/} ${x%%/*} ${x/a/b} ${x:4} ${x:0:3} ${#x}",
         ["src/a", "a.py", "a.py", "src", "src/b.py", "a.py", "src", "8"]),
        ("x=ab; p ${x^^} ${x^} ${y:-d} ${x:+s} ${x:-d} ${y:=e} $y", ["AB", "Ab", "d", "s", "ab", "e", "e"]),
        ("n=x; x=v; p ${!n}", ["v"]),
        ("p $((1 + 2)) $HOME $PWD", ["…", "/root", "/workspace"]),
        ("IFS=:; x=a:b; p $x", ["a", "b"]),
        ("x=1; x=2 true; p $x", ["1"]),
        ("x=1; (x=2); p $x", ["1"]),
        ("if a; then x=1; else x=2; fi; p $x", ["…"]),
        ("x=1; while a; do x=2; done; p $x", ["…"]),
        ("read a b <<< 'x y z'; p $a $b", ["x", "y", "z"]),
        ("p $(printf '%s-%d\\n' a 1 b 2)", ["a-1", "b-2"]),
        ("p $(echo abc | tr a-c x-z | rev)", ["zyx"]),
        ("p $(basename src/a.py .py) $(dirname src/a.py) $(seq 2)", ["a", "src", "1", "2"]),
    ],
)  # fmt: skip
def test_words(line: str, words: list[str]) -> None:
    assert argv(line) == ["p", *words]


def test_escapes() -> None:
    assert ansi(r"\e\\\'\0101\U1F600") == "\x1b\\'A\ufffd"


def test_braces_stop_at_a_limit() -> None:
    word = "\ue004a\ue005b\ue006" * 20
    assert len(braces(word, 16)) <= 17
    assert braces(word, 16)[-1] == "\0"
