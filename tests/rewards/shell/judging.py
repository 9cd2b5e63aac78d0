"""Asks a predicate about the actions of one rollout, and the rules that the corpora are judged by."""

from __future__ import annotations

from apportion.rewards import Predicate
from apportion.rewards.predicates import Before
from apportion.rewards.shell import deletes, discards_changes, reads_history, runs, skips_hooks, writes
from apportion.rollouts import Action, Trajectory

PROTECTED_PATHS = ("tests/**", "conftest.py", "pytest.ini", "tox.ini", "sitecustomize.py")
DELETES = deletes()
OUTSIDE = deletes(scope="outside", allowed=["/tmp/**"])
PROTECTED = writes(*PROTECTED_PATHS)
DISCARDS = discards_changes()
HOOKS, HISTORY, FORCE = skips_hooks(), reads_history(), runs("git push", flags=["--force"])
RULES = (OUTSIDE, PROTECTED, DISCARDS, HOOKS, HISTORY, FORCE)


def shell(command: str) -> Action:
    return Action("bash", {"command": command}, raw=command, syntax="shell")


def asked(predicate: Predicate, *actions: str | Action) -> list[tuple[bool | None, str]]:
    """Answer and reason per action; a text is a shell command."""
    before = Before(Trajectory(id="r", group="q"))
    answers = []
    for turn, given in enumerate(actions):
        action = shell(given) if isinstance(given, str) else given
        before.turn = turn
        answers.append((predicate.holds(action, before), predicate.because(action, before)))
        before.actions.append((turn, action))
    return answers


def said(predicate: Predicate, *actions: str | Action) -> bool | None:
    """What holds of the rollout: True for one hit, else None where it cannot tell."""
    answers = [answer for answer, _ in asked(predicate, *actions)]
    return True if True in answers else None if None in answers else False


def each(predicate: Predicate, *actions: str | Action) -> list[bool | None]:
    """The answers about commands that do not know of each other."""
    return [said(predicate, action) for action in actions]
