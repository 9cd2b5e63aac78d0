"""Packing: lengths in, the same tokens out, and no token that the policy did not write."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.rollouts import Level, Trajectory, Turn
from tests.strategies import batches, masks, trajectories

PAIRS = [(a, b) for a in Level for b in Level if a <= b]


def numbers(n: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def same(a: Batch, b: Batch) -> bool:
    plain = (a.ids, a.group_ids, a.has_tokens) == (b.ids, b.group_ids, b.has_tokens)
    names = ("group", "turns", "lead", "gaps", "status") + (("tokens", "offsets") if a.has_tokens else ())
    return plain and all(torch.equal(getattr(a, n), getattr(b, n)) for n in names)


@given(trajectories())
def test_pack_keeps_every_policy_token_at_its_place(rollouts: list[Trajectory]) -> None:
    batch = Batch.pack(rollouts)
    row = batch.owner(Level.TOKEN, Level.TRAJECTORY)
    for i, rollout in enumerate(rollouts):
        assert batch.offsets[row == i].tolist() == np.flatnonzero(rollout.policy).tolist()
    assert batch.response_lengths.tolist() == [len(r.response_ids) for r in rollouts]  # type: ignore[arg-type]
    assert [batch.group_ids[g] for g in batch.group] == [r.group for r in rollouts]
    own = torch.ones(batch.n_tokens, dtype=torch.bool) if batch.own is None else batch.own
    assert own.tolist() == [bool(o) for r in rollouts for o in r.own[r.policy]]  # type: ignore[index]
    logps = batch.token_columns["behaviour_logps"]
    assert logps.tolist() == [x for r in rollouts for x in r.behaviour_logps[r.policy]]  # type: ignore[index]


def test_observations_inside_a_turn_keep_their_place() -> None:
    spans = (Turn(span=(1, 5)), Turn(span=(5, 7)))
    rollout = Trajectory(
        id="r", group="q", response_ids=[0] * 7, policy=[False, True, False, True, False, True, False], turns=spans
    )
    batch = Batch.pack([rollout])
    assert batch.tokens is not None
    assert (batch.tokens.tolist(), batch.offsets.tolist()) == ([2, 1], [1, 3, 5])
    assert batch.pad(torch.tensor([1.0, 2.0, 3.0])).tolist() == [[0, 1, 0, 2, 0, 3, 0]]
    plain = Batch.pack([Trajectory(id="s", group="q", response_ids=[0, 0], policy=[False, True])])
    assert Batch.concat([plain, batch]).offsets.tolist() == [1, 1, 3, 5]
    assert Batch.concat([plain, batch]).select([1]).offsets.tolist() == [1, 3, 5]


def test_token_columns_follow_the_policy_tokens_and_are_unknown_where_absent() -> None:
    critic = Trajectory(
        id="r", group="q", response_ids=[1, 2, 3], policy=[1, 0, 1], token_columns={"values": [0.5, 9.0, 0.25]}
    )
    batch = Batch.pack([critic, Trajectory(id="s", group="q", response_ids=[4])])
    values = batch.token_columns["values"]
    assert values[:2].tolist() == [0.5, 0.25]
    assert bool(torch.isnan(values[2]))


@given(masks())
def test_pad_after_unpad_is_the_mask_times_the_values(mask: torch.Tensor) -> None:
    batch = Batch.from_mask(mask, ["q"] * len(mask))
    padded = numbers(mask.numel()).reshape(mask.shape)
    assert torch.equal(batch.pad(batch.unpad(padded), width=mask.shape[1]), padded * mask)


@given(batches())
def test_unpad_after_pad_is_the_identity(batch: Batch) -> None:
    values = numbers(batch.n_tokens)
    assert torch.equal(batch.unpad(batch.pad(values)), values)


@given(masks(), st.integers(0, 3))
def test_more_padding_is_the_same_batch(mask: torch.Tensor, extra: int) -> None:
    groups = ["q"] * len(mask)
    wide = torch.cat((mask, torch.zeros(len(mask), extra, dtype=mask.dtype)), 1)
    a, b = Batch.from_mask(mask, groups), Batch.from_mask(wide, groups)
    assert a.tokens is not None
    assert b.tokens is not None
    assert torch.equal(a.tokens, b.tokens)
    assert torch.equal(a.offsets, b.offsets)


@given(batches())
@pytest.mark.parametrize(("child", "parent"), PAIRS)
def test_spread_and_pool_are_adjoint(child: Level, parent: Level, batch: Batch) -> None:
    coarse, fine = numbers(batch.size(parent)), numbers(batch.size(child), seed=1)
    down = (batch.spread(coarse, parent, child) * fine).sum()
    up = (coarse * batch.pool(fine, child, parent, "sum")).sum()
    assert float(down) == pytest.approx(float(up), abs=1e-12)


@given(batches())
@pytest.mark.parametrize("middle", [Level.TURN, Level.TRAJECTORY])
def test_moves_compose(middle: Level, batch: Batch) -> None:
    coarse, fine = numbers(batch.size(Level.GROUP)), numbers(batch.n_tokens)
    two_steps = batch.spread(batch.spread(coarse, Level.GROUP, middle), middle, Level.TOKEN)
    assert torch.equal(two_steps, batch.spread(coarse, Level.GROUP, Level.TOKEN))
    up = batch.pool(batch.pool(fine, Level.TOKEN, middle, "sum"), middle, Level.GROUP, "sum")
    torch.testing.assert_close(up, batch.pool(fine, Level.TOKEN, Level.GROUP, "sum"))


@given(batches())
@pytest.mark.parametrize("how", ["mean", "min", "max"])
def test_pooling_what_was_spread_gives_it_back(how: str, batch: Batch) -> None:
    coarse = numbers(batch.size(Level.TRAJECTORY))
    back = batch.pool(batch.spread(coarse, Level.TRAJECTORY, Level.TOKEN), Level.TOKEN, Level.TRAJECTORY, how)  # type: ignore[arg-type]
    some = batch.tokens_per_trajectory > 0
    torch.testing.assert_close(back[some], coarse[some])
    assert (back[~some] == 0).all()


@pytest.mark.parametrize(("how", "sign"), [("min", 1.0), ("max", -1.0)])
def test_the_extremes_of_a_group_are_values_of_it(how: str, sign: float) -> None:
    values = sign * torch.tensor([2.0, 5.0, 3.0], dtype=torch.float64)
    batch = Batch.of(groups=["a", "b", "a"])
    assert batch.pool(values, Level.TRAJECTORY, Level.GROUP, how).tolist() == [sign * 2.0, sign * 5.0]  # type: ignore[arg-type]


@given(batches(tokens=None))
def test_selecting_everything_is_the_identity(batch: Batch) -> None:
    order = sorted(range(len(batch)), key=lambda i: int(batch.group[i]))
    back = sorted(range(len(batch)), key=lambda i: order[i])
    assert same(batch.select(order).select(back), batch.select(range(len(batch))))


@given(batches(tokens=None), st.integers(0, 6))
def test_concatenating_the_parts_gives_the_whole(batch: Batch, cut: int) -> None:
    cut = min(cut, len(batch))
    parts = [list(range(cut)), list(range(cut, len(batch)))]
    whole = Batch.concat([batch.select(part) for part in parts if part])
    assert same(whole, batch)


def test_concatenation_joins_groups_of_one_id() -> None:
    a = Batch.of(groups=["q", "p"], ids=["a0", "a1"])
    b = Batch.of(groups=["p", "q"], ids=["b0", "b1"])
    joined = Batch.concat([a, b])
    assert (joined.group_ids, joined.group.tolist()) == (("q", "p"), [0, 1, 1, 0])


def test_a_selection_forgets_groups_that_it_left() -> None:
    batch = Batch.of(groups=["a", "b", "a"], tokens=[1, 2, 3]).select([1])
    assert (batch.group_ids, batch.group.tolist(), batch.ids) == (("b",), [0], ("1",))


@pytest.mark.parametrize("wrong", [[0, 0], [3], [-1]])
def test_a_selection_names_each_trajectory_once(wrong: list[int]) -> None:
    with pytest.raises(InvalidArgument, match="index"):
        Batch.of(groups=["a"] * 3).select(wrong)


def test_a_mask_is_not_a_selection() -> None:
    # Read as positions it would silently choose trajectories 1 and 0.
    with pytest.raises(InvalidArgument, match="nonzero"):
        Batch.of(groups=["a"] * 2).select(torch.tensor([True, False]))


def test_own_and_columns_travel() -> None:
    own = torch.tensor([True, False, True])
    logps = {"behaviour_logps": torch.tensor([-1.0, -2.0, -3.0])}
    a = Batch.of(groups=["q", "q"], tokens=[2, 1], own=own, token_columns=logps)
    b = Batch.of(groups=["q"], ids=["b"], tokens=[1], token_columns={"behaviour_logps": torch.tensor([-4.0])})
    both = Batch.concat([a, b])
    assert both.own is not None
    assert both.own.tolist() == [True, False, True, True]
    assert both.select([2, 0]).token_columns["behaviour_logps"].tolist() == [-4.0, -1.0, -2.0]
    with pytest.raises(InvalidArgument, match="columns"):
        Batch.concat([a, Batch.of(groups=["q"], ids=["b"], tokens=[1])])


def test_group_ids_that_read_the_same_are_one_group() -> None:
    assert Batch.of(groups=[1, "1", np.int64(1)]).group.tolist() == [0, 0, 0]


def test_group_ids_in_a_tensor_are_its_numbers() -> None:
    assert Batch.of(groups=torch.tensor([7, 8, 7])).group_ids == ("7", "8")
    assert Batch.of(groups=[torch.tensor(7), np.int64(7), 7]).group_ids == ("7",)
    # Printed with four digits these two are one.
    assert len(Batch.of(groups=torch.tensor([1.00001, 1.00002], dtype=torch.float64)).group_ids) == 2


def test_text_only_rollouts_end_at_turns() -> None:
    batch = Batch.pack([Trajectory(id="t", group="q", turns=(Turn(text="hi"), Turn(text="bye")))])
    assert (batch.finest, batch.has_tokens, batch.size(Level.TURN)) == (Level.TURN, False, 2)
    with pytest.raises(InvalidArgument, match="text only"):
        batch.size(Level.TOKEN)
    with pytest.raises(InvalidArgument, match="text only"):
        batch.lengths(Level.TOKEN, Level.TURN)


def test_token_and_text_rollouts_do_not_mix() -> None:
    text, tokens = Trajectory(id="text", group="q"), Trajectory(id="ids", group="q", response_ids=[1])
    with pytest.raises(InvalidArgument, match="text"):
        Batch.pack([text, tokens])
    with pytest.raises(InvalidArgument, match="batches"):
        Batch.concat([Batch.pack([text]), Batch.pack([tokens])])


@pytest.mark.parametrize(
    "make",
    [
        lambda: Batch.of(groups=[]),
        lambda: Batch.pack([]),
        lambda: Batch.concat([]),
        lambda: Batch.of(groups=["a", "b"], ids=["x", "x"]),
        lambda: Batch.of(groups=["a"], turns=[2], tokens=[1]),
        lambda: Batch.of(groups=["a"], turns=[-1]),
        lambda: Batch.of(groups=["a"], tokens=[2], own=torch.tensor([True])),
        lambda: Batch.of(groups=["a", "b"], status=["terminated"]),
        lambda: Batch.of(groups=["a", "b"], status=["terminated", "done"]),
        lambda: Batch.of(groups=["a"], tokens=[2], positions=torch.tensor([1, 0])),
        lambda: Batch.of(groups=["a"], tokens=[2], positions=torch.tensor([1, 1])),
        lambda: Batch.of(groups=["a", "b"], tokens=[1, 1], positions=torch.tensor([0, -1])),
        lambda: Batch.of(groups=np.array([1.0, np.nan], dtype=np.float32)),
        lambda: Batch.from_mask(torch.ones(2, 3), ["a"]),
        lambda: Batch.of(groups=["a"], tokens=[3]).pad(torch.ones(3), width=2),
        lambda: Batch.of(groups=["a"], tokens=[3]).unpad(torch.ones(1, 2)),
        lambda: Batch.of(groups=["a"], tokens=[3]).unpad(torch.ones(2, 3)),
        lambda: Batch.of(groups=["a"]).spread(torch.ones(1), Level.TURN, Level.TRAJECTORY),
        lambda: Batch.of(groups=["a"]).pool(torch.ones(1), Level.TRAJECTORY, Level.TURN, "sum"),
        lambda: Batch.of(groups=["a"]).pool(torch.ones(1), Level.TURN, Level.GROUP, "last"),
    ],
)
def test_bad_batches_are_refused(make: object) -> None:
    with pytest.raises(InvalidArgument):
        make()  # type: ignore[operator]


@given(masks())
def test_a_padded_batch_knows_no_token_outside_the_mask(mask: torch.Tensor) -> None:
    batch = Batch.from_mask(mask, ["q"] * len(mask))
    poisoned = torch.where(mask != 0, 1.0, float("nan"))
    assert torch.equal(batch.unpad(poisoned), torch.ones(int(mask.sum())))


@given(batches())
def test_scan_restarts_in_every_trajectory(batch: Batch) -> None:
    ones = torch.ones(batch.n_tokens, dtype=torch.float64)
    to_go = batch.scan(ones, Level.TOKEN)
    first = batch.pool(to_go, Level.TOKEN, Level.TRAJECTORY, "max")
    assert first.tolist() == batch.tokens_per_trajectory.tolist()


def test_to_moves_every_tensor() -> None:
    batch = Batch.of(groups=["a"], tokens=[2], own=torch.tensor([True, False]), token_columns={"x": torch.ones(2)})
    moved = batch.to("meta")
    tensors = [moved.group, moved.turns, moved.tokens, moved.lead, moved.gaps, moved.own, moved.token_columns["x"]]
    assert {t.device.type for t in tensors if t is not None} == {"meta"}


def test_an_aborted_rollout_with_nothing_recorded_joins_a_token_exact_batch() -> None:
    """One dead sandbox must not make the other rollouts unscorable."""
    alive = Trajectory(id="a", group="q", response_ids=[1, 2], behaviour_logps=[-0.5, -0.25])
    dead = Trajectory(id="b", group="q", status="aborted", error="the sandbox did not answer")
    other = Trajectory(id="c", group="q", response_ids=[3], policy=[1])
    packed = Batch.pack([alive, dead, other])
    assert packed.turns.tolist() == [1, 0, 1]
    assert packed.tokens_per_trajectory.tolist() == [2, 0, 1]
    assert packed.token_columns["behaviour_logps"][:2].tolist() == [-0.5, -0.25]
    with pytest.raises(InvalidArgument, match="but for aborted"):
        Batch.pack([alive, Trajectory(id="d", group="q")])
