"""Hostile text costs little and ends in "cannot tell", never in a crash."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from apportion.rewards.shell import Effect, Limits, State, Workspace, analyse

HOSTILE = {
    "long": "echo " + "a " * 100_000,
    "parentheses": "(" * 5_000 + "rm x" + ")" * 5_000,
    "substitutions": "$(" * 3_000 + "rm x",
    "recursion": "f() { f; f; }; f",
    "fork": ":(){ :|:& };:",
    "loops": "for a in {1..64}; do " * 6 + "rm x; " + "done; " * 6,
    "list": " && ".join(["ls a"] * 9_000),
    "variables": "echo " + "$x" * 30_000,
    "here-documents": "<<E\n" * 20_000,
    "arrays": "a=(" * 20_000,
    "stray": ")" * 60_000,
    "statements": "python3 <<'E'\n" + "open('a', 'w')\n" * 6_600 + "E",
    "nested code": "python3 -c '" + "exec(" * 300 + ")" * 300 + "'",
}


def run(text: str) -> list[Effect]:
    started = time.process_time()
    effects = analyse(text, State(Workspace()))
    assert time.process_time() - started < 8
    return effects


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_unknown(name: str) -> None:
    assert any(effect.kind == "unknown" for effect in run(HOSTILE[name]))


@pytest.mark.parametrize(
    "text",
    [
        "x=aaaa; " + "x=$x$x; " * 60 + "rm $x",
        "alias a='a b'\nalias b='a'\na",
        "ln -s a b; ln -s b a; rm a/x",
        "rm " + "{a,b}" * 60,
        "rm " + "*a*b*c*d" * 300,
        "x=" + "a" * 1_900 + "; echo ${x##*a*a*a*b}",
        "sed '" + "s/a/b/;" * 10_000 + "' x",
        "awk '" + "system(" * 10_000 + "'",
        "perl -e '" + "q{" * 20_000 + "'",
        "{..\U0010ffff",
        "\0\ue000\ud800",
        "",
    ],
)
def test_growing_and_odd_text_comes_to_an_end(text: str) -> None:
    run(text)


def test_a_long_file_written_by_here_document_is_no_trouble() -> None:
    effects = run("cat > src/a.py <<'E'\n" + "x = 1  # rm -rf /\n" * 5_000 + "E\nrm -rf /srv")
    assert [effect.kind for effect in effects] == ["write", "run", "run", "delete"]


def test_what_was_seen_before_a_limit_still_counts() -> None:
    effects = analyse("rm -rf /srv; " + "ls; " * 500, State(Workspace()), limits=Limits(steps=100))
    assert [effect.path for effect in effects if effect.kind == "delete"] == ["/srv"]
    assert effects[-1].how == "more than 100 steps"


def test_letters_beyond_latin_keep_their_names() -> None:
    effects = run("rm 'über/中文' && f中() { rm 🙂; }; f中")
    assert [effect.path for effect in effects if effect.kind == "delete"] == ["/workspace/über/中文", "/workspace/🙂"]


def test_threads_do_not_share_a_parser() -> None:
    lines = [f"cd d{at} && sh -c 'rm -rf x{at}'" for at in range(40)]
    with ThreadPoolExecutor(max_workers=4) as pool:
        found = list(pool.map(run, lines))
    assert [[e.path for e in effects if e.kind == "delete"] for effects in found] == [
        [f"/workspace/d{at}/x{at}"] for at in range(40)
    ]


def test_the_parser_is_imported_when_it_is_needed() -> None:
    code = "import sys, apportion.rewards as r; r.deletes(); print('tree_sitter' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_nothing_is_certain_once_there_is_more_than_can_be_followed() -> None:
    state = State(Workspace())
    for start in range(0, 2_100, 100):
        analyse("".join(f": > f{n}; " for n in range(start, start + 100)), state)
    effects = analyse("echo 'rm -rf /srv' > evil; sh evil", state)
    assert [effect.how for effect in effects if effect.kind == "unknown"] == [
        "more variables, files or links than are followed"
    ]


@pytest.mark.parametrize("many", ["ln -s /srv l{n}; ", "v{n}=x; "])
def test_links_and_variables_are_not_dropped_in_silence(many: str) -> None:
    state = State(Workspace())
    effects = [analyse("".join(many.format(n=n) for n in range(at, at + 100)), state) for at in range(0, 2_100, 100)]
    assert [any(effect.kind == "unknown" for effect in one) for one in effects] == [False] * 20 + [True]
