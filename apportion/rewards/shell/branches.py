"""One of several ways that a command line may go: run on a copy of the state, which is then merged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.rewards.shell.state import State, merge

if TYPE_CHECKING:
    from apportion.rewards.shell.machine import Machine

__all__ = ["Branch"]


class Branch:
    """A context in which the machine works on a copy of its state."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.outside = machine.state
        self.inside: State | None = None

    def __enter__(self) -> Branch:
        self.machine.state = self.outside.copy()
        return self

    def __exit__(self, *_: object) -> None:
        self.inside, self.machine.state = self.machine.state, self.outside

    def join_into(self, machine: Machine) -> None:
        """What the branches disagree about is unknown."""
        if self.inside is not None:
            merge(machine.state, [self.inside])
