"""Credit as records and files: nothing is lost, nothing is invented, and numbers survive bit by bit."""

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from apportion.advantages.group_stat import group_stat
from apportion.batch import Batch
from apportion.errors import BadRow, InvalidArgument
from apportion.recipe import Credit, Recipe
from apportion.report.credit_file import FORMAT, VERSION, CreditWriter, credit_header, read_credit, read_header
from apportion.report.credit_record import credit_records, placed
from apportion.rollouts import Level, Trajectory, Turn
from apportion.signal import Signal
from apportion.verdicts import Abstained, Failed, Scored, Verdict

Verdicts = Mapping[str, Sequence[Any]]


class Observer:
    def __init__(self, name: str, level: Level) -> None:
        self.name, self.level = name, level

    def observe(self, trajectories: Sequence[Trajectory]) -> Any:
        raise NotImplementedError


def recipe(*, per_token: bool = False) -> Recipe:
    """Outcome centred in its group, plus the path as it is; optionally a term that differs at every token."""

    def assign(batch: Batch, signals: Mapping[str, Signal], *, step: int | None, state: Any) -> Signal:
        total = group_stat(signals["outcome"], scale="none") + signals["path"].neutral()
        if per_token:
            total = total + Signal.of(batch, Level.TOKEN, torch.arange(batch.n_tokens).double() / 3, name="position")
        return total

    return Recipe(
        name="both",
        observers=[Observer("outcome", Level.TRAJECTORY), Observer("path", Level.TURN)],
        assign_signals=assign,
        aggregation="token-mean",
        parameters={"weight": 0.1, "rules": object()},
    )


def tokens(id: str, *lengths: int, lead: int = 0, gap: int = 2, **fields: Any) -> Trajectory:
    """Turns of these many policy tokens, each followed by other ones."""
    policy = [0] * lead
    for n in lengths:
        policy += [1] * n + [0] * gap
    return Trajectory(id=id, group="q", response_ids=list(range(len(policy))), policy=policy, **fields)


def scored(
    rows: Sequence[Trajectory], verdicts: Verdicts, *, per_token: bool = False
) -> tuple[Credit, list[dict[str, Any]]]:
    credit, _ = recipe(per_token=per_token).assign(Batch.pack(rows), verdicts)
    return credit, list(credit_records(credit, rows, verdicts))


ROWS = (tokens("a", 2, 1, lead=1), tokens("b", 3), tokens("c", 2, 2))
VERDICTS: Verdicts = {
    "outcome": [Scored(1.0, "3 of 3"), Scored(0.0), Failed("no answer")],
    "path": [[Scored(0.0), Scored(-0.25, "rule 'x'")], [Abstained("nothing to judge")], [Scored(0.5), Scored(0.5)]],
}


def test_values_are_stored_at_the_coarsest_level_that_loses_nothing() -> None:
    _, (a, b, c) = scored(ROWS, VERDICTS)
    assert a["layout"] == {"lead": 1, "turns": [2, 1], "gaps": [2, 2]}
    assert a["advantages"] == {"per": "turn", "values": [0.5, 0.25]}
    assert a["ledger"] == {
        "outcome": {"per": "trajectory", "values": 0.5},
        "path": {"per": "turn", "values": [0.0, -0.25]},
    }
    assert b["advantages"] == {"per": "trajectory", "values": -0.5}
    assert c["advantages"] == {"per": "trajectory", "values": 0.5}
    assert a["in_loss"] == {"per": "trajectory", "values": True}


def test_verdicts_stay_typed() -> None:
    _, (a, b, c) = scored(ROWS, VERDICTS)
    assert a["verdicts"] == {
        "outcome": {"value": 1.0, "evidence": "3 of 3"},
        "path": [{"value": 0.0}, {"value": -0.25, "evidence": "rule 'x'"}],
    }
    assert b["verdicts"]["path"] == [{"abstained": "nothing to judge"}]
    assert c["verdicts"]["outcome"] == {"failed": "no answer"}


def test_placed_puts_credit_where_the_tokens_lie() -> None:
    credit, records = scored(ROWS, VERDICTS, per_token=True)
    dense = credit.batch.pad(credit.advantages.values)
    for row, record, trajectory in zip(dense.tolist(), records, ROWS, strict=True):
        assert record["advantages"]["per"] == "token"
        assert placed(record) == row[: trajectory.response_ids.size]  # type: ignore[union-attr]


