"""Verdicts of turns in the scores of veRL's agent loops: `CreditLoop` before the class of a loop.

    class MyLoop(CreditLoop, YourLoop): ...                        in a file of yours
    - {name: mine, _target_: my_loops.MyLoop}                      in rollout.agent.agent_loop_config_path

The recipe of `algorithm.adv_estimator` is observed where the rollout is still whole: text, actions and facts of every
turn. A loop may say, in `extra_fields`, one entry per run of ones in its mask:

    turn_columns     mappings, or None: what rules, potentials and counts are called in the recipe
    turn_rewards     what the environment paid, or None
    rollout_columns  a mapping for the whole rollout
    rollout_status   "terminated", "truncated" or "aborted";  rollout_error  why, when aborted
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from verl.experimental.agent_loop.agent_loop import AgentLoopOutput
from verl.experimental.agent_loop.single_turn_agent_loop import SingleTurnAgentLoop
from verl.experimental.agent_loop.tool_agent_loop import ToolAgentLoop

from apportion.errors import InvalidArgument, MissingInput
from apportion.integrations.actions import parse_actions
from apportion.integrations.verl.encoding import (
    ABSENT,
    MOST_ENTRIES,
    UNRECORDED,
    Layout,
    carriers,
    encode,
    entries,
    is_marker,
)
from apportion.integrations.verl.reward import TURNS
from apportion.integrations.verl.settings import Settings, read
from apportion.rewards import Observed, Reward, observe, observe_async
from apportion.rollouts import Layout as Turns
from apportion.rollouts import Level, Trajectory, Turn
from apportion.verdicts import Abstained, Failed, Scored, Verdict

__all__ = ["CreditLoop", "CreditOutput", "CreditSingleTurnLoop", "CreditToolLoop"]

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class _Carry:
    """What a response will carry, but for the outcome, which is known after the score."""

    settings: Settings
    layout: Layout
    rollout: Trajectory
    mask: npt.NDArray[np.bool_]
    early: Mapping[str, Sequence[Verdict]]


class CreditOutput(AgentLoopOutput):  # type: ignore[misc]
    """An agent loop's output whose dense scores carry verdicts; any subclass of veRL's keeps what it adds."""

    _carry: Any = None

    def as_dict(self) -> dict[str, Any]:
        """VeRL's fields, with `rm_scores` as `apportion.integrations.verl.encoding` writes them."""
        made: dict[str, Any] = super().as_dict()
        if self._carry is not None and self.reward_score is not None:
            info = self.extra_fields.get("reward_extra_info") or {}
            scores = _dense(self._carry, float(self.reward_score), info if isinstance(info, Mapping) else {})
            made["rm_scores"] = made["rm_scores"].new_tensor(scores)
        return made


class CreditLoop:
    """Put before the class of an agent loop; does nothing where the estimator is not one of apportion's.

    What an observer raises is a `Failed` verdict and a warning in the worker's log: in veRL an exception would discard
    the whole prompt. The estimator stops training where too many fail.

    Raises (in the session, which veRL then discards with its prompt):
        InvalidArgument: several outputs for one session, or facts that are not one per turn.
    """

    config: Any
    tokenizer: Any

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> Any:
        """VeRL's `run`, and then the verdicts that need no score."""
        output = await super().run(sampling_params, **kwargs)  # type: ignore[misc]
        settings = read(self.config.algorithm)
        if settings is None:
            return output
        if not isinstance(output, AgentLoopOutput):
            raise InvalidArgument("run", type(output).__name__, "one AgentLoopOutput per session")
        layout = Layout.of(settings.recipe.observers)
        rollout = _rollout(output, kwargs, self.tokenizer)
        output.extra_fields[TURNS] = [{"text": t.text, "observation": t.observation} for t in rollout.turns]
        early = [o for o in settings.recipe.observers if not _late(o)]
        asked = (_asked(observer, rollout, settings.timeout) for observer in early)
        found = dict(zip([o.name for o in early], await asyncio.gather(*asked), strict=True))
        # After observing: closing tokens are ours, and no answer to the last move of the policy.
        numbers = 1 + sum(len(entries(verdict)) for row in found.values() for verdict in row)
        late = len(layout.names) - len(early)
        numbers += 1 if layout.score is not None and late == 1 else late * MOST_ENTRIES
        self._close(output, numbers, kl_in_reward=settings.kl_in_reward)
        kind: Any = type(output)
        # A default dict that a loop filled does not count as set.
        given = {*output.model_fields_set, "extra_fields"}
        made = _credited(kind)(**{name: getattr(output, name) for name in given})
        mask = np.asarray(output.response_mask, bool)
        made._carry = _Carry(settings=settings, layout=layout, rollout=rollout, mask=mask, early=found)
        return made

    def _close(self, output: Any, numbers: int, *, kl_in_reward: bool) -> None:
        """Tokens outside the loss behind a response that has too few to carry so many numbers."""
        mask = np.asarray(output.response_mask, bool)
        short = numbers - carriers(mask, kl_in_reward=kl_in_reward).size
        if short <= 0:
            return
        end = self.tokenizer.pad_token_id
        output.response_ids = [*output.response_ids, *[self.tokenizer.eos_token_id if end is None else end] * short]
        output.response_mask = [*output.response_mask, *[0] * short]
        if output.response_logprobs is not None:
            output.response_logprobs = [*output.response_logprobs, *[0.0] * short]


