"""The shell of a rollout as predicates see it: the state before an action, and what the action does to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from apportion.rewards.predicates import Before
from apportion.rewards.shell.effects import Effect
from apportion.rewards.shell.parsing import Limits
from apportion.rewards.shell.state import State, Workspace
from apportion.rewards.shell.tools import ToolKind, action_effects
from apportion.rollouts import Action

__all__ = ["Session", "Step", "session"]


@dataclass(slots=True)
class Step:
    """One action: the state before it, what it does, and the state after it."""

    action: Action
    before: State
    effects: list[Effect]
    after: State


@dataclass(slots=True)
class _Memory:
    state: State
    taken: int = 0
    last: Step | None = None


@dataclass(frozen=True, eq=False)
class Session:
    """Follows one rollout; predicates with the same options share one, so that every action is analysed once."""

    workspace: Workspace
    limits: Limits
    tools: Mapping[str, ToolKind] = field(default_factory=dict)

    def step(self, action: Action, before: Before) -> Step:
        """What an action does in the state that the earlier actions of its rollout left."""
        memory = before.memory.setdefault(id(self), _Memory(State(self.workspace)))
        while memory.taken < len(before.actions):
            memory.state = self._analysed(memory, before.actions[memory.taken][1]).after
            memory.taken += 1
            memory.last = None
        return self._analysed(memory, action)

    def _analysed(self, memory: _Memory, action: Action) -> Step:
        if memory.last is None or memory.last.action is not action:
            after = memory.state.copy()
            effects = action_effects(action, after, tools=self.tools, limits=self.limits)
            touched = {effect.path for effect in effects if effect.kind in ("read", "write") and effect.sure}
            after.seen = after.seen if touched <= after.seen else after.seen | touched
            memory.last = Step(action, memory.state, effects, after)
        return memory.last


_SHARED: dict[tuple[Workspace, Limits, tuple[tuple[str, ToolKind], ...]], Session] = {}


def session(workspace: Workspace | str, tools: Mapping[str, ToolKind] | None, limits: Limits | None) -> Session:
    """The session for these options."""
    where = workspace if isinstance(workspace, Workspace) else Workspace(root=workspace)
    key = (where, limits or Limits(), tuple(sorted((tools or {}).items())))
    return _SHARED.setdefault(key, Session(where, key[1], dict(key[2])))
