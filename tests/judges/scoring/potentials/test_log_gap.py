"""Worked numbers of the log-ratio of gaps."""

import math

import numpy as np
import pytest

from apportion.errors import InvalidArgument
from apportion.judges.scoring import RecordedRescorer, Recording, Request
from apportion.judges.scoring.potentials import log_gap
from apportion.verdicts import Scored
from tests.judges.scoring.told import Told, rollout, target

WORKED = [-2.0, -1.0, -1.0, -0.4]


def numbers(values: object) -> list[float]:
    return [one.value for one in values if isinstance(one, Scored)]  # type: ignore[attr-defined]


def test_worked_numbers() -> None:
    (values,) = log_gap(Told(WORKED), target=lambda _: target(7)).values([rollout(3)])
    assert numbers(values) == pytest.approx([0, 0.6466, 0.6466, 1.4351], abs=5e-5)
    assert np.diff(numbers(values)) == pytest.approx([0.6466, 0, 0.7885], abs=5e-5)
    assert "mean log-prob -0.4000, -2.0000 at start" in values[3].evidence


def test_from_a_recording(tmp_path: object) -> None:
    path = tmp_path / "record.jsonl"  # type: ignore[operator]
    told = Told(WORKED)
    live = log_gap(Recording(told, path), target=lambda _: target(7, lead=[1])).values([rollout(3)])
    recorded = RecordedRescorer(path, name="told", vocabulary=told.vocabulary)
    assert log_gap(recorded, target=lambda _: target(7, lead=[1])).values([rollout(3)]) == live


def test_differences_telescope_and_no_change_gives_none() -> None:
    steps = [-3.0, -2.5, -2.5, -0.01]
    (values,) = log_gap(Told(steps), target=lambda _: target(7), offset=0.5).values([rollout(3)])
    assert numbers(values)[1] == numbers(values)[2]
    assert sum(np.diff(numbers(values))) == pytest.approx(math.log(3.5 / 0.51))


def test_a_certain_answer_is_finite() -> None:
    (values,) = log_gap(Told([-1.0, 0.0]), target=lambda _: target(7)).values([rollout(1)])
    assert numbers(values) == pytest.approx([0, math.log(11)])


def test_without_turns_there_is_only_the_start() -> None:
    assert log_gap(Told([-1.0]), target=lambda _: target(7)).values([rollout(0)]) == [
        [Scored(0.0, "mean log-prob -1.0000, -1.0000 at start")]
    ]


def test_one_call_for_all_trajectories() -> None:
    class Counting(Told):
        calls = 0

        def score(self, requests: list[Request], *, temperature: float = 1.0) -> object:  # type: ignore[override]
            self.calls += 1
            return super().score(requests, temperature=temperature)

    told = Counting([-1.0, -0.5])
    log_gap(told, target=lambda _: target(7)).values([rollout(1), rollout(1), rollout(1)])
    assert (told.calls, len(told.asked)) == (1, 3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rescorer": object()}, "rescorer="),
        ({"offset": 0.0}, "offset=0.0"),
        ({"offset": -0.1}, "offset=-0.1"),
        ({"longest_target": 0}, "longest_target=0"),
        ({"name": " "}, "name="),
    ],
)
def test_wrong_settings(settings: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        log_gap(**{"rescorer": Told([]), "target": lambda _: None, **settings})  # type: ignore[arg-type]
