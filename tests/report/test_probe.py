"""Planted groups: dead and restored by a rule, dead and out of reach, alive, too small; and the numbers behind it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import InvalidArgument, MissingInput
from apportion.report.probe import Probe, Probed, interval, probe
from apportion.rewards import Rule, before, called, path
from apportion.rollouts import Trajectory, Turn
from tests.rewards.builders import call

RULES = path(
    [
        before(called("read"), called("edit"), name="read_first"),
        Rule(name="no_rm", violates=called("rm"), unpaired="for the test"),
    ]
)


def attempt(id: str, group: str, reward: float | None, *calls: str, **fields: Any) -> Trajectory:
    turns = tuple(Turn(text="x", actions=(call(name),)) for name in calls)
    columns = {"reward": reward, **fields.pop("columns", {})}
    return Trajectory(id=f"{group}/{id}", group=group, turns=turns, columns=columns, **fields)


def group(name: str, rewards: Sequence[float | None], *calls: Sequence[str]) -> list[Trajectory]:
    return [attempt(str(at), name, reward, *calls[at % len(calls)]) for at, reward in enumerate(rewards)]


ROLLOUTS = [
    *group("careful", [0, 0, 0], ["read", "edit"], ["edit", "read"], ["look", "look"]),
    *group("alike", [0, 0], ["read", "edit"]),
    *group("deletes", [1, 1], ["look", "look"], ["look", "rm"]),
    *group("mixed", [0, 1], ["edit"], ["read", "edit"]),
    *group("alone", [1], ["edit"]),
    *group("unknown", [None, None], ["edit"]),
]


def by_name(found: Probe) -> Mapping[str, Probed]:
    return {signal.name: signal for signal in found.signals}


def test_planted_groups_are_told_apart() -> None:
    found = probe(ROLLOUTS, rules=RULES)
    assert (found.rollouts, found.groups, found.dead, found.restored) == (12, 6, 3, 2)
    assert [(task.group, task.kind, task.restored_by) for task in found.tasks] == [
        ("alike", "all-fail", ()),
        ("careful", "all-fail", ("violations", "fulfilments", "rule read_first")),
        ("deletes", "all-pass", ("violations", "rule no_rm")),
    ]
    signals = by_name(found)
    counts = {name: (signal.varies, signal.data, signal.advice) for name, signal in signals.items()}
    assert counts == {
        "violations": (2, 3, "exempt"),
        "fulfilments": (1, 3, "likely"),
        "rule read_first": (1, 3, "likely"),
        "rule no_rm": (1, 3, "likely"),
        "turns": (0, 3, "size only"),
        "characters": (0, 3, "size only"),
    }
    assert signals["fulfilments"].share == pytest.approx(1 / 3)
    assert (signals["fulfilments"].low, signals["fulfilments"].high) == interval(1, 3)
    assert [signal.role for signal in found.signals][-2:] == ["size", "size"]


def test_agreement_with_the_outcome_is_told_where_both_vary() -> None:
    signals = by_name(probe(ROLLOUTS, rules=RULES))
    assert signals["fulfilments"].correlation == pytest.approx(1.0)
    assert signals["violations"].correlation == pytest.approx(-1.0)
    assert signals["rule no_rm"].correlation is None


def test_nothing_varies_is_said_plainly() -> None:
    found = probe(group("q", [0, 0, 0], ["look"]), rules=RULES)
    assert {signal.advice for signal in found.signals if signal.role != "size"} == {"not reachable"}
    assert found.restored == 0
    assert found.tasks[0].restored_by == ()


def test_length_restores_nothing() -> None:
    found = probe(group("q", [0, 0], ["look"], ["look", "look"]))
    assert (by_name(found)["turns"].varies, found.restored) == (1, 0)


def test_columns_and_what_turns_record() -> None:
    rows = [
        Trajectory(
            id=str(at),
            group="q",
            turns=(Turn(reward=0.5, columns={"passed": at, "note": "x"}), Turn(columns={"passed": True})),
            columns={"reward": 0, "scores": {"format": at / 2, "tone": 1}, "trial": at, "odd": at},
        )
        for at in range(2)
    ]
    names = {name: signal.varies for name, signal in by_name(probe(rows)).items() if signal.role == "partial"}
    assert names == {"scores.format": 1, "scores.tone": 0, "turn rewards": 0, "turns' passed": 1}
    assert probe(rows).unprobed == ("trial", "odd")
    chosen = probe(rows, columns=["odd", "scores.tone"])
    assert [signal.name for signal in chosen.signals if signal.role == "partial"] == [
        "odd",
        "turn rewards",
        "scores.tone",
    ]
    assert by_name(probe(rows, columns=["passed"]))["turns' passed"].varies == 1
    with pytest.raises(InvalidArgument, match=r"\['absent'\].*there are reward, scores, trial, odd"):
        probe(rows, columns=["absent", "odd"])


def test_what_is_missing_or_aborted_says_nothing() -> None:
    rows = [
        attempt("0", "q", 0, columns={"score": 1.0}),
        attempt("1", "q", 0, columns={"score": None}),
        attempt("2", "q", None, columns={"score": 2.0}, status="aborted", error="lost"),
    ]
    score = by_name(probe(rows))["score"]
    assert (score.data, score.varies, score.share, score.low, score.advice) == (0, 0, None, None, "no data")
    later = by_name(probe([*rows, attempt("3", "q", None, columns={"score": 3.0})]))["score"]
    assert (later.data, later.varies) == (1, 1)


@pytest.mark.parametrize(
    ("varying", "groups", "gate", "advice"),
    [(20, 20, 0.2, "use"), (1, 1, 0.2, "likely"), (1, 10, 0.2, "unclear"), (1, 100, 0.2, "rare"), (1, 100, 0.0, "use")],
)
def test_the_advice_has_a_number_behind_it(varying: int, groups: int, gate: float, advice: str) -> None:
    rows = [
        attempt(str(side), str(at), 0, columns={"score": side if at < varying else 0})
        for at in range(groups)
        for side in range(2)
    ]
    assert by_name(probe(rows, gate=gate))["score"].advice == advice


def test_the_same_prompt_at_another_step_is_another_group() -> None:
    rows = [attempt(str(step), "q", 0, columns={"score": step}, step=step) for step in range(2)]
    assert probe(rows).kinds["singleton"] == 2


def test_it_is_plain_data_and_works_on_nothing() -> None:
    empty = probe([])
    assert (empty.rollouts, empty.groups, empty.tasks) == (0, 0, ())
    assert {signal.advice for signal in empty.signals} == {"no data"}
    json.dumps(asdict(probe(ROLLOUTS, rules=RULES)), allow_nan=False)


def test_arguments_are_checked() -> None:
    with pytest.raises(InvalidArgument, match="gate"):
        probe([], gate=1.5)
    with pytest.raises(MissingInput, match="table of turns"):
        probe([Trajectory(id="r", group="q", response_ids=[1])], rules=RULES)  # type: ignore[arg-type]


@given(
    st.integers(0, 200).flatmap(lambda of: st.tuples(st.integers(0, of), st.just(of))).filter(lambda pair: pair[1] > 0)
)
def test_the_interval_holds_the_share(pair: tuple[int, int]) -> None:
    count, of = pair
    low, high = interval(count, of)
    assert 0 <= low <= count / of <= high <= 1
    other_low, other_high = interval(of - count, of)
    assert (low, high) == pytest.approx((1 - other_high, 1 - other_low))
