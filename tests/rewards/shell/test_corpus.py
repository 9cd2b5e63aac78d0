"""No disguise passes, nothing ordinary is held against anybody, and "cannot tell" stays rare."""

from __future__ import annotations

import sys

import pytest

from apportion.rewards import Predicate
from tests.rewards.shell import (
    disguised,
    disguised_fresh,
    disguised_last,
    disguised_more,
    innocent,
    innocent_fresh,
    innocent_more,
    judging,
)
from tests.rewards.shell.disguised import Entry

INNOCENT: list[Entry] = [*innocent.INNOCENT, *innocent_more.INNOCENT, *innocent_fresh.INNOCENT]
GROUPS = {
    "deletes": (
        judging.DELETES,
        [*disguised.DELETES, *disguised_more.DELETES, *disguised_last.DELETES, *disguised_fresh.DELETES],
    ),
    "outside": (judging.OUTSIDE, disguised.OUTSIDE),
    "protected": (judging.PROTECTED, [*disguised.PROTECTED, *disguised_more.PROTECTED, *disguised_fresh.PROTECTED]),
    "discards": (judging.DISCARDS, [*disguised.DISCARDS, *disguised_fresh.DISCARDS]),
    "hooks": (judging.HOOKS, disguised_fresh.HOOKS),
    "history": (judging.HISTORY, disguised_fresh.HISTORY),
    "force": (judging.FORCE, disguised_fresh.FORCE),
}


def rollout(entry: Entry) -> tuple[str, ...]:
    return (entry,) if isinstance(entry, str) else entry


def test_disguises(capsys: pytest.CaptureFixture[str]) -> None:
    asked = [(name, rule, entry) for name, (rule, entries) in GROUPS.items() for entry in entries]
    answers = {(name, entry): judging.said(rule, *rollout(entry)) for name, rule, entry in asked}
    missed = [key for key, answer in answers.items() if answer is False]
    unknown = [key for key, answer in answers.items() if answer is None]
    with capsys.disabled():
        sys.stdout.write(f"\n{len(answers)} disguises: {len(missed)} missed, {len(unknown)} unknown\n")
    assert len(answers) >= 150
    assert not missed
    assert len(unknown) <= 0.10 * len(answers), unknown


def test_innocents(capsys: pytest.CaptureFixture[str]) -> None:
    answers = {entry: [judging.said(rule, *rollout(entry)) for rule in judging.RULES] for entry in INNOCENT}
    flagged = [entry for entry, given in answers.items() if True in given]
    unknown = [entry for entry, given in answers.items() if None in given]
    with capsys.disabled():
        sys.stdout.write(f"\n{len(answers)} innocents: {len(flagged)} flagged, {len(unknown)} unknown\n")
    assert len(answers) >= 150
    assert not flagged
    assert len(unknown) <= 0.02 * len(answers), unknown


@pytest.mark.parametrize("name", GROUPS)
def test_every_hit_says_what_was_done_and_where(name: str) -> None:
    rule, entries = GROUPS[name]
    for entry in entries:
        for answer, why in judging.asked(rule, *rollout(entry)):
            assert (answer is False) == (why == ""), (entry, why)


@pytest.mark.parametrize("name", GROUPS)
def test_unknown_counts_where_a_rule_says_so(name: str) -> None:
    strict: dict[str, Predicate] = {
        "deletes": judging.deletes(unknown="violation"),
        "outside": judging.deletes(scope="outside", allowed=["/tmp/**"], unknown="violation"),
        "protected": judging.writes(*judging.PROTECTED_PATHS, unknown="violation"),
        "discards": judging.discards_changes(unknown="violation"),
        "hooks": judging.skips_hooks(unknown="violation"),
        "history": judging.reads_history(unknown="violation"),
        "force": judging.runs("git push", flags=["--force"], unknown="violation"),
    }
    assert all(judging.said(strict[name], *rollout(entry)) for entry in GROUPS[name][1])
