"""Makes the rollouts of `apportion demo --score-only`: a scripted agent that cleans up files in a simulated folder.

The scripts say what the agent did; what the tools answered and whether the task was solved is computed. Nothing here
was sampled from a model: the log-probabilities are random numbers, and a token is a word or a sign.

    python -m apportion.cli.demo_rollouts demo_rollouts.jsonl
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from apportion.integrations.files import write
from apportion.rollouts import Action, Status, Trajectory, Turn

__all__ = ["ROLLOUTS", "TASKS", "Task", "rollouts"]

ROLLOUTS = Path(__file__).with_name("demo_rollouts.jsonl")

_PIECE = re.compile(r"<\|\w+\|>|\w+|[^\w\s]|\s+")


@dataclass(frozen=True, kw_only=True)
class Task:
    """One prompt and the attempts at it.

    Attributes:
        name: the group id.
        prompt: what the agent was asked.
        junk: files that must be gone at the end.
        keep: files that must still be there.
        attempts: one script per rollout; each line is a tool and what it is used on.
    """

    name: str
    prompt: str
    junk: tuple[str, ...]
    keep: tuple[str, ...]
    attempts: tuple[str, ...]


TASKS = (
    Task(
        name="old-logs",
        prompt="Delete the logs from last year. Make a copy of a file before you delete it, and leave keep/ alone.",
        junk=("logs/jan.log", "logs/feb.log"),
        keep=("keep/audit.log",),
        attempts=(
            "list logs; back_up logs/jan.log; back_up logs/feb.log; delete logs/jan.log; delete logs/feb.log; finish",
            "list logs; delete logs/jan.log; delete logs/feb.log; finish",
            "list logs; back_up logs/jan.log; delete logs/jan.log; finish",
            "list logs; list keep; list logs; list keep; list logs; list keep",
        ),
    ),
    Task(
        name="temp-files",
        prompt="Remove the temporary files of the crashed build. Copies first; nothing in keep/ may go.",
        junk=("tmp/a.o", "tmp/b.o", "tmp/core"),
        keep=("keep/build.cfg",),
        attempts=(
            "delete keep/build.cfg; delete tmp/a.o; finish",
            "list tmp; back_up tmp/a.o; delete tmp/a.o; finish",
            "finish",
            "list tmp; delete tmp/core; finish",
        ),
    ),
    Task(
        name="empty-notes",
        prompt="Delete the empty note. Copy it before you delete it.",
        junk=("notes/blank.txt",),
        keep=("keep/todo.txt",),
        attempts=(
            "list notes; back_up notes/blank.txt; delete notes/blank.txt; finish",
            "delete notes/blank.txt; finish",
            "back_up notes/blank.txt; delete notes/blank.txt; finish",
            "list notes; delete notes/blank.txt; finish",
        ),
    ),
    Task(
        name="twin-photos",
        prompt="Two photos are the same. Delete one of them, with a copy made first.",
        junk=("photos/beach_2.jpg",),
        keep=("photos/beach.jpg",),
        attempts=(
            "list photos; back_up photos/beach_2.jpg; delete photos/beach_2.jpg; finish",
            "list photos; delete photos/beach.jpg; finish",
            "list photos; back_up photos/beach_2.jpg; finish",
            "list photos; back_up photos/beach_2.jpg; crash",
        ),
    ),
    Task(
        name="screenshots",
        prompt="Clear the screenshots folder, but copy every file before it goes.",
        junk=("shots/1.png", "shots/2.png"),
        keep=("keep/logo.png",),
        attempts=(
            "list shots; delete shots/1.png; finish",
            "list shots; back_up shots/1.png; back_up shots/2.png; delete shots/1.png; delete shots/2.png; finish",
            "list keep; delete keep/logo.png; finish",
            "list shots; back_up shots/1.png; delete shots/1.png; delete shots/2.png; finish",
        ),
    ),
    Task(
        name="one-report",
        prompt="Delete the draft of the report after copying it.",
        junk=("docs/draft.md",),
        keep=("docs/report.md",),
        attempts=("list docs; back_up docs/draft.md; delete docs/draft.md; finish",),
    ),
)


@dataclass
class _Folder:
    """The simulated file system."""

    files: set[str]
    copies: set[str] = field(default_factory=set)

    def use(self, tool: str, target: str) -> str:
        """Run a tool and say what it answers."""
        if tool == "finish":
            return ""
        if tool == "list":
            return " ".join(sorted(f for f in self.files if f.startswith(target + "/"))) or "nothing there"
        if target not in self.files:
            return f"no such file: {target}"
        if tool == "back_up":
            self.copies.add(target)
            return f"copied {target}"
        self.files.discard(target)
        return f"deleted {target}"


def rollouts() -> list[Trajectory]:
    """Every attempt at every task; the same list each time.

    Example:
        >>> made = rollouts()
        >>> len(made), made[0].id, made[0].n_turns, made[0].columns
        (21, 'old-logs/0', 6, {'reward': 1.0})
    """
    vocabulary: dict[str, int] = {}
    rng = np.random.default_rng(7)
    return [
        _attempt(task, number, script, vocabulary, rng) for task in TASKS for number, script in enumerate(task.attempts)
    ]


def _attempt(task: Task, number: int, script: str, vocabulary: dict[str, int], rng: np.random.Generator) -> Trajectory:
    def encode(text: str) -> list[int]:
        return [vocabulary.setdefault(piece, len(vocabulary)) for piece in _PIECE.findall(text)]

    folder = _Folder({*task.junk, *task.keep})
    turns: list[Turn] = []
    ids: list[int] = []
    policy: list[bool] = []
    status: Status = "truncated"
    for step in script.split("; "):
        tool, _, target = step.partition(" ")
        if tool == "crash":
            status = "aborted"
            break
        where = {"finish": {}, "list": {"folder": target}}.get(tool, {"path": target})
        text = f"{tool}({target!r})" if target else f"{tool}()"
        answer = folder.use(tool, target)
        wrote, observed = encode(f"{text}<|end|>"), encode(f"<|tool|>{answer}<|agent|>") if answer else []
        start = len(ids)
        ids += wrote + observed
        policy += [True] * len(wrote) + [False] * len(observed)
        turns.append(
            Turn(
                text=text,
                actions=(Action(name=tool, arguments=where, raw=text, syntax="demo"),),
                observation=answer,
                span=(start, len(ids)),
            )
        )
        if tool == "finish":
            status = "terminated"
    solved = folder.files.isdisjoint(task.junk) and folder.files.issuperset(task.keep)
    return Trajectory(
        id=f"{task.name}/{number}",
        group=task.name,
        step=1,
        prompt_ids=np.array(encode(f"<|user|>{task.prompt}<|agent|>")),
        response_ids=np.array(ids),
        policy=np.array(policy),
        behaviour_logps=np.where(policy, -np.round(rng.exponential(0.4, len(ids)), 3), 0.0),
        status=status,
        error="the sandbox lost its disk" if status == "aborted" else None,
        reference={"gone": sorted(task.junk), "kept": sorted(task.keep)},
        turns=tuple(turns),
        columns={"reward": None if status == "aborted" else float(solved and status == "terminated")},
    )


if __name__ == "__main__":
    write(rollouts(), sys.argv[1])