class CreditToolLoop(CreditLoop, ToolAgentLoop):  # type: ignore[misc]
    """veRL's tool loop; rules over calls need nothing else."""


class CreditSingleTurnLoop(CreditLoop, SingleTurnAgentLoop):  # type: ignore[misc]
    """veRL's loop of one turn."""


@cache
def _credited(kind: Any) -> Any:
    return CreditOutput if kind is AgentLoopOutput else type(f"Credit{kind.__name__}", (CreditOutput, kind), {})


def _late(observer: Reward) -> bool:
    """Outcomes are read off the score and what comes with it."""
    return observer.level is Level.TRAJECTORY and getattr(observer, "role", "outcome") in ("outcome", "metric")


async def _asked(observer: Reward, rollout: Trajectory, timeout: float | None) -> list[Verdict]:
    try:
        found = await observe_async([observer], [rollout], failure_limit=1.0, timeout=timeout)
    except MissingInput as error:
        _say_once(error.needed_by, str(error))
        return [UNRECORDED] * (rollout.n_turns if observer.level is Level.TURN else 1)
    return _checked(observer, found)


@cache
def _say_once(needed_by: str, error: str) -> None:
    LOG.warning("%s", error)


def _dense(carry: _Carry, score: float, info: Mapping[str, Any]) -> list[float]:
    reward: Any = score
    if is_marker(score):
        reward = Abstained(str(info.get("evidence", ""))) if score == ABSENT else Failed(str(info.get("evidence", "")))
    rollout = replace(carry.rollout, columns={**carry.rollout.columns, **info, "reward": reward})
    observers = carry.settings.recipe.observers
    late = [o for o in observers if _late(o)]
    rows = {**carry.early}
    for observer in late:
        try:
            rows[observer.name] = _checked(
                observer, observe([observer], [rollout], failure_limit=1.0, timeout=carry.settings.timeout)
            )
        except MissingInput as error:
            rows[observer.name] = [_failed(observer, str(error))]
    shown = 0.0 if is_marker(score) else score
    if carry.layout.score is not None:
        (verdict,) = rows[observers[carry.layout.score].name]
        shown = verdict.value if isinstance(verdict, Scored) else 0.0
    made = encode(
        carry.layout,
        [rows[o.name] for o in observers],
        score=shown,
        mask=carry.mask,
        kl_in_reward=carry.settings.kl_in_reward,
    )
    return [float(number) for number in made]


def _checked(observer: Reward, found: Observed) -> list[Verdict]:
    (row,) = found[observer.name]
    cells = row if isinstance(row, list) else [row]
    return [_failed(observer, v.error) if isinstance(v, Failed) else v for v in cells]


def _failed(observer: Reward, error: str) -> Failed:
    LOG.warning("observer %r failed: %s", observer.name, error)
    return Failed(error)


def _rollout(output: Any, row: Mapping[str, Any], tokenizer: Any) -> Trajectory:
    ids, mask = np.asarray(output.response_ids, np.int64), np.asarray(output.response_mask, bool)
    fields, layout = output.extra_fields, Turns.from_mask(mask)
    stops = np.cumsum(layout.turn_lengths + layout.gap_lengths) + layout.lead
    starts = stops - layout.turn_lengths - layout.gap_lengths
    facts = _per_turn(fields, "turn_columns", len(starts)) or [{}] * len(starts)
    paid = _per_turn(fields, "turn_rewards", len(starts)) or [None] * len(starts)
    turns = []
    for start, size, stop, known, reward in zip(starts, layout.turn_lengths, stops, facts, paid, strict=True):
        text = tokenizer.decode(ids[start : start + size].tolist(), skip_special_tokens=True)
        answer = tokenizer.decode(ids[start + size : stop].tolist(), skip_special_tokens=True)
        span = (int(start), int(stop))
        turns.append(
            Turn(
                text=text,
                actions=parse_actions(text),
                observation=answer,
                span=span,
                reward=reward,
                columns=known or {},
            )
        )
    extra = row.get("extra_info")
    model = row.get("reward_model")
    return Trajectory(
        id=f"{row.get('uid', 'rollout')}.{row.get('session_id', 0)}",
        group=str(row.get("uid", "prompt")),
        prompt_ids=output.prompt_ids,
        response_ids=ids,
        policy=mask,
        status=fields.get("rollout_status") or "terminated",
        error=fields.get("rollout_error"),
        reference=model.get("ground_truth") if isinstance(model, Mapping) else None,
        turns=tuple(turns),
        columns={**(extra if isinstance(extra, Mapping) else {}), **(fields.get("rollout_columns") or {})},
    )


def _per_turn(fields: Mapping[str, Any], name: str, turns: int) -> Sequence[Any] | None:
    given = fields.get(name)
    if given is not None and len(given) != turns:
        raise InvalidArgument(
            f"extra_fields[{name!r}]", len(given), f"{turns} entries, one per run of ones in the mask"
        )
    return given
