"""Rollout files: read them, write them, and walk through ones that do not fit into memory.

    jsonl      native, one trajectory a line; what `write` makes              docs/rollout_format.md
    parquet    native, ragged list columns that already are the packed layout
    messages   one OpenAI-style message list with a reward a row
    replies    one prompt with its replies and their rewards a row: a row is a group
    sweagent   one `.traj` file of a SWE-agent run

    for trajectory in read("rollouts.jsonl.gz"): ...
    with RolloutIndex("rollouts.jsonl") as index:
        for chunk in index.groups(): ...                # whole groups, wherever their rows lie in the file

Every reader streams, reads `.gz` as it is, and refuses a row it does not understand with a `BadRow` that names file,
line, field and remedy; nothing is lost silently.
"""

from apportion.integrations.files.detect import Format, detect_format
from apportion.integrations.files.index import RolloutIndex
from apportion.integrations.files.native import SCHEMA_VERSION
from apportion.integrations.files.reader import OnError, read
from apportion.integrations.files.rows import Progress
from apportion.integrations.files.writer import write

__all__ = ["SCHEMA_VERSION", "Format", "OnError", "Progress", "RolloutIndex", "detect_format", "read", "write"]
