"""Trees: values go up by means, differences along a path telescope, siblings are compared once each."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from apportion.advantages.branches import branch_tree, branch_values, prefix_tree
from apportion.advantages.group_stat import group_stat
from apportion.advantages.trees import Tree
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.rewards.branches import branch_rewards
from apportion.rewards.prefixes import prefixes
from apportion.rollouts import Level, Trajectory
from apportion.signal import Signal
from tests.branching import rollout, small_tree


def recorded(rows: list[Trajectory]) -> Tree:
    batch = Batch.pack(rows)
    seen = [Signal.from_verdicts(batch, Level.TRAJECTORY, r.observe(rows), name=r.name) for r in branch_rewards()]  # type: ignore[arg-type]
    return branch_tree(*seen)


def computed(rows: list[Trajectory]) -> Tree:
    batch = Batch.pack(rows)
    verdicts = itertools.chain(*prefixes().observe(rows))  # type: ignore[arg-type]
    return prefix_tree(Signal.from_verdicts(batch, Level.TURN, list(verdicts), name="prefix"))


def solved(tree: Tree, *rewards: float | None) -> Signal:
    return Signal.of(tree.batch, Level.TRAJECTORY, rewards, name="outcome")


def described(tree: Tree) -> set[tuple[frozenset[str], frozenset[str]]]:
    """Every node but the roots by the rollouts under it, and its parent by the same."""
    eye = torch.eye(len(tree.batch), dtype=torch.float64)
    under = torch.stack([tree.total(row) for row in eye]) > 0
    named = [frozenset(n for n, at in zip(tree.batch.ids, node, strict=True) if at) for node in under.T.tolist()]
    pairs = zip(named, tree.parent.tolist(), strict=True)
    return {(mine, named[above]) for i, (mine, above) in enumerate(pairs) if i != above}


# ----------------------------------------------------------------------------------------------------------- two forms


def test_the_nodes_are_the_stretches_between_branch_points() -> None:
    tree = recorded(small_tree())
    abcde, acde, de = frozenset(f"p-{n}" for n in "abcde"), frozenset(f"p-{n}" for n in "acde"), {"p-d", "p-e"}
    leaves = {(frozenset({f"p-{n}"}), acde) for n in "ac"} | {(frozenset({n}), frozenset(de)) for n in de}
    inner = {(abcde, abcde), (acde, abcde), (frozenset(de), acde), (frozenset({"p-b"}), abcde)}
    both = frozenset({"q-a", "q-b"})
    assert described(tree) == leaves | inner | {(both, both)} | {(frozenset({f"q-{n}"}), both) for n in "ab"}


def test_recorded_branches_and_equal_turns_make_the_same_tree() -> None:
    rows = [row for row in small_tree() if row.id not in ("p-e", "q-a", "q-b")]  # those branch inside a turn
    assert described(recorded(rows)) == described(computed(rows))
    worth = [t.mean(solved(t, 1, 0, 0, 1).values, torch.ones(4) > 0, over="children") for t in map(recorded, [rows])]
    tree = computed(rows)
    other = tree.mean(solved(tree, 1, 0, 0, 1).values, torch.ones(4) > 0, over="children")
    assert sorted(worth[0].tolist()) == sorted(other.tolist())


def test_a_branch_off_what_its_parent_had_copied_hangs_at_the_writer() -> None:
    rows = [
        rollout("a", [1, 2, 3, 4], 1),
        rollout("b", [1, 2, 3, 5], 0, parent="a", copied=3),
        rollout("c", [1, 6, 7], 0, parent="b", copied=1),
        rollout("d", [1, 2, 3, 8], 0, parent="b", copied=3),
    ]
    tree = recorded(rows)
    everyone, abd = frozenset("abcd"), frozenset("abd")
    assert (abd, everyone) in described(tree)
    assert {(frozenset({n}), abd) for n in "abd"} <= described(tree)
    assert tree.fresh.tolist() == [True] * 4 + [False] * 3 + [True] + [False, True, True] + [False] * 3 + [True]


def test_copied_elements_lie_on_the_nodes_of_those_who_wrote_them() -> None:
    tree = recorded(small_tree())
    by_rollout = torch.split(tree.node, tree.batch.tokens_per_trajectory.tolist())
    a, b, c, d, e = by_rollout[:5]
    assert torch.equal(b[:2], a[:2])
    assert torch.equal(c[:4], a[:4])
    assert torch.equal(e[:5], d[:5])
    assert [int(row[-1]) for row in by_rollout] == list(range(7))


def test_a_parent_that_is_absent_still_joins_its_branches() -> None:
    rows = small_tree()[:4]
    batch = Batch.pack(rows)
    seen = [Signal.from_verdicts(batch, Level.TRAJECTORY, r.observe(rows), name=r.name) for r in branch_rewards()]  # type: ignore[arg-type]
    rest = batch.select([1, 2, 3])
    tree = branch_tree(*[Signal.of(rest, Level.TRAJECTORY, x.values[1:], name="x") for x in seen])
    bcd, cd = frozenset({"p-b", "p-c", "p-d"}), frozenset({"p-c", "p-d"})
    assert {(bcd, bcd), (cd, bcd), (frozenset({"p-c"}), cd)} <= described(tree)


def test_rollouts_about_which_nothing_is_said_are_nobody_else() -> None:
    b = Batch.of(groups=["q"] * 3, tokens=[2, 0, 0])
    numbers = [Signal.of(b, Level.TRAJECTORY, v, name="n") for v in ([0.0, None, None], [None] * 3, [None] * 3)]
    assert branch_tree(*numbers).parent.tolist() == [3, 3, 3, 3]
    branched = [Signal.of(b, Level.TRAJECTORY, v, name="n") for v in ([0.0, 1.0, None], [None, 0.0, None], [0, 1, 0])]
    found = branch_values(*branched, Signal.of(b, Level.TRAJECTORY, [0.0, 1.0, 0.0], name="outcome"))
    assert found.values.tolist() == [0.0, 1.0]


def test_branches_off_an_absent_rollout_value_no_state_of_another() -> None:
    b = Batch.of(groups=["q"] * 2, tokens=[3, 3])
    numbers = [Signal.of(b, Level.TRAJECTORY, v, name="n") for v in ([1.0, 2.0], [9.0, 1.0], [1.0, 3.0])]
    found = branch_values(*numbers, Signal.of(b, Level.TRAJECTORY, [1.0, 1.0], name="outcome"))
    assert not found.known.any()  # the first left somebody who is not here, the second where its parent ended


def test_two_prompts_never_share_a_node() -> None:
    b = Batch.of(groups=["q", "p"], tokens=[2, 2])
    numbers = [Signal.of(b, Level.TRAJECTORY, v, name="n") for v in ([7.0, 8.0], [None, 7.0], [None, 1.0])]
    tree = branch_tree(*numbers)
    assert tree.root[:2].tolist() == [2, 3]
    same = prefix_tree(Signal.of(Batch.of(groups=["q", "p"]), Level.TURN, [1.0, 1.0], name="prefix"))
    assert same.node.tolist() == [0, 1]


def test_parents_in_a_circle_are_refused() -> None:
    b = Batch.of(groups=["q"] * 3, tokens=[2, 2, 2], ids=["a", "b", "c"])
    numbers = [Signal.of(b, Level.TRAJECTORY, v, name="n") for v in ([1, 2, 3], [2, 3, 1], [1, 1, 1])]
    with pytest.raises(InvalidArgument, match="circle"):
        branch_tree(*numbers)


def test_ids_that_are_no_exact_prefixes_are_refused() -> None:
    b = Batch.of(groups=["q"] * 2, turns=[2, 2], ids=["a", "b"])
    with pytest.raises(InvalidArgument, match="follow different ones"):
        prefix_tree(Signal.of(b, Level.TURN, [1.0, 3.0, 2.0, 3.0], name="prefix"))
    with pytest.raises(InvalidArgument, match="whole numbers"):
        prefix_tree(Signal.of(b, Level.TURN, [1.5, 3.0, 2.0, 3.0], name="prefix"))


def test_after_an_unknown_turn_nothing_is_shared() -> None:
    b = Batch.of(groups=["q"] * 2, turns=[2, 2])
    tree = prefix_tree(Signal.of(b, Level.TURN, [None, 3.0, None, 3.0], name="prefix"))
    assert tree.node.tolist() == [0, 0, 1, 1]


# -------------------------------------------------------------------------------------------------------------- values


def test_means_of_leaves_and_of_children_differ_where_branches_are_uneven() -> None:
    tree = recorded(small_tree())
    x = solved(tree, 1, 0, 0, 1, 1, 1, 0)
    leaves = tree.mean(x.values, x.known, over="leaves")
    children = tree.mean(x.values, x.known, over="children")
    first = tree.node[0]
    assert leaves[first] == pytest.approx(3 / 5)
    assert children[first] == pytest.approx((0 + (1 + 0 + 1) / 3) / 2)


def test_what_is_unknown_is_in_no_mean() -> None:
    tree = recorded(small_tree())
    x = solved(tree, 1, None, 0, None, None, 1, 0)
    assert tree.mean(x.values, x.known, over="leaves")[tree.node[0]] == 0.5
    assert tree.count(x.known)[tree.node[0]] == 2
    with pytest.raises(InvalidArgument, match="over"):
        tree.mean(x.values, x.known, over="nodes")  # type: ignore[arg-type]


def test_sums_of_differences_along_a_path_telescope() -> None:
    tree = recorded(small_tree())
    x = solved(tree, 1, 0, 0, 1, 1, 1, 0)
    for over in ("leaves", "children"):
        worth = tree.mean(x.values, x.known, over=over)  # type: ignore[arg-type]
        gain = worth - worth[tree.parent]
        for leaf in range(len(tree.batch)):
            total, at = 0.0, leaf
            while int(tree.parent[at]) != at:
                total, at = total + float(gain[at]), int(tree.parent[at])
            assert total == pytest.approx(float(worth[leaf] - worth[tree.root[leaf]]))


def test_siblings_are_compared_each_counted_once() -> None:
    tree = computed(small_tree()[:4])
    worth = tree.mean(solved(tree, 1, 0, 0, 1).values, torch.ones(4) > 0, over="leaves")
    x = Signal.of(tree.batch, Level.TURN, worth[tree.node], name="value")
    made = group_stat(x, key=tree.siblings, unit=tree.node, scale="none").values.tolist()
    # b against the stretch that a, c and d share: 0 and 2/3; a, c, d against each other: 1, 0, 1.
    shared, a, b, c = made[1], made[2], made[4], made[7]
    assert (shared, b) == pytest.approx((1 / 3, -1 / 3))
    assert (a, c) == pytest.approx((1 / 3, -2 / 3))


def test_terms_reach_the_elements() -> None:
    tree = recorded(small_tree())
    x = solved(tree, 1, 0, 0, 1, 1, 1, 0) + 0.5 * solved(tree, 0, 1, 0, 0, 1, 0, 0).named("format")

    def up(values: torch.Tensor) -> torch.Tensor:
        return tree.mean(values, x.known, over="children")

    spread = tree.spread(x, up, tree.count(x.known) > 0)
    assert set(spread.terms) == {"outcome", "format"}
    assert spread.residual() <= 1e-12
    assert not spread.known[~tree.fresh].any()
    with pytest.raises(InvalidArgument, match="TRAJECTORY"):
        tree.spread(x.spread(Level.TOKEN), up, tree.count(x.known) > 0)


def test_no_rollout_without_a_turn_breaks_it() -> None:
    b = Batch.of(groups=["q", "q"], turns=[0, 1])
    tree = prefix_tree(Signal.of(b, Level.TURN, [4.0], name="prefix"))
    assert tree.parent.tolist() == [2, 2, 2]
    none = Batch.of(groups=["q", "q"], turns=[0, 0])
    whole = prefix_tree(Signal.of(none, Level.TURN, torch.empty(0), name="prefix"))
    assert (whole.level, whole.node.tolist(), whole.parent.tolist()) == (Level.TRAJECTORY, [0, 1], [2, 2, 2])


# --------------------------------------------------------------------------------------------------- against plain code


def brute(paths: list[list[int]], rewards: list[float], prefix: tuple[int, ...]) -> float:
    """The mean over children, by recursion over all prefixes."""
    here = [r for path, r in zip(paths, rewards, strict=True) if tuple(path) == prefix]
    longer = {tuple(p[: len(prefix) + 1]) for p in paths if tuple(p[: len(prefix)]) == prefix and len(p) > len(prefix)}
    below = [brute(paths, rewards, child) for child in sorted(longer)]
    return sum(here + below) / len(here + below)


@given(st.lists(st.lists(st.integers(1, 2), max_size=4), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_values_equal_those_of_a_recursion(paths: list[list[int]], random: st.DataObject) -> None:
    rewards = [float(random.randint(0, 3)) for _ in paths]  # type: ignore[attr-defined]
    batch = Batch.of(groups=["q"] * len(paths), turns=[len(p) for p in paths])
    codes = [float(int("".join(map(str, path[: k + 1])))) for path in paths for k in range(len(path))]
    tree = prefix_tree(Signal.of(batch, Level.TURN, torch.tensor(codes, dtype=torch.float64), name="prefix"))
    worth = tree.mean(torch.tensor(rewards, dtype=torch.float64), torch.ones(len(paths)) > 0, over="children")
    prefixes_of = [tuple(path[: k + 1]) for path in paths for k in range(len(path))]
    nodes = tree.node.tolist() if prefixes_of else []
    for node, prefix in zip(nodes, prefixes_of, strict=True):
        assert float(worth[node]) == pytest.approx(brute(paths, rewards, prefix))
    assert float(worth[tree.root[0]]) == pytest.approx(brute(paths, rewards, ()))


@st.composite
def grown(draw: st.DrawFn) -> list[Trajectory]:
    """Rollouts that branch off each other anywhere; whoever writes a token writes a new one."""
    rows: list[Trajectory] = []
    for i in range(draw(st.integers(1, 6))):
        source = draw(st.none() | st.sampled_from(rows)) if rows else None
        most = 0 if source is None or source.response_ids is None else source.response_ids.size
        copied = draw(st.integers(0, most))
        old = [] if source is None or source.response_ids is None else source.response_ids[:copied].tolist()
        ids = [*old, *range(100 * i, 100 * i + draw(st.integers(0, 3)))]
        rows.append(rollout(str(i), ids, 1.0, parent=source and source.id, copied=copied))
    return draw(st.permutations(rows))


@given(grown())
def test_recorded_branches_make_the_tree_of_all_prefixes(rows: list[Trajectory]) -> None:
    tree = recorded(rows)
    paths = {t.id: t.response_ids.tolist() for t in rows if t.response_ids is not None}
    everyone = frozenset(paths)
    expected, on = set(), []
    for name, path in paths.items():
        chain, lone = [everyone], frozenset({name})
        for k in range(1, len(path) + 1):
            sharing = frozenset(n for n, other in paths.items() if other[:k] == path[:k])
            on.append(sharing)
            if len(sharing) > 1 and (len(chain) == 1 or sharing != chain[-1]):
                chain.append(sharing)
        expected |= set(itertools.pairwise([*chain, lone]))
    assert described(tree) == {(child, parent) for parent, child in expected}
    if tree.level == Level.TOKEN:
        under = torch.stack([tree.total(row) for row in torch.eye(len(rows), dtype=torch.float64)]) > 0
        ids = tree.batch.ids
        assert [
            frozenset(n for n, at in zip(ids, node, strict=True) if at) for node in under.T[tree.node].tolist()
        ] == on


def test_ten_thousand_rollouts_take_no_loop_over_them() -> None:
    codes = torch.arange(20_000) // 16
    batch = Batch.of(groups=["q"] * 10_000, turns=[2] * 10_000)
    codes[1::2] += 10_000_000 + torch.arange(10_000)
    tree = prefix_tree(Signal.of(batch, Level.TURN, codes.double(), name="prefix"))
    assert len(tree) == 10_000 + 1 + 1250
