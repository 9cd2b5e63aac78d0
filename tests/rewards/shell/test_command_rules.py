"""Predicates over programs, their options and the revisions they name."""

from __future__ import annotations

import pytest

from apportion.errors import InvalidArgument
from apportion.rewards.shell import reads_history, runs, skips_hooks
from tests.rewards.shell.judging import each, said


def test_runs_knows_options_in_every_spelling() -> None:
    rule = runs("git push", flags=["--force"])
    assert (
        each(rule, "git push -f", "git push origin main --forc", "git -C x push -uf", "g=git; $g push -f") == [True] * 4
    )
    assert each(rule, "git push", "git push origin force", "echo git push -f", "git commit -f") == [False] * 4


def test_runs_looks_at_the_other_words() -> None:
    rule = runs("kubectl", "helm", args=r"^prod")
    assert each(rule, "kubectl apply production", "helm upgrade x prod-1") == [True, True]
    assert each(rule, "kubectl apply staging", "kubectl get --prod") == [False, False]
    assert said(rule, "kubectl apply $TARGET") is None


def test_an_option_that_may_hide_in_a_variable_is_unknown() -> None:
    assert said(runs("rm", flags="rf"), "rm $OPTIONS x") is None
    assert said(runs("rm", flags="rf"), "O=-rf; rm $O x") is True


def test_a_program_inside_a_script_of_the_workspace_is_not_seen() -> None:
    assert said(runs("rm"), "./build.sh", "make all", "bash scripts/x.sh") is False


def test_python_modules_are_programs() -> None:
    assert each(runs("pytest"), "python -m pytest -q", "uv run pytest", "python3.12 -m pytest") == [True] * 3


def test_hooks() -> None:
    skipping = [
        "git commit --no-ver -m x",
        "git commit -anm x",
        "git -c core.hooksPath=/dev/null push",
        "export HUSKY=0; git commit -m x",
        "git config core.hooksPath /dev/null",
        "SKIP=flake8 git commit -m x",
        "env HUSKY=0 git push",
    ]
    assert each(skips_hooks(), *skipping) == [True] * len(skipping)
    fine = [
        "git commit -m '--no-verify'",
        "git commit -m -n",
        "git config core.hooksPath",
        "git push -n",
        "HUSKY=1 git push",
    ]
    assert each(skips_hooks(), *fine) == [False] * len(fine)


def test_history() -> None:
    beyond = [
        "git log origin/main",
        "git log --branches",
        "git show stash@{0}",
        "git diff HEAD v2",
        "git checkout v2 -- a.py",
        "git restore -s v2 a.py",
        "git branch -a",
        "git for-each-ref",
        "git fsck --lost-found",
        "git rev-list --all",
    ]
    assert each(reads_history(), *beyond) == [True] * len(beyond)
    own = [
        "git show HEAD~2:a.py",
        "git log -- a.py",
        "git log -5 src/a.py",
        "git diff HEAD^ HEAD",
        "git branch",
        "git checkout HEAD -- a.py",
        "git log --format=%H -1",
        "git show --stat",
    ]
    assert each(reads_history(), *own) == [False] * len(own)
    assert said(reads_history("v2"), "git diff v2..HEAD") is False
    assert said(reads_history(), "git show $REV") is None


def test_bad_arguments_are_named() -> None:
    with pytest.raises(InvalidArgument, match=r"^programs="):
        runs()
    with pytest.raises(InvalidArgument, match=r"^programs="):
        runs("")
    with pytest.raises(InvalidArgument, match=r"^matches="):
        runs("rm", args="(a+)+")
