"""The same model as teacher and student differs by 0 everywhere; anything else is found and named."""

import numpy as np
import pytest

from apportion.errors import InvalidArgument
from apportion.judges.scoring import (
    Answers,
    LogProbs,
    Request,
    TransformersRescorer,
    Vocabulary,
    check_alignment,
    difference,
    own_tokens,
)
from apportion.verdicts import Abstained, Failed
from tests.judges.scoring.tiny import WIDTH, qwen3, ragged

MODEL = qwen3()


class Shifted:
    """Another scorer's values, moved by one position."""

    def __init__(self, inner: TransformersRescorer, by: int) -> None:
        self.name, self.vocabulary, self.inner, self.by = "shifted", inner.vocabulary, inner, by

    def score(self, requests: list[Request], *, temperature: float = 1.0) -> Answers:
        rows = self.inner.score(requests, temperature=temperature)
        return [[LogProbs(np.roll(one.values, self.by)) for one in row if isinstance(one, LogProbs)] for row in rows]


def test_the_same_model_differs_by_nothing() -> None:
    model = TransformersRescorer(MODEL, name="tiny")
    report = check_alignment(model, model, [*ragged(), own_tokens(np.arange(6), start=0)], tolerance=0)
    assert report.largest == 0.0
    assert report.tokens == sum(target.size for request in ragged() for target in request.targets)
    assert report.missing == 1


def test_packed_and_naive_agree() -> None:
    packed, naive = (TransformersRescorer(MODEL, name=how, how=how) for how in ("packed", "naive"))
    assert check_alignment(packed, naive, ragged(seed=9), tolerance=2e-5, temperature=0.7).largest <= 2e-5


@pytest.mark.parametrize(("by", "word"), [(1, "late"), (-1, "early")])
def test_a_shift_is_found_and_named(by: int, word: str) -> None:
    model = TransformersRescorer(MODEL, name="tiny")
    with pytest.raises(InvalidArgument, match=f"student='shifted': expected .*; the student's are one token {word}"):
        check_alignment(model, Shifted(model, by), [own_tokens(np.arange(7))], tolerance=1e-4)


def test_another_temperature_or_other_weights_are_found() -> None:
    model = TransformersRescorer(MODEL, name="tiny")
    other = TransformersRescorer(qwen3(seed=1), name="other")
    with pytest.raises(InvalidArgument, match=r"student='other': expected the log-probs of 'tiny' within 0\.0001"):
        check_alignment(model, other, [own_tokens(np.arange(7))], tolerance=1e-4)


def test_other_vocabularies_are_refused_before_anything_is_scored() -> None:
    model = TransformersRescorer(MODEL, name="tiny")
    cut = TransformersRescorer(MODEL, name="cut", vocabulary=Vocabulary("words", WIDTH - 1))
    with pytest.raises(InvalidArgument, match="as many tokens as 'words': 'words' has 60 and 'tiny' has 61"):
        check_alignment(model, cut, [own_tokens([1, 2])], tolerance=1e-4)


def test_nothing_compared_proves_nothing() -> None:
    model = TransformersRescorer(MODEL, name="tiny")
    with pytest.raises(InvalidArgument, match="at least one token that both score: no requests"):
        check_alignment(model, model, [], tolerance=0)
    with pytest.raises(InvalidArgument, match="the target is empty"):
        check_alignment(model, model, [own_tokens([1])], tolerance=0)


def test_nothing_is_cut_to_fit() -> None:
    teacher, padded = LogProbs(np.array([-1.5, -2.5, -3.5])), LogProbs(np.array([-1.0, -2.0, -3.0, 0.0, 0.0]))
    with pytest.raises(InvalidArgument, match="teacher 3, student 5"):
        difference(teacher, padded)
    exact = difference(teacher, LogProbs(padded.values[:3]))
    assert isinstance(exact, np.ndarray)
    assert exact.tolist() == [-0.5, -0.5, -0.5]


def test_what_is_missing_stays_missing() -> None:
    known = LogProbs(np.array([-1.0]))
    assert difference(Failed("timeout"), known) == Failed("timeout")
    assert difference(known, Abstained("too long")) == Abstained("too long")
