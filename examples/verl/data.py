"""Writes train.parquet and test.parquet: python examples/verl/data.py data/directory."""

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "directory"))
from lookups import tasks

folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
for name, count in (("train", 4096), ("test", 64)):
    rows = [
        {
            "data_source": "directory",
            "prompt": [{"role": "user", "content": task["question"]}],
            "ability": "lookup",
            "reward_model": {"style": "rule", "ground_truth": task["answer"]},
            "extra_info": {"index": i, "facts": task["facts"]},
        }
        for i, task in enumerate(tasks(count))
    ]
    pq.write_table(pa.Table.from_pylist(rows), folder / f"{name}.parquet")
