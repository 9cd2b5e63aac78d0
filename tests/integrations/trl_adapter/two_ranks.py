"""One training step on one or more CPU ranks; each rank stores the advantages of its own rows."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[3]))
torch.set_num_threads(1)

from tests.integrations.trl_adapter.tiny import trainer  # noqa: E402

if __name__ == "__main__":
    target = Path(sys.argv[1])
    ranks = int(os.environ["WORLD_SIZE"])
    made = trainer(target, recipe="rlvp", num_generations=2, per_device_train_batch_size=6 // ranks, seed=3)
    kept = {}
    scored = made._generate_and_score_completions

    def keep(inputs):
        output = scored(inputs)
        kept["rows"] = output["advantages"].cpu()
        return output

    made._generate_and_score_completions = keep
    made.train()
    torch.save(kept, f"{target}.rank{os.environ['RANK']}.pt")
