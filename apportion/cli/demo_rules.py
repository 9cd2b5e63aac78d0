"""The rules of the shipped rollouts, as a rule file: see `apportion demo --score-only`, `apportion recipes rlvp`."""

from apportion.rewards import Rule, argument, before, called

rules = [
    before(
        called("back_up"),
        called("delete"),
        same="path",
        name="backup_first",
        why="a file was deleted without a copy of it",
    ),
    Rule(
        name="hands_off",
        violates=called("delete") & argument("path", contains="keep/"),
        unpaired="every other file may be deleted, and doing that with a copy earns credit already",
        why="a file that was to be kept was deleted",
    ),
]
