"""Rules about what commands do, read from a real parse and never from their text; needs the extra `rules`.

    path([Rule(name="tests_stay", violates=writes("tests/**", "conftest.py"), unpaired="leaving them alone is enough")])

- programs: `runs`, `skips_hooks`, `reads_history`
- files: `deletes`, `writes`, `overwrites_unread`, `discards_changes`, `restores`
- proof: `snapshot`, `restore_proof`
- underneath: `analyse` gives the `Effect`s of one command line in a `State`
"""

from apportion.rewards.shell.analyse import analyse
from apportion.rewards.shell.command_rules import reads_history, runs, skips_hooks
from apportion.rewards.shell.effects import Effect
from apportion.rewards.shell.file_rules import deletes, discards_changes, overwrites_unread, restores, writes
from apportion.rewards.shell.parsing import Limits
from apportion.rewards.shell.snapshots import Changes, Snapshot, restore_proof, snapshot
from apportion.rewards.shell.state import State, Workspace
from apportion.rewards.shell.tools import action_effects

__all__ = [
    "Changes",
    "Effect",
    "Limits",
    "Snapshot",
    "State",
    "Workspace",
    "action_effects",
    "analyse",
    "deletes",
    "discards_changes",
    "overwrites_unread",
    "reads_history",
    "restore_proof",
    "restores",
    "runs",
    "skips_hooks",
    "snapshot",
    "writes",
]
