"""Several processes give what one gives."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.integrations.trl_adapter import two_ranks

pytestmark = pytest.mark.filterwarnings("ignore:You are using 'rollout_func'")


def test_two_ranks_with_straddling_groups_give_the_advantages_of_one(tmp_path: Path) -> None:
    """Global batch of 6 in groups of 2: with 3 rows per rank the middle group lies on both."""
    script = Path(two_ranks.__file__)
    run = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"),
            *(str(script), str(tmp_path / "two")),
        ],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=script.parents[3],
    )
    assert run.returncode == 0, run.stderr[-3000:]
    one = two_ranks.step(tmp_path / "one", ranks=1)
    parts = [torch.load(tmp_path / f"two.rank{rank}.pt") for rank in (0, 1)]
    assert [part["rows"].shape[0] for part in parts] == [3, 3]
    width = one["rows"].shape[1]
    together = torch.cat([torch.nn.functional.pad(p["rows"], (0, width - p["rows"].shape[1])) for p in parts])
    assert torch.equal(together, one["rows"])
    assert one["rows"].abs().sum() > 0
    for part in parts:
        assert part["table"] == one["table"]
        assert part["state"] == one["state"] != {}
        # One of the three rollouts that failed lies on rank 1: by itself it would be 1 of 3, over both it is 3 of 6.
        assert part["failed"] == one["failed"] == "3 of 6"
