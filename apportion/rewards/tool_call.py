"""`tool_calls`: whether the calls parse, name a known tool and give it arguments it takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar

from apportion.errors import InvalidArgument
from apportion.rewards import _arguments
from apportion.rewards.base import Role
from apportion.rewards.recorded import interrupted, require_turns
from apportion.rewards.running import PerTrajectory
from apportion.rewards.schema import check_schema, problems
from apportion.rollouts import Action, Level, Trajectory
from apportion.verdicts import Abstained, Scored, Verdict

__all__ = ["tool_calls"]

_LISTED = 5


@dataclass(frozen=True)
class ToolCalls(PerTrajectory):
    """See `tool_calls`."""

    _role: ClassVar[Role] = "shaping"
    tools: Mapping[str, Any] | None
    name: str
    level: Level

    def __post_init__(self) -> None:
        for tool, schema in (self.tools or {}).items():
            check_schema(schema, f"tools[{tool!r}]")
        _arguments.text("name", self.name)
        _arguments.observable_level("level", self.level)

    def require(self, trajectories: Sequence[Trajectory]) -> None:
        """Raises `MissingInput` when a trajectory has no table of turns."""
        require_turns(self.name, trajectories)

    def score(self, trajectory: Trajectory) -> Verdict | list[Verdict]:
        """The share of valid calls, of each turn or of all."""
        if self.level is Level.TURN:
            return [self._share(turn.actions) for turn in trajectory.turns]
        return interrupted(trajectory) or self._share([action for turn in trajectory.turns for action in turn.actions])

    def _share(self, actions: Sequence[Action]) -> Verdict:
        if not actions:
            return Abstained("no_call")
        told = [self._judged(action) for action in actions]
        counts = Counter(status for status, _ in told)
        faults = [f"{status}: {words}" for status, words in told if status != "valid"]
        more = [f"and {len(faults) - _LISTED} more"] if len(faults) > _LISTED else []
        return Scored(
            counts["valid"] / len(actions),
            "; ".join([f"{counts['valid']} of {len(actions)} calls valid", *faults[:_LISTED], *more]),
        )

    def _judged(self, action: Action) -> tuple[str, str]:
        if action.error is not None or action.name is None:
            return (
                "malformed_call",
                f"{_arguments.brief(action.error or 'no name', 120)} in {_arguments.excerpt(action.raw, 80)}",
            )
        if self.tools is None:
            return "valid", ""
        if action.name not in self.tools:
            return "unknown_tool", _arguments.excerpt(action.name, 60)
        wrong = list(islice(problems(action.arguments, self.tools[action.name]), 3))
        return ("bad_arguments", f"{action.name}: {', '.join(wrong)}") if wrong else ("valid", "")


def tool_calls(
    tools: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    *,
    level: Level = Level.TURN,
    name: str = "tool_calls",
) -> ToolCalls:
    """The share of tool calls that are valid.

        value = valid calls / calls

    A call that does not parse is `malformed_call`, and scored: it is not taken for a final answer. `unknown_tool` and
    `bad_arguments` say which and why.

    Args:
        tools: `{name: JSON schema of its arguments}`, or a list of tool definitions as chat APIs take them; `None`: a
            call is valid when it parses. A required argument with a default may be left out.
        level: TURN scores each turn, TRAJECTORY all calls together.
        name: what the verdicts are called.

    Returns:
        A reward in [0, 1] of that level; without a call it abstains (`no_call`).

    Raises:
        InvalidArgument: a definition without a name, a schema with a keyword that is not checked, a level no reward
            has.
        MissingInput: when observing, trajectories without a table of turns.

    Example:
        >>> from apportion.rollouts import Turn
        >>> tools = {"ls": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}}
        >>> turn = Turn(actions=(Action("ls", {"path": "."}), Action("ls", {"path": 3})))
        >>> tool_calls(tools).observe([Trajectory(id="r0", group="q", turns=(turn,))])[0][0]
        Scored(value=0.5, evidence='1 of 2 calls valid; bad_arguments: ls: path is int, not string')
    """
    return ToolCalls(None if tools is None else declared(tools), name, level)


def declared(tools: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Tools as `{name: JSON schema of the arguments}`; chat definitions are read, a mapping stays what it is.

    Example:
        >>> declared([{"type": "function", "function": {"name": "ls", "parameters": {"type": "object"}}}])
        {'ls': {'type': 'object'}}
    """
    if isinstance(tools, Mapping):
        return tools
    schemas: dict[str, Any] = {}
    for index, definition in enumerate(tools):
        function = definition.get("function", definition) if isinstance(definition, Mapping) else None
        tool = function.get("name") if isinstance(function, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(tool, str) or tool in schemas:
            raise InvalidArgument(f"tools[{index}]", definition, "a tool definition with a name of its own")
        schemas[tool] = function.get("parameters", function.get("input_schema", {}))
    return schemas
