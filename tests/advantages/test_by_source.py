"""Source-split normalisation."""

from __future__ import annotations

import pytest

from apportion.advantages import by_source, grpo
from apportion.errors import InvalidArgument
from apportion.quick import rewards_signal
from apportion.rollouts import Level

SIX = [0.0, 0.0, 1.0, 0.0, 1.0, 0.0]
SOURCES = ["policy"] * 4 + ["external"] * 2


def test_each_source_is_compared_with_its_own_kind() -> None:
    made = by_source(rewards_signal(SIX), source=SOURCES).values.tolist()
    assert made == pytest.approx([-0.5, -0.5, 1.5, -0.5, 0.7071, -0.7071], abs=1e-4)
    assert made != pytest.approx(grpo(rewards_signal(SIX)).values.tolist(), abs=0.1)


def test_groups_stay_apart_too() -> None:
    x = rewards_signal([1.0, 0.0, 5.0, 3.0, 9.0, 7.0], groups=["a", "a", "a", "a", "b", "b"])
    made = by_source(x, source=["p", "p", "e", "e", "p", "p"], sources=["e", "p"]).values.tolist()
    assert made == pytest.approx([0.7071, -0.7071] * 3, abs=1e-4)


def test_the_only_one_of_its_source_gets_nothing() -> None:
    made = by_source(rewards_signal([1.0, 0.0, 1.0]), source=["policy", "policy", "external"])
    assert made.values.tolist()[2] == 0.0


def test_long_external_rollouts_leave() -> None:
    x = rewards_signal(SIX, tokens=[9, 9, 9, 9, 9, 5])
    made = by_source(x, source=SOURCES, max_tokens={"external": 5})
    assert made.known.tolist() == [True, True, True, True, False, True]
    assert made.values.tolist()[4:] == [0.0, 0.0]


def test_a_batch_without_external_rollouts_is_ordinary() -> None:
    x = rewards_signal([0.0, 0.0, 1.0, 0.0], tokens=[9] * 4)
    made = by_source(x, source=["policy"] * 4, max_tokens={"external": 5})
    assert made.values.tolist() == pytest.approx([-0.5, -0.5, 1.5, -0.5])


def test_the_order_of_declared_sources_means_nothing() -> None:
    x = rewards_signal(SIX, groups=list("aabbab"))
    one = by_source(x, source=SOURCES)
    for declared in (["x", "external", "policy"], ["policy", "external", "external"]):
        assert by_source(x, source=SOURCES, sources=declared).values.tolist() == one.values.tolist()


@pytest.mark.parametrize(
    "options",
    [
        {"source": ["policy"]},
        {"source": ["polciy", *SOURCES[1:]]},
        {"source": SOURCES, "max_tokens": {"extrenal": 5}},
    ],
)
def test_bad_options_are_named(options: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument, match=list(options)[-1]):
        by_source(rewards_signal(SIX), **options)  # type: ignore[arg-type]


def test_limits_need_lengths_and_rewards_are_per_rollout() -> None:
    with pytest.raises(InvalidArgument, match="text only"):
        by_source(rewards_signal(SIX), source=SOURCES, max_tokens={"external": 5})
    with pytest.raises(InvalidArgument, match="TRAJECTORY"):
        by_source(rewards_signal(SIX).spread(Level.TURN), source=SOURCES)
