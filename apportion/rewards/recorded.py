"""What of a trajectory a reward may look at: the policy's text, its tokens, the actions of its turns.

Observations never count as the policy's: not for length, not for repetition, not for format.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from apportion.errors import MissingInput
from apportion.rewards import _arguments
from apportion.rollouts import Trajectory
from apportion.verdicts import Failed

_NEEDS_TEXT = (
    "give each trajectory its turns (with the text of each) or its messages; this library never decodes tokens"
)
_NEEDS_TOKENS = "record response_ids and the policy mask when sampling; text cannot be counted in tokens"
_NEEDS_TURNS = "give each trajectory its turns, with the parsed actions of each"


def interrupted(trajectory: Trajectory) -> Failed | None:
    """Why the whole reply cannot be scored: the infrastructure ended it, not the policy; `None` when it can."""
    if trajectory.status != "aborted":
        return None
    return Failed(f"aborted by the infrastructure: {_arguments.brief(trajectory.error or 'no error recorded')}")


def require_text(needed_by: str, trajectories: Sequence[Trajectory]) -> None:
    """Raises `MissingInput` that names the trajectories that have tokens but no text."""
    without = [t.id for t in trajectories if t.has_tokens and t.n_turns and not t.turns and not t.messages]
    if without:
        raise MissingInput(needed_by, "the text of the policy's turns", _NEEDS_TEXT, without)


def require_tokens(needed_by: str, trajectories: Sequence[Trajectory]) -> None:
    """Raises `MissingInput` that names the trajectories without token ids."""
    without = [trajectory.id for trajectory in trajectories if not trajectory.has_tokens]
    if without:
        raise MissingInput(needed_by, "token ids", _NEEDS_TOKENS, without)


def require_turns(needed_by: str, trajectories: Sequence[Trajectory]) -> None:
    """Raises `MissingInput` that names the trajectories that have turns, but no table of them."""
    without = [trajectory.id for trajectory in trajectories if trajectory.n_turns and not trajectory.turns]
    if without:
        raise MissingInput(needed_by, "the table of turns", _NEEDS_TURNS, without)


def texts(trajectory: Trajectory) -> list[str]:
    """What the policy wrote, turn by turn."""
    if trajectory.turns or not trajectory.messages:
        return [turn.text for turn in trajectory.turns]
    return [content_text(message) for message in trajectory.messages if message.get("role") == "assistant"]


def final_text(trajectory: Trajectory) -> str:
    """What the policy wrote last; "" when it wrote nothing."""
    written = texts(trajectory)
    return written[-1] if written else ""


def content_text(message: Mapping[str, object]) -> str:
    """The text of a message, whose content may be a list of parts."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        return ""
    parts = [part.get("text") for part in content if isinstance(part, Mapping)]
    return "".join(part for part in parts if isinstance(part, str))


def policy_tokens(trajectory: Trajectory) -> int:
    """Number of tokens that the policy wrote."""
    return 0 if trajectory.policy is None else int(np.count_nonzero(trajectory.policy))


def tokens_by_turn(trajectory: Trajectory) -> list[list[int]]:
    """The policy's token ids, turn by turn."""
    if trajectory.response_ids is None or trajectory.policy is None:
        return []
    written = trajectory.response_ids[trajectory.policy]
    lengths = trajectory.layout().turn_lengths
    return [part.tolist() for part in np.split(written, np.cumsum(lengths)[:-1])] if lengths.size else []
