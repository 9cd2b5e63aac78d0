"""The beginning of a trajectory, as a trajectory: what was known when turn k + 1 began."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from apportion.errors import InvalidArgument
from apportion.rollouts import Trajectory

__all__ = ["prefix"]


def prefix(trajectory: Trajectory, turns: int) -> Trajectory:
    """The prompt, the first so many turns and what answered the last of them; nothing that came later.

    The reference stays, since it belongs to the task. The recorded columns of the trajectory and its error go: they
    tell how it ended. Messages stay where there is one assistant message per turn, and go where they cannot be cut.

    Args:
        trajectory: with tokens or text only.
        turns: in [0, n_turns].

    Returns:
        A trajectory of `turns` turns, of status "truncated"; its id is "<id>[:turns]".

    Raises:
        InvalidArgument: another number of turns.

    Example:
        >>> t = Trajectory(id="r", group="q", response_ids=[1, 9, 9, 2], policy=[1, 0, 0, 1], columns={"reward": 1.0})
        >>> begun = prefix(t, 1)
        >>> begun.id, begun.response_ids.tolist(), dict(begun.columns)
        ('r[:1]', [1, 9, 9], {})
    """
    whole = isinstance(turns, int) and not isinstance(turns, bool)
    if not whole or not 0 <= turns <= trajectory.n_turns:
        raise InvalidArgument("turns", turns, f"a whole number in [0, {trajectory.n_turns}]")
    said = [i for i, message in enumerate(trajectory.messages) if message.get("role") == "assistant"]
    cut = [*said, len(trajectory.messages)][turns] if len(said) == trajectory.n_turns else 0
    layout = trajectory.layout()
    stop = layout.lead + int((layout.turn_lengths + layout.gap_lengths)[:turns].sum())
    fields = ("response_ids", "policy", "own", "behaviour_logps", "policy_version")
    arrays = {name: getattr(trajectory, name) for name in fields}
    kept: dict[str, Any] = {name: None if array is None else array[:stop] for name, array in arrays.items()}
    return replace(
        trajectory,
        id=f"{trajectory.id}[:{turns}]",
        status="truncated",
        error=None,
        columns={},
        turns=trajectory.turns[:turns],
        messages=trajectory.messages[:cut],
        token_columns={name: column[:stop] for name, column in trajectory.token_columns.items()},
        **kept,
    )
