"""Order statistics inside groups against sorting each group."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from apportion.advantages.order import at_rank, lower_median

ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(-3, 3), st.booleans()), min_size=1, max_size=12)


@given(ROWS)
def test_every_rank_and_the_median(rows: list[tuple[int, int, bool]]) -> None:
    key, values = torch.tensor([r[0] for r in rows]), torch.tensor([float(r[1]) for r in rows])
    known = torch.tensor([r[2] for r in rows])
    sizes = [sum(1 for g, _, k in rows if k and g == group) for group in range(4)]
    for rank in range(max(sizes)):
        found = at_rank(values, key, known, torch.full((4,), rank))
        for group in range(4):
            ordered = sorted((v, i) for i, (g, v, k) in enumerate(rows) if k and g == group)
            if rank < len(ordered):
                assert int(found[group]) == ordered[rank][1]
    medians = lower_median(values, key, known, torch.tensor(sizes))
    for group, size in enumerate(sizes):
        if size:
            mine = [float(v) for g, v, k in rows if k and g == group]
            assert float(values[medians[group]]) == float(torch.tensor(mine).median())


def test_a_rank_that_does_not_exist_is_still_a_position() -> None:
    found = at_rank(torch.tensor([1.0]), torch.tensor([1]), torch.tensor([True]), torch.tensor([0, -1, 5]))
    assert found.tolist() == [0, 0, 0]