def test_placed_knows_terms_and_the_loss() -> None:
    _, (a, *_) = scored(ROWS, VERDICTS)
    assert placed(a) == [0.0, 0.5, 0.5, 0.0, 0.0, 0.25, 0.0, 0.0]
    assert placed(a, "path", fill=9.0) == [9.0, 0.0, 0.0, 9.0, 9.0, -0.25, 9.0, 9.0]
    assert placed(a, "in_loss", fill=0.0) == [0.0, True, True, 0.0, 0.0, True, 0.0, 0.0]


def test_other_tokens_inside_a_turn_need_offsets() -> None:
    row = Trajectory(
        id="a", group="q", response_ids=[1, 2, 3, 4], policy=[1, 0, 1, 1], turns=(Turn(span=(0, 3)), Turn(span=(3, 4)))
    )
    _, (record,) = scored([row], {"outcome": [Scored(1.0)], "path": [[Scored(1.0), Scored(2.0)]]})
    assert record["layout"] == {"lead": 0, "turns": [2, 1], "gaps": [1, 0], "offsets": [0, 2, 3]}
    assert placed(record) == [1.0, 0.0, 1.0, 2.0]


def test_text_only_credit_is_per_turn() -> None:
    row = Trajectory(id="a", group="q", turns=(Turn(text="x"), Turn(text="y")))
    _, (record,) = scored([row], {"outcome": [Scored(1.0)], "path": [[Scored(1.0), Scored(2.0)]]})
    assert record["layout"] == {"turns": 2}
    assert placed(record) == [1.0, 2.0]


def test_what_is_not_the_policys_own_is_out_of_the_loss() -> None:
    row = tokens("a", 3, own=[0, 1, 1, 0, 0])
    _, (record,) = scored([row], {"outcome": [Scored(1.0)], "path": [[Scored(1.0)]]})
    assert record["in_loss"] == {"per": "token", "values": [False, True, True]}
    assert record["advantages"] == {"per": "token", "values": [0.0, 1.0, 1.0]}


def test_a_rollout_without_tokens_or_turns_has_a_record() -> None:
    rows = [Trajectory(id="a", group="q", response_ids=[]), tokens("b", 1)]
    _, (record, _) = scored(rows, {"outcome": [Scored(1.0), Scored(0.0)], "path": [[], [Scored(0.0)]]})
    assert record["layout"] == {"lead": 0, "turns": [], "gaps": []}
    assert record["advantages"]["values"] == 0.0
    assert placed(record) == []


def test_records_of_other_trajectories_are_refused() -> None:
    credit, _ = scored(ROWS, VERDICTS)
    with pytest.raises(InvalidArgument, match="trajectories"):
        list(credit_records(credit, ROWS[::-1], VERDICTS))


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz", "parquet"])
def test_a_file_gives_back_what_was_written(tmp_path: Path, ending: str) -> None:
    _, records = scored([*ROWS, Trajectory(id="d", group="q", response_ids=[])], {
        "outcome": [*VERDICTS["outcome"], Scored(1 / 3)],
        "path": [*VERDICTS["path"], []],
    }, per_token=True)  # fmt: skip
    header = credit_header(recipe(), source="rollouts.jsonl")
    path = tmp_path / f"credit.{ending}"
    with CreditWriter(path, header) as out:
        for record in records:
            out.write(record)
    assert read_header(path) == header
    assert list(read_credit(path)) == records
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz"])
def test_the_same_credit_gives_the_same_bytes(tmp_path: Path, ending: str) -> None:
    _, records = scored(ROWS, VERDICTS)
    paths = [tmp_path / f"{name}.{ending}" for name in "ab"]
    for path in paths:
        with CreditWriter(path, credit_header(recipe(), source="x")) as out:
            for record in records:
                out.write(record)
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_the_header_says_what_assigned_the_credit() -> None:
    header = credit_header(recipe(), source="x.jsonl")
    assert (header["format"], header["version"], header["source"]) == (FORMAT, VERSION, "x.jsonl")
    assert header["recipe"]["aggregation"] == "token-mean"
    assert header["recipe"]["parameters"]["weight"] == 0.1
    assert header["recipe"]["parameters"]["rules"] == "<object>"
    assert header["observers"] == {"outcome": "trajectory", "path": "turn"}


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz", "parquet"])
def test_a_run_that_fails_leaves_what_was_there(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"credit.{ending}"
    path.write_text("before")
    _, records = scored(ROWS, VERDICTS)

    def run() -> None:
        with CreditWriter(path, credit_header(recipe(), source="x")) as out:
            out.write(records[0])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run()
    assert path.read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_an_unknown_ending_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"\.jsonl, \.jsonl\.gz, \.parquet"):
        CreditWriter(tmp_path / "credit.csv", {})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "no header"),
        ('{"id": "a"}\n', "no header"),
        ("not json\n", "no header"),
        (json.dumps({"format": FORMAT, "version": 2}) + "\n", "2 is not 1"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: str, problem: str) -> None:
    path = tmp_path / "credit.jsonl"
    path.write_text(content)
    with pytest.raises(BadRow, match=problem):
        list(read_credit(path))


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz", "parquet"])
@pytest.mark.parametrize("kept", [0.5, 0.9])
def test_a_file_that_was_cut_is_a_bad_row(tmp_path: Path, ending: str, kept: float) -> None:
    path = tmp_path / f"credit.{ending}"
    _, records = scored(ROWS, VERDICTS)
    with CreditWriter(path, credit_header(recipe(), source="x")) as out:
        for record in records:
            out.write(record)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * kept)])
    with pytest.raises(BadRow, match=r"damaged|no header"):
        list(read_credit(path))


