"""What an audit counts.

`rollouts("10-")` is one group, one rollout per character: 1 pass, 0 fail, - no verdict, t truncated and failed,
T truncated and passed, a aborted.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import InvalidArgument
from apportion.report.diagnostics import Audit, audit
from apportion.report.findings import SEVERITIES, Finding
from apportion.report.groups import KINDS
from apportion.report.table import collect
from apportion.rollouts import Trajectory, Turn

REWARDS = {"1": 1.0, "0": 0.0, "-": None, "t": 0.0, "T": 1.0, "a": None}
STATUSES = {"t": "truncated", "T": "truncated", "a": "aborted"}


def rollouts(*groups: str, step: int | None = None, first: int = 0) -> list[Trajectory]:
    return [
        Trajectory(
            id=f"s{step}/q{g}/{i}",
            group=f"q{g}",
            step=step,
            prompt_ids=[g],
            response_ids=[g, i, first],
            status=STATUSES.get(mark, "terminated"),  # type: ignore[arg-type]
            error="sandbox lost" if mark == "a" else None,
            columns={"reward": REWARDS[mark]},
        )
        for g, marks in enumerate(groups, first)
        for i, mark in enumerate(marks)
    ]


def valued(values: Iterable[Any], group: str = "q", **columns: Sequence[Any]) -> list[Trajectory]:
    return [
        Trajectory(
            id=f"{group}/{i}",
            group=group,
            response_ids=[i],
            columns={"reward": value, **{name: column[i] for name, column in columns.items()}},
        )
        for i, value in enumerate(values)
    ]


def found(result: Audit, code: str) -> Finding:
    (one,) = [finding for finding in result.findings if finding.code == code]
    return one


def codes(result: Audit) -> set[str]:
    return {finding.code for finding in result.findings}


def test_every_kind_of_group() -> None:
    rows = [
        *rollouts("0101", "0000", "1111", "1", "----", "1-"),
        *valued([0.4, 0.4, 0.4], group="flat"),
    ]
    result = audit(rows)
    assert result.kinds == {
        "mixed": 1,
        "all-pass": 1,
        "all-fail": 1,
        "constant": 1,
        "singleton": 2,
        "unknown": 1,
    }
    assert result.dead_share == pytest.approx(6 / 7)
    assert result.effective_n == pytest.approx((4 + 4 + 4 + 1 + 0 + 1 + 3) / 7)
    assert found(result, "effective-n").examples == ("q4", "q5")


@pytest.mark.parametrize(
    ("rewards", "kind", "mark"),
    [
        ([0, 0], "all-fail", None),  # nobody passed
        ([1, 1], "all-pass", 1.0),
        ([-1, -1], "all-fail", None),
        ([0.1 + 0.2, 0.3], "all-pass", 0.1 + 0.2),  # equal but for rounding
        ([-1, 0], "mixed", 0.0),
        ([7], "singleton", 7.0),
        ([None], "unknown", None),
    ],
)
def test_kind_of_a_lone_group(rewards: list[float | None], kind: str, mark: float | None) -> None:
    result = audit(valued(rewards))
    assert [name for name, n in result.kinds.items() if n] == [kind]
    assert result.pass_mark == mark


def test_a_given_pass_mark_decides() -> None:
    rows = [*valued([0.8, 0.8], "a"), *valued([0.5, 0.5], "b"), *valued([0.2, 0.3], "c"), *valued([0.2, 0.2], "d")]
    kinds = audit(rows, pass_mark=0.75).kinds
    assert kinds == {"mixed": 1, "all-pass": 1, "all-fail": 1, "constant": 1, "singleton": 0, "unknown": 0}


def test_a_negative_zero_is_a_zero() -> None:
    rows = valued([-0.0] * 40, format_reward=[-0.0] * 40)
    result = audit([*rows, *valued([-0.0] * 2, "other", format_reward=[-0.0] * 2)])
    assert [str(value) for value in (result.reward_mean, result.reward_low, result.reward_high)] == ["0.0"] * 3
    assert not [finding for finding in result.findings if "-0" in finding.message]


def test_no_rollouts_is_an_error_and_no_number_is_invented() -> None:
    result = audit([])
    assert codes(result) == {"no-rollouts"}
    assert (result.reward_mean, result.pass_share, result.dead_share) == (None, None, None)


def test_means_leave_out_what_is_missing() -> None:
    values = [0.5, None, None, 0.8, 0.6, 0.7]
    result = audit(valued(values))
    assert (result.reward_known, result.reward_mean) == (4, pytest.approx(0.65))
    nothing = audit(valued([None, None]))
    assert (nothing.reward_known, nothing.reward_mean) == (0, None)


def test_a_reward_that_is_not_ready_is_missing_and_not_zero() -> None:
    result = audit(valued([1, 0, "timeout", 1, "timeout", 0, "timeout", 1]))
    assert (result.reward_known, result.reward_mean) == (5, pytest.approx(0.6))
    finding = found(result, "missing-verdicts")
    assert (finding.count, finding.examples) == (3, ("q/2", "q/4", "q/6"))
    assert "37.5%" in finding.message
    assert "timeout" in finding.message


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [1.0], {"reward": 1}, "1.0"])
def test_what_is_not_a_number_is_missing(value: object) -> None:
    assert audit(valued([value, 1.0])).reward_known == 1


def test_no_reward_anywhere_names_the_columns_there_are() -> None:
    rows = [Trajectory(id="a", group="g", response_ids=[1], columns={"resolved": True})]
    finding = found(audit(rows), "no-rewards")
    assert finding.severity == "error"
    assert "no column 'reward'" in finding.message
    assert "resolved" in finding.advice
    assert audit(rows, reward_field="resolved").reward_mean == 1.0


def test_a_stub_that_always_says_zero_raises_the_alarm() -> None:
    result = audit(rollouts(*["0000"] * 50))
    finding = found(result, "constant-reward")
    assert (finding.severity, finding.count) == ("error", 200)
    assert result.kinds["all-fail"] == 50


def test_two_equal_groups_are_no_alarm_yet() -> None:
    assert found(audit(rollouts("00", "00")), "constant-reward").severity == "warning"


def test_prompts_that_are_all_solved_are_said_calmly() -> None:
    result = audit(rollouts(*["1111"] * 50))
    finding = found(result, "all-solved")
    assert (finding.severity, finding.count) == ("warning", 200)
    assert "constant-reward" not in codes(result)
    assert not [one for one in result.findings if one.severity == "error"]


def test_a_placeholder_between_pass_and_fail_is_no_solved_prompt() -> None:
    halves = [row for group in "abcd" for row in valued([0.5] * 8, group)]
    assert found(audit(halves), "constant-reward").severity == "error"
    assert found(audit(halves, pass_mark=0.5), "constant-reward").severity == "error"


def test_dead_groups_do_not_depend_on_what_an_estimator_scales_by() -> None:
    assert audit(rollouts("11", "01")).kinds["mixed"] == 1
    assert audit(rollouts("11", "01")).kinds["all-pass"] == 1


def test_infrastructure_failures_are_unscorable() -> None:
    rows = rollouts("1aa1aaa1a1")
    result = audit(rows)
    finding = found(result, "aborted")
    assert (finding.severity, finding.count) == ("error", 6)
    assert "60.0%" in finding.message
    assert "6 x sandbox lost" in finding.message
    assert (result.reward_known, result.reward_mean) == (4, 1.0)
    assert "missing-verdicts" not in codes(result)


def test_the_reward_of_an_aborted_rollout_is_ignored_and_said() -> None:
    rows = rollouts("1101")
    rows[2] = replace(rows[2], status="aborted", error="SandboxError")
    result = audit(rows)
    assert (result.reward_known, result.reward_mean) == (3, 1.0)
    assert found(result, "aborted-with-reward").examples == ("sNone/q0/2",)


def test_truncated_rollouts_are_reported_apart() -> None:
    result = audit(rollouts("10tT", "10t1"))
    assert result.status == {"terminated": 5, "truncated": 3, "aborted": 0}
    assert found(result, "truncated-as-failure").count == 2
    assert found(result, "truncated-as-pass").count == 1
    assert "37.5%" in found(result, "truncated-as-pass").message


def test_empty_rollouts_are_counted() -> None:
    rows = rollouts("101")
    rows[1] = Trajectory(id="empty", group="q0", prompt_ids=[0], response_ids=[], columns={"reward": 0.0})
    assert found(audit(rows), "empty-rollouts").examples == ("empty",)


def test_rewards_alone_are_no_empty_rollouts() -> None:
    rows = [Trajectory(id=str(i), group="q", columns={"reward": i}) for i in range(2)]
    assert found(audit(rows), "no-turns").count == 2
    assert "empty-rollouts" not in codes(audit(rows))
    talked = Trajectory(id="talked", group="q", turns=(Turn(text="hi"),), columns={"reward": 1})
    assert found(audit([*rows, talked]), "empty-rollouts").count == 2


@pytest.mark.parametrize(
    ("step", "reason", "severity"),
    [
        (["aaaa"], "all aborted by the infrastructure", "error"),
        (["----"], "all without a verdict", "error"),
        (["tttt"], "all cut off", "error"),
        (["ttttttttt0"], "9 of them cut off", "error"),
        (["0000"] * 8, "verifier or the environment probably broke", "error"),
        (["0000"], "hard prompts", "info"),
    ],
)
def test_a_step_without_a_pass_gets_its_likely_reason(step: list[str], reason: str, severity: str) -> None:
    rows = [*rollouts("0101", "0111", "0000", "0011", step=1), *rollouts(*step, step=2, first=9)]
    finding = found(audit(rows), "all-failed")
    assert "of step 2" in finding.message
    assert reason in finding.message
    assert finding.severity == severity
    assert finding.count == sum(map(len, step))


def test_chance_of_a_hard_step_is_the_formula() -> None:
    rows = [*rollouts("0101", "0111", "0000", "0011", step=1), *rollouts("00", "00", step=2, first=9)]
    # 1 of 4 groups elsewhere failed: (2 / 6) ^ 2
    assert "0.11" in found(audit(rows), "all-failed").message


def test_a_file_without_steps_and_without_a_pass_is_left_to_the_constant_alarm() -> None:
    assert "all-failed" not in codes(audit(rollouts("000", "000")))
    assert "of the file" in found(audit(rollouts("ttt", "ttt")), "all-failed").message


def test_ids_used_twice() -> None:
    rows = [*rollouts("01"), *rollouts("01")]
    finding = found(audit(rows), "duplicated-ids")
    assert (finding.severity, finding.count, finding.examples) == ("error", 2, ("sNone/q0/0", "sNone/q0/1"))


def test_identical_rollouts_under_several_ids() -> None:
    long = list(range(300))
    rows = [
        Trajectory(id=f"{n}{i}", group=n, response_ids=tokens, columns={"reward": i % 2})
        for n, tokens in (("long", long), ("short", [1, 2]))
        for i in range(3)
    ]
    result = audit(rows)
    assert found(result, "duplicated-rollouts-long").examples == ("long1", "long2")
    assert found(result, "duplicated-rollouts-long").severity == "warning"
    assert found(result, "duplicated-rollouts-short").severity == "info"
    assert found(result, "same-rollout-different-reward").count == 6


def test_the_same_answer_to_another_prompt_is_no_duplicate() -> None:
    rows = [Trajectory(id=f"{p}", group=f"{p}", prompt_ids=[p], response_ids=[7]) for p in range(4)]
    assert "duplicated-rollouts-short" not in codes(audit(rows))


def test_identical_text_rollouts_are_found_too() -> None:
    turns = (Turn(text="look", observation="x" * 300), Turn(text="y" * 1030))
    rows = [Trajectory(id=f"{i}", group="g", turns=turns, columns={"reward": 1}) for i in range(2)]
    result = audit(rows)
    assert result.length_unit == "characters"
    assert found(result, "duplicated-rollouts-long").count == 1


def test_merged_groups_are_seen_in_their_references() -> None:
    rows = [replace(row, reference=["4", "4", "5"][i]) for i, row in enumerate(rollouts("101"))]
    finding = found(audit(rows), "merged-groups")
    assert (finding.severity, finding.count, finding.examples) == ("error", 1, ("q0",))
    assert "merged-groups" not in codes(audit(rows[:2]))


@pytest.mark.parametrize(
    ("reference", "tokens", "severity"),
    [(None, True, "error"), (None, False, "warning"), ("gold", True, "info"), ("gold", False, "info")],
)
def test_different_prompts_in_a_group(reference: str | None, tokens: bool, severity: str) -> None:
    rows = [
        Trajectory(
            id=f"{i}",
            group="g",
            prompt_ids=[i] if tokens else None,
            response_ids=[5] if tokens else None,
            turns=() if tokens else (Turn(text="hi"),),
            messages=({"role": "user", "content": f"opening {i}"}, {"role": "assistant", "content": "hi"}),
            reference=reference,
            columns={"reward": i},
        )
        for i in range(2)
    ]
    assert found(audit(rows), "different-prompts").severity == severity


def test_a_group_id_that_returns_at_another_step_is_another_group() -> None:
    rows = [*rollouts("00", step=1), *rollouts("11", step=2)]
    result = audit(rows)
    assert (result.groups, result.steps, result.kinds["mixed"]) == (2, 2, 0)
    assert found(result, "group-in-several-steps").examples == ("q0",)


def test_a_component_that_never_fires() -> None:
    n = 40
    rows = valued(
        [i % 2 for i in range(n)], format_reward=[0.0] * n, scores=[{"style": None, "tone": i} for i in range(n)]
    )
    result = audit(rows)
    finding = found(result, "constant-component")
    assert (finding.count, "'format_reward' is 0" in finding.message) == (n, True)
    assert "'scores.style'" in found(result, "component-without-data").message
    assert not [f for f in result.findings if "scores.tone" in f.message]


def test_too_few_samples_do_not_make_a_component_constant() -> None:
    assert "constant-component" not in codes(audit(valued([0, 1], format_reward=[0.0, 0.0])))


def test_score_columns_that_name_the_rollout_do_not_fill_the_memory() -> None:
    rows = [Trajectory(id=f"r{k}", group="q", columns={"reward": 0.0, f"score_{k}": 1.0}) for k in range(200)]
    assert len(collect(rows, reward_field="reward").components) == 64
    asked = collect(rows, reward_field="reward", components=["score_199"])
    assert list(asked.components) == ["score_199"]


def test_components_can_be_named() -> None:
    rows = valued([0, 1] * 20, tidy=[1.0] * 40, format_reward=[1.0] * 40)
    (finding,) = [f for f in audit(rows, components=["tidy"]).findings if f.code == "constant-component"]
    assert "'tidy'" in finding.message
    with pytest.raises(InvalidArgument, match=r"components=\['untidy'\].*tidy, format_reward"):
        audit(rows, components=["untidy"])


def test_a_group_whose_sum_hides_its_parts_is_not_all_dead() -> None:
    rows = valued([1, 1], reward_a=[1, 0], reward_b=[0, 1])
    finding = found(audit(rows), "dead-in-sum-only")
    assert (finding.count, finding.examples) == (1, ("q",))
    assert "dead-in-sum-only" not in codes(audit(valued([1, 1], reward_a=[1, 1], reward_b=[0, 0])))


def test_a_pass_mark_that_the_answer_alone_cannot_reach() -> None:
    rows = valued([0.7 * 1.0 + 0.3 * 0.0, 0.0])
    finding = found(audit(rows, pass_mark=0.85), "pass-mark-unreached")
    assert "0.85" in finding.message
    assert "0.7" in finding.message
    assert "pass-mark-unreached" not in codes(audit(rows))


def test_reward_and_length_inside_groups() -> None:
    rows = [
        Trajectory(id=f"{g}/{i}", group=f"{g}", response_ids=[0] * (100 * g + i + 1), columns={"reward": i})
        for g in range(10)
        for i in range(4)
    ]
    result = audit(rows)
    # Between groups the length does not matter; inside them it rises with the reward exactly.
    assert result.reward_length_correlation == pytest.approx(1.0)
    assert found(result, "reward-length").severity == "warning"
    assert audit(rollouts("01", "10")).reward_length_correlation is None


def test_breakdown_by_a_small_column() -> None:
    rows = [
        *valued([0, 1], "a1", style=["cot"] * 2),
        *valued([0, 0], "a2", style=["cot"] * 2),
        *valued([0, 0], "b1", style=["std"] * 2),
    ]
    by = audit(rows).breakdown["style"]
    assert {value: kinds["mixed"] for value, kinds in by.items()} == {"cot": 1, "std": 0}
    assert {value: kinds["all-fail"] for value, kinds in by.items()} == {"cot": 1, "std": 1}
    with pytest.raises(InvalidArgument, match=r"by='puzzle'.*\['style'\]"):
        audit(rows, by="puzzle")


def test_a_column_that_varies_inside_a_group_breaks_nothing_down() -> None:
    rows = [*valued([0, 1], "a", outcome=["good", "bad"]), *valued([0, 1], "b", outcome=["good", "bad"])]
    assert audit(rows).breakdown == {}


def test_breakdown_by_the_prefix_of_the_group_ids() -> None:
    rows = [row for name in ("cot-1", "cot-2", "std-1", "std-2") for row in valued([0, name == "cot-1"], name)]
    by = audit(rows).breakdown["group prefix"]
    assert {value: kinds["mixed"] for value, kinds in by.items()} == {"cot": 1, "std": 0}


@given(
    st.lists(st.text("10-tTa", min_size=0, max_size=5), max_size=6),
    st.randoms(use_true_random=False),
)
def test_counts_do_not_depend_on_the_order_of_the_file(groups: list[str], random: Any) -> None:
    rows = rollouts(*groups)
    shuffled = rows.copy()
    random.shuffle(shuffled)
    one, other = audit(rows), audit(iter(shuffled))
    for name in ("rollouts", "groups", "status", "reward_known", "kinds", "dead_share", "effective_n", "pass_mark"):
        assert getattr(one, name) == getattr(other, name)
    assert codes(one) == codes(other)
    assert sum(one.kinds.values()) == one.groups
    assert list(one.kinds) == list(KINDS)
    ranks = [SEVERITIES.index(finding.severity) for finding in one.findings]
    assert ranks == sorted(ranks)
    assert all(np.isfinite(value) for value in (one.group_size, one.effective_n, one.length))
