"""Recordings replay exactly, know what they do not hold, and refuse what is no recording."""

import contextlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import BadRow, InvalidArgument, MissingInput
from apportion.judges.scoring import (
    Answers,
    LogProbs,
    RecordedRescorer,
    Recording,
    Request,
    TransformersRescorer,
    Vocabulary,
    at_boundaries,
    continuation,
)
from apportion.verdicts import Abstained, Failed
from tests.judges.scoring.tiny import qwen3, ragged
from tests.judges.scoring.told import Told

WORDS = Vocabulary("words", 100)


def plain(answers: Answers) -> list[list[object]]:
    return [[one.values.tolist() if isinstance(one, LogProbs) else one for one in row] for row in answers]


def test_replay_is_exact_and_writes_each_answer_once(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    model = TransformersRescorer(qwen3(), name="tiny", max_length=30)
    recording = Recording(model, path)
    told = recording.score(ragged())
    assert recording.score(ragged(), temperature=2.0) != told
    lines = path.read_text().splitlines()
    recording.score(ragged())
    Recording(model, path).score(ragged())
    assert path.read_text().splitlines() == lines
    replayed = RecordedRescorer(path, name="tiny", vocabulary=model.vocabulary)
    assert plain(replayed.score(ragged())) == plain(told)
    assert any(isinstance(one, Abstained) for row in told for one in row)


def test_failures_and_abstentions_are_replayed(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    request = at_boundaries([1, 2, 3], [1, 2, 3], [4])
    told = Recording(Told([Failed("timeout"), Abstained("too long"), -0.5]), path).score([request])
    assert plain(RecordedRescorer(path, name="told", vocabulary=WORDS).score([request])) == plain(told)


@pytest.mark.parametrize(
    ("name", "temperature", "context", "size"),
    [("other", 1.0, [1], 100), ("told", 2.0, [1], 100), ("told", 1.0, [2], 100), ("told", 1.0, [1], 99)],
)
def test_what_was_not_recorded_is_refused(
    tmp_path: Path, name: str, temperature: float, context: list[int], size: int
) -> None:
    path = tmp_path / "record.jsonl"
    Recording(Told([-0.5]), path).score([continuation([1], [4])])
    recorded = RecordedRescorer(path, name=name, vocabulary=Vocabulary("words", size))
    with pytest.raises(MissingInput, match=f"1 of 1 boundaries under '{name}' at temperature {temperature:g}"):
        recorded.score([continuation(context, [4])], temperature=temperature)


GOOD = '{"key": "k", "logps": [-0.5]}\n'


@pytest.mark.parametrize(
    ("content", "line", "problem"),
    [
        ("[1]\n", 1, "is no record"),
        ("not json\n", 1, "is no JSON"),
        ("[" * 100_000 + "\n", 1, "is no JSON"),
        (b"\xff\xfe\n", 1, "is no JSON"),
        (GOOD + '{"key": "l", "logps": [-0.5', 2, "is cut"),
        (GOOD + GOOD, 2, "has an answer on an earlier line"),
        ('{"key": 1, "logps": [-0.5]}\n', 1, "is no record"),
        ('{"key": "k", "logps": [-0.5], "failed": "x"}\n', 1, "is no record"),
        ('{"key": "k", "failed": 1}\n', 1, "is no text"),
        ('{"key": "k", "logps": "abc"}\n', 1, "is no list"),
        ('{"key": "k", "logps": [true]}\n', 1, "is no list"),
        ('{"key": "k", "logps": [NaN]}\n', 1, "is no list"),
        ('{"key": "k", "logps": [-Infinity]}\n', 1, "is no list"),
        ('{"key": "k", "logps": [0.5]}\n', 1, "is no list"),
        ('{"key": "k", "logps": [-1' + "0" * 400 + "]}\n", 1, "is no list"),
    ],
)
def test_what_is_no_recording(tmp_path: Path, content: str | bytes, line: int, problem: str) -> None:
    path = tmp_path / "record.jsonl"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(BadRow, match=f"record.jsonl:{line}: .*{problem}"):
        RecordedRescorer(path, name="told", vocabulary=WORDS)


def test_another_number_of_values_than_tokens_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    request = continuation([1], [4, 5])
    Recording(Told([-0.5]), path).score([request])
    with pytest.raises(InvalidArgument, match="1 log-probs for 2 target tokens"):
        RecordedRescorer(path, name="told", vocabulary=WORDS).score([request])


@given(st.binary(max_size=200))
def test_any_bytes_are_a_recording_or_a_bad_row(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "hostile.jsonl"
    path.write_bytes(content)
    with contextlib.suppress(BadRow):
        RecordedRescorer(path, name="told", vocabulary=WORDS)


def test_the_model_is_asked_with_what_was_given(tmp_path: Path) -> None:
    class Warm(Told):
        seen: list[float] = []  # noqa: RUF012

        def score(self, requests: list[Request], *, temperature: float = 1.0) -> Answers:  # type: ignore[override]
            self.seen.append(temperature)
            return super().score(requests, temperature=temperature)

    told = Warm([-0.5])
    answers = Recording(told, tmp_path / "record.jsonl").score([continuation([1], [4])], temperature=0.5)
    assert told.seen == [0.5]
    assert isinstance(answers[0][0], LogProbs)
    assert np.isfinite(answers[0][0].sum)
