"""Return-to-go in its forms."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from apportion.advantages import return_to_go
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.rollouts import Level
from apportion.signal import Signal
from apportion.verdicts import Abstained, Failed, Presence, Scored
from tests.strategies import batches, signals


def steps(*values: float | None, turns: list[int] | None = None) -> Signal:
    layout = turns or [len(values)]
    batch = Batch.of(groups=["q"] * len(layout), turns=layout, tokens=[1] * len(values))
    return Signal.of(batch, Level.TURN, list(values), name="step")


def tokens(mask: list[list[int]], rewards: list[list[float]]) -> Signal:
    batch = Batch.from_mask(torch.tensor(mask), ["q"] * len(mask))
    return Signal.of(batch, Level.TOKEN, batch.unpad(torch.tensor(rewards, dtype=torch.float64)), name="r")


def test_credit_crosses_a_tool_result() -> None:
    # A loop that resets at every masked token gives everything before the tool result a return of 0.
    x = tokens([[1, 1, 0, 0, 1, 1]], [[0, 0, 0, 0, 0, 1]])
    assert return_to_go(x).values.tolist() == [1.0] * 4


def test_discount_counts_policy_tokens() -> None:
    x = tokens([[1, 0, 1]], [[0, 0, 2]])
    assert return_to_go(x, discount=0.5).values.tolist() == [1.0, 2.0]  # 0.5 if tool tokens counted


def test_a_mismatch_cuts_credit_on_both_sides() -> None:
    x = steps(1.0, 0.1, 1.0)
    matched = torch.tensor([True, False, True])
    assert return_to_go(x, discount=0.5, stop=~matched).values.tolist() == [1.0, 0.1, 1.0]
    same = steps(1.0, 1.0, 1.0)
    assert return_to_go(same, discount=0.5, stop=torch.zeros(3, dtype=torch.bool)).values.tolist() == [1.75, 1.5, 1.0]


def test_stops_at_the_ends_and_in_several_trajectories() -> None:
    x = steps(1, 2, 3, 4, 5, turns=[2, 3])
    stop = torch.tensor([False, True, True, False, False])
    assert return_to_go(x, stop=stop).values.tolist() == [1, 2, 3, 9, 5]


def test_soft_minimum_of_process_scores() -> None:
    to_go = return_to_go(steps(0.9, 0.2, 0.5), form="softmin").values.tolist()
    rewards = [to_go[0] - to_go[1], to_go[1] - to_go[2], to_go[2]]
    assert rewards == pytest.approx([0.0008, 0.1903, 0.0237], abs=1e-4)


def test_a_cold_soft_minimum_is_the_minimum() -> None:
    to_go = return_to_go(steps(0.9, 0.2, 0.5), form="softmin", temperature=1e-3)
    assert float(to_go.values[0]) == pytest.approx(0.2)


def test_strict_minimum_runs_from_the_end() -> None:
    assert return_to_go(steps(0.9, 0.2, 0.5, 0.7, 0.6, turns=[3, 2]), form="min").values.tolist() == [
        0.2,
        0.2,
        0.5,
        0.6,
        0.6,
    ]


def test_last_gives_the_final_score_to_every_step() -> None:
    assert return_to_go(steps(0.2, 0.6, 0.5, None, turns=[4]), form="last").values.tolist() == [0.5, 0.5, 0.5, 0.0]


def test_telescoping_progress() -> None:
    # Differences of a potential sum to its rise from any turn on.
    progress = [0.2, 0.4, -0.1]
    assert return_to_go(steps(*progress)).values.tolist() == pytest.approx([0.5, 0.3, -0.1])


@given(st.data(), batches(), st.sampled_from([0.0, 0.5, 1.0]), st.booleans())
@pytest.mark.parametrize("form", ["sum", "min", "softmin", "last"])
@pytest.mark.parametrize("level", [Level.TURN, Level.TOKEN])
def test_every_form_is_the_loop(
    level: Level, form: str, data: st.DataObject, batch: Batch, discount: float, stops: bool
) -> None:
    x = data.draw(signals(batch, level, failed=True))
    size = batch.size(level)
    stop = torch.tensor(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)), dtype=torch.bool)
    stop = stop if stops else torch.zeros(size, dtype=torch.bool)
    discount = 1.0 if form in ("min", "last") else discount
    made = return_to_go(x, discount=discount, form=form, stop=stop)  # type: ignore[arg-type]
    assert made.residual() <= 1e-12
    owner = batch.owner(level, Level.TRAJECTORY).tolist()
    piece, pieces = 0, []
    for i in range(size):
        if i and (owner[i] != owner[i - 1] or stop[i] or stop[i - 1]):
            piece += 1
        pieces.append(piece)
    for i in range(size):
        ahead = [j for j in range(i, size) if pieces[j] == pieces[i]]
        whole = [j for j in range(size) if pieces[j] == pieces[i] and x.known[j]]
        known = [j for j in ahead if x.known[j]]
        if any(x.presence[j] == Presence.FAILED for j in ahead):
            assert int(made.presence[i]) == Presence.FAILED
            continue
        assert bool(made.known[i]) == bool(known)
        if not known:
            continue
        if form == "min":
            expected = min(float(x.values[j]) for j in known)
        elif form == "last":
            expected = float(x.values[known[-1]])
        else:
            weight = dict.fromkeys(whole, 1.0)
            if form == "softmin":
                low = min(float(x.values[j]) for j in whole)
                weight = {j: math.exp(-(float(x.values[j]) - low) / 0.1) for j in whole}
                weight = {j: w / sum(weight.values()) for j, w in weight.items()}
            expected = sum(discount ** (j - i) * weight[j] * float(x.values[j]) for j in known)
        assert float(made.values[i]) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_missing_steps_still_receive_what_follows() -> None:
    batch = Batch.of(groups=["q"], turns=[4])
    x = Signal.from_verdicts(batch, Level.TURN, [Scored(1), Abstained("-"), Scored(2), Abstained("-")], name="r")
    made = return_to_go(x)
    assert made.values.tolist() == [3.0, 2.0, 2.0, 0.0]
    assert made.known.tolist() == [True, True, True, False]


def test_nobody_knows_a_return_that_includes_a_failure() -> None:
    batch = Batch.of(groups=["q"], turns=[3])
    x = Signal.from_verdicts(batch, Level.TURN, [Scored(1), Failed("-"), Scored(2)], name="r")
    assert return_to_go(x).presence.tolist() == [Presence.FAILED, Presence.FAILED, Presence.KNOWN]


@pytest.mark.parametrize("form", ["sum", "softmin", "min", "last"])
def test_terms_are_carried_along(form: str) -> None:
    batch = Batch.of(groups=["q"], turns=[3])
    a = Signal.of(batch, Level.TURN, [1.0, -0.5, 2.0], name="a")
    b = Signal.of(batch, Level.TURN, [0.0, 0.25, -1.0], name="b")
    made = return_to_go(a + b, form=form)  # type: ignore[arg-type]
    assert made.residual() <= 1e-15
    if form == "min":
        assert made.ledger()["a"].tolist() == [-0.5, -0.5, 2.0]


@pytest.mark.parametrize("form", ["sum", "softmin"])
def test_gradients_agree_with_differences(form: str) -> None:
    batch = Batch.of(groups=["q", "q"], turns=[3, 2])
    raw = torch.tensor([1.0, 0.3, 0.5, 0.2, 0.9], dtype=torch.float64, requires_grad=True)

    def values(v: torch.Tensor) -> torch.Tensor:
        return return_to_go(Signal.of(batch, Level.TURN, v, name="x"), form=form, discount=0.9).values  # type: ignore[arg-type]

    assert torch.autograd.gradcheck(values, (raw,))


@pytest.mark.parametrize(
    "options",
    [
        {"form": "max"},
        {"discount": 1.5},
        {"discount": -0.1},
        {"discount": 0.9, "form": "min"},
        {"temperature": 0.0, "form": "softmin"},
        {"stop": torch.tensor([True])},
    ],
)
def test_bad_options_are_named(options: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument, match=next(iter(options))):
        return_to_go(steps(1.0, 0.0), **options)  # type: ignore[arg-type]


def test_a_trajectory_has_no_order_inside() -> None:
    batch = Batch.of(groups=["q"])
    with pytest.raises(InvalidArgument, match="on_last_token"):
        return_to_go(Signal.of(batch, Level.TRAJECTORY, [1.0], name="r"))