@pytest.mark.parametrize("name", ["credit.jsonl.gz", "credit.parquet"])
def test_what_is_no_compressed_file_has_no_header(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"something else")
    with pytest.raises(BadRow, match="no header"):
        read_header(tmp_path / name)


def test_a_lone_surrogate_in_evidence_survives_json_and_is_escaped_in_parquet(tmp_path: Path) -> None:
    _, records = scored(ROWS[:1], {"outcome": [Scored(1.0, "bad \ud800")], "path": [[Scored(0.0)] * 2]})
    for ending, evidence in (("jsonl", "bad \ud800"), ("parquet", "bad \\ud800")):
        path = tmp_path / f"credit.{ending}"
        with CreditWriter(path, credit_header(recipe(), source="x")) as out:
            out.write(records[0])
        assert next(read_credit(path))["verdicts"]["outcome"]["evidence"] == evidence


def test_gz_is_really_compressed(tmp_path: Path) -> None:
    path = tmp_path / "credit.jsonl.gz"
    with CreditWriter(path, {"format": FORMAT, "version": VERSION}):
        pass
    assert json.loads(gzip.decompress(path.read_bytes())) == {"format": FORMAT, "version": VERSION}


verdict = st.one_of(
    st.just(Failed("lost")),
    st.just(Abstained("no")),
    st.floats(-1e6, 1e6).map(lambda value: Scored(value)),
)


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Trajectory], dict[str, list[Any]]]:
    """Rollouts of any shape, no turn and empty turns first."""
    shapes = draw(st.lists(st.lists(st.integers(0, 3), max_size=3), min_size=1, max_size=4))
    rows = []
    for i, lengths in enumerate(shapes):
        spans, policy, at = [], [], 0
        for n in lengths:
            policy += [1] * n + [0]
            spans.append(Turn(span=(at, at + n + 1)))
            at += n + 1
        own = [m and draw(st.booleans()) for m in policy]
        group = draw(st.sampled_from("qp"))
        rows.append(
            Trajectory(
                id=str(i), group=group, response_ids=[0] * len(policy), policy=policy, own=own, turns=tuple(spans)
            )
        )
    outcome = [draw(verdict) for _ in rows]
    path = [[draw(verdict) for _ in row.turns] for row in rows]
    return rows, {"outcome": outcome, "path": path}


@given(cases(), st.booleans())
def test_records_hold_exactly_the_credit(
    case: tuple[list[Trajectory], dict[str, list[Verdict]]], per_token: bool
) -> None:
    rows, verdicts = case
    credit, records = scored(rows, verdicts, per_token=per_token)
    read_back = [json.loads(json.dumps(record)) for record in records]
    assert read_back == records
    dense = credit.batch.pad(credit.advantages.values).tolist()
    inside = credit.batch.pad(credit.in_loss.double()).tolist()
    for row, kept, record in zip(dense, inside, records, strict=True):
        values = placed(record)
        assert values == row[: len(values)]
        assert [bool(v) for v in placed(record, "in_loss")] == [bool(v) for v in kept[: len(values)]]
        total = [sum(parts) for parts in zip(*(placed(record, name) for name in record["ledger"]), strict=True)]
        largest = max([1.0, *(abs(v) for name in record["ledger"] for v in placed(record, name))])
        for value, parts, used in zip(values, total, kept, strict=False):
            assert not used or abs(value - parts) <= 1e-12 * largest
        assert record["residual"] <= 1e-12


def test_residual_is_relative_to_the_trajectory() -> None:
    credit, _ = scored(ROWS, VERDICTS)
    wrong = replace(credit.advantages, values=credit.advantages.values + 1e-3)
    records = credit_records(replace(credit, advantages=wrong), ROWS, VERDICTS)
    assert [round(record["residual"], 12) for record in records] == [1e-3] * 3
