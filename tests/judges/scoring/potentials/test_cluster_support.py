"""Worked numbers of answer clusters and their support."""

import math

import numpy as np
import pytest

from apportion.errors import InvalidArgument
from apportion.judges.scoring import LogProbs
from apportion.judges.scoring.potentials import Cluster, answer_probability, cluster_support, clustered, reliability
from apportion.verdicts import Abstained, Failed, Scored
from tests.judges.scoring.told import Told, rollout, target

WORDS = {"Paris": 1, "paris": 2, "PARIS": 3, "pariS": 4, "Rome": 5}


def same(one: str, other: str) -> str:
    return "entails" if one.lower() == other.lower() else "contradicts"


def support(told: Told, answers: list[str | None], **settings: object) -> list[list[object]]:
    rollouts = [rollout(2, columns={"answer": answer}) for answer in answers]
    options = {
        "answer": lambda t: t.columns["answer"],
        "encode": lambda text: target(WORDS[text]),
        "entails": same,
        "weigh": lambda _, clusters: [0.75] * len(clusters),
    }
    return cluster_support(told, **{**options, **settings}).values(rollouts)  # type: ignore[arg-type, return-value]


def test_worked_numbers() -> None:
    (values,) = support(Told(np.log([0.1, 0.2, 0.4]).tolist()), ["Paris"])
    steps = np.diff([one.value for one in values])  # type: ignore[attr-defined]
    assert steps == pytest.approx([0.5199, 0.5199], abs=5e-5)
    assert steps[1] + (1 - 0.5) * 0.75 == pytest.approx(0.8949, abs=5e-5)


def test_wordings_of_the_own_cluster_are_averaged_up_to_a_limit() -> None:
    class ByTarget(Told):
        def score(self, requests: object, *, temperature: float = 1.0) -> object:
            self.asked += requests  # type: ignore[operator]
            return [[LogProbs(np.log([0.1 * int(one.targets[0][0])]))] * 3 for one in requests]  # type: ignore[attr-defined]

    told = ByTarget([])
    first, rome, *_ = support(
        told, ["Paris", "Rome", "paris", "Paris", "PARIS", "pariS"], weigh=lambda _, c: [1.0, 1.0]
    )
    assert first[0].value == pytest.approx(math.log((0.1 + 0.2 + 0.3) / 3))  # type: ignore[attr-defined]
    assert rome[0].value == pytest.approx(math.log(0.5))  # type: ignore[attr-defined]
    assert len(told.asked) == 5 * 3 + 1


def test_no_valid_answer_abstains_and_stays_out_of_the_masses() -> None:
    none, one = support(Told([-1.0] * 3), [None, "Rome"], weigh=lambda _, clusters: [c.mass for c in clusters])
    assert none == [Abstained("the rollout has no valid answer")] * 3
    assert [v.value for v in one] == pytest.approx([-1.0] * 3)  # type: ignore[attr-defined]


def test_groups_are_never_mixed() -> None:
    rollouts = [rollout(1, group="a"), rollout(1, group="b")]
    potential = cluster_support(
        Told([-1.0, -1.0]), answer=lambda t: t.group, encode=lambda _: target(7), entails=lambda a, b: "contradicts"
    )
    assert [[v.value for v in row] for row in potential.values(rollouts)] == [pytest.approx([-1.0, -1.0])] * 2


def test_a_failed_wording_fails_the_state() -> None:
    (values,) = support(Told([-1.0, Failed("timeout"), Abstained("too long")]), ["Rome"])
    assert [type(one) for one in values] == [Scored, Failed, Abstained]


def test_reliability_worked_number() -> None:
    three, one = Cluster((0, 1, 2), 0.75), Cluster((3,), 0.25)
    assert reliability([three, one], [0.8, 0.2]) == pytest.approx([0.8454, 0.1546], abs=5e-5)
    assert reliability([three, one], [0.8, 0.2], eta=0) == pytest.approx([0.75, 0.25])
    assert reliability([Cluster((0,), 1.0)], [0.1]) == [1.0]
    assert reliability([], []) == []
    with pytest.raises(InvalidArgument, match="support"):
        reliability([three], [1.5])


@pytest.mark.parametrize(
    ("sameness", "said", "count"),
    [
        ("strict", ["entails", "entails"], 1),
        ("strict", ["entails", "neutral"], 2),
        ("loose", ["entails", "neutral"], 1),
        ("loose", ["neutral", "neutral"], 2),
        ("loose", ["entails", "contradicts"], 2),
    ],
)
def test_sameness(sameness: str, said: list[str], count: int) -> None:
    replies = iter(said)
    assert len(clustered(["a", "b"], entails=lambda _, __: next(replies), sameness=sameness)) == count  # type: ignore[arg-type]


def test_an_entailment_that_says_something_else_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="entails"):
        clustered(["a", "b"], entails=lambda _, __: True)  # type: ignore[arg-type, return-value]
    with pytest.raises(InvalidArgument, match="sameness"):
        clustered(["a", "b"], entails=same, sameness="exact")  # type: ignore[arg-type]


def test_answer_probability_worked_numbers() -> None:
    potential = answer_probability(Told(np.log([0.1, 0.3, 0.25, 0.9]).tolist()), target=lambda _: target(7))
    (values,) = potential.values([rollout(2, answer=True)])
    assert np.diff([one.value for one in values[:3]]) == pytest.approx([0.2, -0.05])  # type: ignore[union-attr]
    assert isinstance(values[3], Abstained)
