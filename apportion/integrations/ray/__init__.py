"""Scoring beyond one process, on Ray: blocks of whole groups, one committed Parquet file each, and runs that resume.

    rollouts --index--> blocks --Ray Data: a pool of workers--> block-00000.parquet, block-00001.parquet, ...

Nothing here imports ray before a run starts; `read_blocks` never does. See docs/scale.md.
"""

from apportion.integrations.ray.engine import BlockRun
from apportion.integrations.ray.folder import read_blocks

__all__ = ["BlockRun", "read_blocks"]
