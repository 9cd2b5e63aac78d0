"""Requests, their digests, and the checks before a model is asked."""

import subprocess
import sys

import numpy as np
import pytest

from apportion.errors import InvalidArgument
from apportion.judges.scoring import Request, Vocabulary, at_boundaries, continuation, own_tokens, same_vocabulary
from apportion.judges.scoring.request import LogProbs, answered
from apportion.verdicts import Failed


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: at_boundaries([1, 2], [3], [1]), r"at=\[3\]: expected boundaries in \[0, 2\]"),
        (lambda: at_boundaries([1, 2], [1, 2], [[1]]), "targets=1: expected one target per boundary"),
        (lambda: at_boundaries([1.5], [1], [1]), "ids="),
        (lambda: at_boundaries([[1]], [1], [1]), "ids="),
        (lambda: at_boundaries("ab", [1], [1]), "ids="),
        (lambda: continuation([1], [-100]), "targets=-100: expected whole numbers >= 0; a negative id is a label"),
        (lambda: continuation([2**70], [1]), "context="),
        (lambda: own_tokens([1, 2], start=3), "start=3"),
        (lambda: own_tokens([1, 2], start=True), "start=True"),
    ],
)
def test_what_is_no_request(make: object, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        make()  # type: ignore[operator]


def test_a_digest_tells_everything_that_matters_apart() -> None:
    def keys(request: Request, prefix: bytes = b"m") -> list[str]:
        return list(request.digests(prefix=prefix))

    base = keys(at_boundaries([1, 2, 3], [2, 3], [4, 5]))
    assert base == keys(at_boundaries([1, 2, 3, 9], [2, 3], [4, 5]))
    assert base[0] == keys(continuation([1, 2], [4, 5]))[0]
    assert base[0] == keys(at_boundaries([1], [1], [4, 5], lead=[2]))[0]
    others = [
        *keys(continuation([1], [2, 4, 5])),
        *keys(continuation([1, 2, 4], [5])),
        *keys(continuation([1, 2], [4])),
        *keys(continuation([1, 2], [4, 5]), b"n"),
        base[1],
    ]
    assert len({base[0], *others}) == 6


def test_rounding_above_zero_is_zero_and_more_is_a_failure() -> None:
    rounded = answered(np.array([1e-7, -1.0]))
    assert isinstance(rounded, LogProbs)
    assert rounded.values.tolist() == [0.0, -1.0]
    assert isinstance(answered(np.array([0.5])), Failed)
    assert isinstance(answered(np.array([-np.inf])), Failed)


class Words:
    def __init__(self, table: dict[str, int], name: str) -> None:
        self.table, self.name_or_path = table, name

    def get_vocab(self) -> dict[str, int]:
        return self.table


def test_other_tokens_under_the_same_ids_are_refused_with_both_named() -> None:
    student = Vocabulary.of(Words({"Hello": 5, "World": 9}, "student"))
    teacher = Vocabulary.of(Words({"World": 5, "Hello": 9}, "teacher"))
    with pytest.raises(InvalidArgument, match="'teacher': expected the tokens of 'student': both have 10 tokens"):
        same_vocabulary(student, teacher)
    same_vocabulary(student, Vocabulary.of(Words({"World": 9, "Hello": 5}, "copy")))
    same_vocabulary(student, Vocabulary("size only", 10))


def test_other_widths_are_refused_with_both_named() -> None:
    with pytest.raises(InvalidArgument, match="'student' has 6 and 'teacher' has 8"):
        same_vocabulary(Vocabulary("student", 6), Vocabulary("teacher", 8))
    with pytest.raises(InvalidArgument, match="size=0"):
        Vocabulary("none", 0)


def test_asking_for_log_probs_imports_no_backend() -> None:
    heavy = "{'torch', 'transformers', 'httpx'} & set(sys.modules)"
    code = f"import sys, apportion.judges.scoring.potentials; print(*({heavy}))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == []
