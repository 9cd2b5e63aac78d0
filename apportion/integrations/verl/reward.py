"""apportion's rewards as veRL's reward function: a score with its evidence, a missing verdict as a marker.

    reward.custom_reward_function.path=pkg://apportion.integrations.verl
    +reward.custom_reward_function.reward_kwargs.reward=rewards.py       or a check by name: maths, exact, numeric, ...

What a reward raises is a `Failed` verdict of one rollout: in veRL an exception would discard the whole prompt.
"""

from __future__ import annotations

import functools
import inspect
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from apportion import rewards as library
from apportion.errors import InvalidArgument, MissingInput
from apportion.integrations.actions import parse_actions
from apportion.integrations.verl.encoding import ABSENT, FAILED
from apportion.recipes.files import defined_in
from apportion.rewards import Reward, observe, observe_async, outcome
from apportion.rollouts import Level, Trajectory, Turn
from apportion.verdicts import Abstained, Failed, Scored, Verdict

__all__ = ["CHECKS", "TURNS", "compute_score", "compute_score_async"]

LOG = logging.getLogger(__name__)

# In `extra_fields`: the text of every turn and of what answered it.
TURNS = "apportion_turns"

# Checks of an answer that go by their name in `apportion.rewards`.
CHECKS = (
    "call_match",
    "choice_letter",
    "exact",
    "game24",
    "json_match",
    "maths",
    "numeric",
    "schema_match",
    "set_match",
    "text_equal",
    "text_f1",
)


def compute_score(
    data_source: object,
    solution_str: str,
    ground_truth: object,
    extra_info: Mapping[str, Any] | None = None,
    *,
    reward: str = "exact",
    reward_args: Mapping[str, Any] | None = None,
    timeout: float | None = None,
    reward_router_address: str | None = None,
    reward_model_tokenizer: object = None,
) -> dict[str, Any]:
    """The score of one rollout, as veRL's managers call it, in one of its threads.

    The rollout is a `Trajectory`: `reference` is the ground truth; the columns are what `extra_info` holds, the data
    source, and the address of a reward model where there is one. Its turns are those that `CreditLoop` recorded;
    without it one turn with the whole decoded response, tool output included.

    Args:
        data_source: of the dataset's row.
        solution_str: the decoded response.
        ground_truth: of the dataset's row.
        extra_info: of the dataset's row, and what the agent loop added.
        reward: a file ending in .py that defines `reward`, or one of `CHECKS`.
        reward_args: for a check, its arguments.
        timeout: seconds; late is missing.
        reward_router_address: of veRL's, kept as a column.
        reward_model_tokenizer: of veRL's; not used.

    Returns:
        `score`, which is `ABSENT` or `FAILED` where there is no verdict (below 1e-37 to every other reader), and for
        `reward_extra_info` the kind of `verdict` and its `evidence`.

    Raises:
        InvalidArgument: an unknown check, a file without a usable `reward`, or a reward of turns.

    Example:
        >>> compute_score("sums", "It is 4", "4", reward="numeric")
        {'score': 1.0, 'verdict': 'scored', 'evidence': "right_answer: '4'"}
        >>> compute_score("sums", "It is 4", "four", reward="numeric")["verdict"]
        'failed'
    """
    made = _reward(reward, json.dumps(_plain(reward_args), sort_keys=True))
    rollout = _rollout(data_source, solution_str, ground_truth, extra_info, reward_router_address)
    try:
        found: Any = observe([made], [rollout], failure_limit=1.0, timeout=timeout)
    except MissingInput as error:
        found = {made.name: [Failed(str(error))]}
    return _result(made, found[made.name][0])


async def compute_score_async(
    data_source: object,
    solution_str: str,
    ground_truth: object,
    extra_info: Mapping[str, Any] | None = None,
    *,
    reward: str = "exact",
    reward_args: Mapping[str, Any] | None = None,
    timeout: float | None = None,
    reward_router_address: str | None = None,
    reward_model_tokenizer: object = None,
) -> dict[str, Any]:
    """`compute_score` on the reward worker's own event loop, for rewards that hold connections, such as judges.

    A reward that does not wait holds up the others of its worker while it runs.

    Args:
        data_source: as in `compute_score`.
        solution_str: as in `compute_score`.
        ground_truth: as in `compute_score`.
        extra_info: as in `compute_score`.
        reward: as in `compute_score`.
        reward_args: as in `compute_score`.
        timeout: as in `compute_score`.
        reward_router_address: as in `compute_score`.
        reward_model_tokenizer: as in `compute_score`.

    Returns:
        As `compute_score`.

    Raises:
        InvalidArgument: as `compute_score`.

    Example:
        >>> import asyncio
        >>> asyncio.run(compute_score_async("sums", "It is 5", "4", reward="numeric"))["score"]
        0.0
    """
    made = _reward(reward, json.dumps(_plain(reward_args), sort_keys=True))
    rollout = _rollout(data_source, solution_str, ground_truth, extra_info, reward_router_address)
    try:
        found: Any = await observe_async([made], [rollout], failure_limit=1.0, timeout=timeout)
    except MissingInput as error:
        found = {made.name: [Failed(str(error))]}
    return _result(made, found[made.name][0])


@functools.lru_cache(maxsize=32)
def _reward(name: str, arguments: str) -> Reward:
    given = json.loads(arguments)
    if not name.endswith(".py"):
        if name not in CHECKS:
            raise InvalidArgument("reward", name, f"a file ending in .py, or one of {', '.join(CHECKS)}")
        check: Callable[..., Any] = getattr(library, name)
        known = inspect.signature(check)
        try:
            known.bind(**given)
        except TypeError as error:
            listed = ", ".join(sorted(known.parameters))
            raise InvalidArgument("reward_args", given, f"arguments of {name!r}: {listed} ({error})") from error
        return outcome(check(**given))
    if given:
        raise InvalidArgument("reward_args", given, f"none: {name} makes its own reward")
    found = defined_in(name, "reward", argument="reward")
    made: Reward = found if isinstance(found, Reward) else outcome(found)
    if made.level is not Level.TRAJECTORY:
        raise InvalidArgument(
            "reward", made.name, "a reward of whole trajectories; those of turns belong to a recipe and its agent loop"
        )
    return made


def _rollout(
    data_source: object, text: str, reference: object, extra_info: Mapping[str, Any] | None, address: str | None
) -> Trajectory:
    extra = dict(extra_info or {})
    texts: Sequence[Mapping[str, Any]] = extra.pop(TURNS, None) or [{"text": text}]
    turns = [
        Turn(text=one["text"], observation=one.get("observation", ""), actions=parse_actions(one["text"]))
        for one in texts
    ]
    if address is not None:
        extra["reward_router_address"] = address
    return Trajectory(
        id="rollout",
        group="prompt",
        reference=reference,
        turns=tuple(turns),
        status=extra.get("rollout_status") or "terminated",
        columns={"data_source": data_source, **extra},
    )


def _result(reward: Reward, verdict: Verdict) -> dict[str, Any]:
    if isinstance(verdict, Scored):
        return {"score": verdict.value, "verdict": "scored", "evidence": verdict.evidence}
    if isinstance(verdict, Abstained):
        return {"score": ABSENT, "verdict": "abstained", "evidence": verdict.reason}
    LOG.warning("reward %r failed: %s", reward.name, verdict.error)
    return {"score": FAILED, "verdict": "failed", "evidence": verdict.error}


def _plain(arguments: Any) -> Any:
    if isinstance(arguments, Mapping):
        return {str(name): _plain(value) for name, value in arguments.items()}
    if isinstance(arguments, Sequence) and not isinstance(arguments, str):
        return [_plain(value) for value in arguments]
    return {} if arguments is None else arguments
