"""What happened: one `Trajectory` per rollout, one `Turn` per move of the policy, one `Action` per tool call.

    prompt ids | response ids ...............................................
               | lead | policy | observation | policy | observation | policy |
    policy       0      1        0             1        0             1
               |      |<------ turn 0 ------>|<------ turn 1 ------>|<turn 2>|

Tokens are the ones the inference server saw and returned: nothing here decodes or encodes. `policy` says which tokens
the policy wrote, `own` which of those the current policy sampled *in this rollout* (False on copied prefixes, expert
steps, takeovers and hand-appended end tokens). A trajectory may carry text only; then credit is per turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from apportion.errors import InvalidArgument

__all__ = ["Action", "Level", "Status", "Trajectory", "Turn"]

Status: TypeAlias = Literal["terminated", "truncated", "aborted"]
IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
FloatArray: TypeAlias = npt.NDArray[np.float64]
_WHAT: Mapping[type[np.generic], str] = {np.int64: "whole numbers", np.bool_: "0 and 1", np.float64: "numbers"}


class Level(IntEnum):
    """What a value belongs to; `TOKEN` means a token that the policy wrote."""

    TOKEN = 0
    TURN = 1
    TRAJECTORY = 2
    GROUP = 3


@dataclass(frozen=True, slots=True)
class Action:
    """One tool call or command as the policy wrote it.

    Attributes:
        name: the tool or command; None when it did not parse.
        arguments: the parsed arguments (for a shell command: {"command": text}).
        raw: exactly what was written.
        syntax: which syntax it was read from ("openai", "hermes", "react", "shell", ...).
        call_id: the identifier that links it to its result, where the syntax has one.
        error: why it did not parse; None for a good action. A malformed call is an action, never an exception.
    """

    name: str | None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    raw: str = ""
    syntax: str = ""
    call_id: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """One uninterrupted move of the policy and the observation that answers it.

    Attributes:
        text: what the policy wrote, as text ("" where only tokens were recorded).
        actions: the calls in it, in order; several calls in one message are one turn.
        observation: what the environment answered, as text.
        span: [start, stop) over the response tokens, observation included; None = the k-th run of the policy mask.
        reward: the environment's own reward for this step; None = it gave none.
        executed: False when the move never reached the environment (cut off, rejected).
        columns: anything else recorded for this turn.

    Raises:
        InvalidArgument: text or an observation that is no text, actions that are no `Action`, a span that is not two
            whole numbers, a reward that is no number, or columns that are no mapping.
    """

    text: str = ""
    actions: tuple[Action, ...] = ()
    observation: str = ""
    span: tuple[int, int] | None = None
    reward: float | None = None
    executed: bool = True
    columns: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("text", "observation"):
            _check(name, getattr(self, name), str, "text")
        object.__setattr__(self, "actions", _tuple("actions", self.actions, Action))
        _check("columns", self.columns, Mapping, "a mapping")
        if self.reward is not None:
            _check("reward", self.reward, (int, float, np.number), "a number, or None where the environment gave none")
        if self.span is not None:
            whole = all(isinstance(bound, (int, np.integer)) for bound in self.span)
            if len(self.span) != 2 or not whole:
                raise InvalidArgument("span", self.span, "[start, stop) as two whole numbers")


def _check(argument: str, value: object, kind: type | tuple[type, ...], expected: str) -> None:
    if not isinstance(value, kind):
        raise InvalidArgument(argument, value, expected)


def _tuple(argument: str, value: Any, kind: type) -> tuple[Any, ...]:
    if isinstance(value, (str, Mapping)) or not isinstance(value, Iterable):
        raise InvalidArgument(argument, value, f"a list of {kind.__name__}")
    made = tuple(value)
    for one in made:
        _check(argument, one, kind, f"a list of {kind.__name__}")
    return made


def _array(argument: str, value: Any, dtype: type[np.generic]) -> Any:
    """A read-only array of one value per token, or `InvalidArgument`."""
    try:
        array = np.asarray(value)
        if dtype is np.int64 and array.size and array.dtype.kind not in "iu":
            raise TypeError
        if dtype is np.bool_ and array.dtype != np.bool_ and not ((array == 0) | (array == 1)).all():
            raise TypeError
        if array.dtype == np.uint64 and array.size and int(array.max()) > np.iinfo(np.int64).max:
            raise TypeError
        array = array.astype(dtype)
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgument(argument, value, f"a flat list of {_WHAT[dtype]}") from None
    if array.ndim != 1:
        raise InvalidArgument(argument, value, f"a flat list, one value per token (got shape {array.shape})")
    array.flags.writeable = False
    return array


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Trajectory:
    """One rollout, token-exact.

    Attributes:
        id: unique within a file or batch.
        group: the rollouts of one prompt share it; only this defines a group, never the position in a file.
        step: the training step it was sampled at; None when unknown.
        prompt_ids: int[P] token ids of the prompt; None for text only.
        response_ids: int[T] everything after the prompt, observations included; None for text only.
        policy: bool[T] the policy wrote this token. Default: all of them.
        own: bool[T] sampled by the current policy in this rollout. Default: `policy`.
        behaviour_logps: float[T] log-probability under the sampler, natural log; ignored where `own` is False.
        policy_version: int[T] which weights sampled each token; for rollouts that span an update.
        token_columns: name -> float[T], anything else known per token ("values", "trainer_logps"); NaN = unknown.
        status: "terminated" (the task ended), "truncated" (length or turn limit), "aborted" (infrastructure).
        error: what the infrastructure reported; only on an aborted trajectory.
        reference: the gold answer or whatever an outcome check compares with.
        turns: the turn table; empty = one turn per run of `policy`.
        messages: the chat messages as recorded, where there are any.
        columns: anything else recorded for this trajectory, e.g. {"reward": 1.0}.

    Raises:
        InvalidArgument: arrays of different lengths (all are listed), a negative id on a policy token, `own` outside
            `policy`, a missing or non-finite log-probability on an own token, an error on a trajectory that is not
            aborted, spans that overlap, leave the response or miss a policy token, a turn table that does not match the
            runs of the mask.

    Example:
        >>> t = Trajectory(id="r0", group="q0", prompt_ids=[7], response_ids=[1, 2, 9, 3], policy=[1, 1, 0, 1])
        >>> t.layout().turn_lengths.tolist(), t.layout().gap_lengths.tolist()
        ([2, 1], [1, 0])
    """

    id: str
    group: str
    step: int | None = None
    prompt_ids: IntArray | None = None
    response_ids: IntArray | None = None
    policy: BoolArray | None = None
    own: BoolArray | None = None
    behaviour_logps: FloatArray | None = None
    policy_version: IntArray | None = None
    token_columns: Mapping[str, FloatArray] = field(default_factory=dict)
    status: Status = "terminated"
    error: str | None = None
    reference: Any = None
    turns: tuple[Turn, ...] = ()
    messages: tuple[Mapping[str, Any], ...] = ()
    columns: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("id", "group"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                raise InvalidArgument(name, getattr(self, name), "a non-empty string")
        if self.status not in get_args(Status):
            raise InvalidArgument("status", self.status, f"one of {', '.join(get_args(Status))}")
        if self.error is not None:
            _check("error", self.error, str, "text")
        if self.error is not None and self.status != "aborted":
            raise InvalidArgument("status", self.status, f"'aborted', since an error was recorded: {self.error[:80]!r}")
        if self.step is not None:
            whole = isinstance(self.step, (int, np.integer)) and not isinstance(self.step, bool)
            if not whole or not -(2**63) <= self.step < 2**63:
                raise InvalidArgument("step", self.step, "a whole number of 64 bits, or None")
            object.__setattr__(self, "step", int(self.step))
        for name in ("columns", "token_columns"):
            _check(name, getattr(self, name), Mapping, "a mapping")
        object.__setattr__(self, "turns", _tuple("turns", self.turns, Turn))
        object.__setattr__(self, "messages", _tuple("messages", self.messages, Mapping))
        if self.response_ids is None:
            given = [n for n in ("policy", "own", "behaviour_logps", "policy_version") if getattr(self, n) is not None]
            given += [f"token_columns[{name!r}]" for name in self.token_columns]
            if given:
                raise InvalidArgument("response_ids", None, f"token ids, since {', '.join(given)} is given")
            if self.prompt_ids is not None:
                self._settle("prompt_ids", np.int64, None)
            return
        self._settle_tokens()
        if self.turns:
            self.layout()

    def _settle(self, name: str, dtype: type[np.generic], default: Any) -> Any:
        """Replace what was given by a read-only array."""
        value = getattr(self, name)
        array = _array(name, default if value is None else value, dtype)
        object.__setattr__(self, name, array)
        return array

    def _settle_tokens(self) -> None:
        ids = self._settle("response_ids", np.int64, None)
        self._settle("prompt_ids", np.int64, np.empty(0, np.int64))
        policy = self._settle("policy", np.bool_, np.ones(ids.size, np.bool_))
        # What is read-only may be shared.
        own = policy if self.own is None else _array("own", self.own, np.bool_)
        object.__setattr__(self, "own", own)
        lengths = {"response_ids": ids.size, "policy": policy.size, "own": own.size}
        for name, dtype in (("behaviour_logps", np.float64), ("policy_version", np.int64)):
            if getattr(self, name) is not None:
                lengths[name] = self._settle(name, dtype, None).size
        taken = sorted(set(self.token_columns) & {"behaviour_logps", "policy_version"})
        if taken:
            raise InvalidArgument("token_columns", taken, f"names that are not fields of their own, in {self.id!r}")
        columns = {str(k): _array(f"token_columns[{k!r}]", v, np.float64) for k, v in self.token_columns.items()}
        object.__setattr__(self, "token_columns", columns)
        lengths |= {f"token_columns[{name!r}]": column.size for name, column in columns.items()}
        if len(set(lengths.values())) > 1:
            listed = ", ".join(f"{name} {size}" for name, size in lengths.items())
            raise InvalidArgument("response_ids", ids.tolist(), f"equal lengths per token, got {listed} in {self.id!r}")
        labels = np.flatnonzero(policy & (ids < 0))
        if labels.size:
            # -100 and the like are labels that a loss ignores, not tokens that anybody sampled.
            where = f"index {int(labels[0])} of {self.id!r}"
            raise InvalidArgument("response_ids", int(ids[labels[0]]), f"ids >= 0 on the policy's tokens; {where}")
        if own is not policy and bool((own & ~policy).any()):
            at = int(np.flatnonzero(own & ~policy)[0])
            raise InvalidArgument("own", own.tolist(), f"False wherever policy is False; index {at} of {self.id!r}")
        if self.behaviour_logps is not None:
            bad = np.flatnonzero(own & ~np.isfinite(self.behaviour_logps))
            if bad.size:
                raise InvalidArgument(
                    "behaviour_logps",
                    float(self.behaviour_logps[bad[0]]),
                    f"a finite log-probability on every token the policy sampled; index {int(bad[0])} of {self.id!r}",
                )

    @property
    def has_tokens(self) -> bool:
        """True when token ids were recorded; otherwise the trajectory is text only."""
        return self.response_ids is not None

    @property
    def n_turns(self) -> int:
        """Number of turns: of the table, or of the runs of `policy`."""
        return self.layout().turn_lengths.size

    def layout(self) -> Layout:
        """Turn lengths, the primary structure that a `Batch` packs."""
        if self.response_ids is None or self.policy is None:
            zeros = np.zeros(len(self.turns), np.int64)
            return Layout(lead=0, turn_lengths=zeros, gap_lengths=zeros, positions=None)
        spans = [turn.span for turn in self.turns]
        if not spans:
            return Layout.from_mask(self.policy)
        if all(span is not None for span in spans):
            return Layout.from_spans(self.policy, [span for span in spans if span is not None], where=self.id)
        layout = Layout.from_mask(self.policy)
        if layout.turn_lengths.size != len(spans) or any(span is not None for span in spans):
            raise InvalidArgument(
                "turns",
                spans,
                f"a span on each of the {len(spans)} turns of {self.id!r}, since its mask has "
                f"{layout.turn_lengths.size} runs of policy tokens",
            )
        return layout


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Where the policy's tokens lie in a response, by lengths.

    Attributes:
        lead: tokens before the first turn.
        turn_lengths: int[K] policy tokens of each turn (0 is allowed).
        gap_lengths: int[K] other tokens that follow them, up to the next turn.
        positions: int[N] offset of every policy token when other tokens lie *inside* a turn; None when none do.
    """

    lead: int
    turn_lengths: IntArray
    gap_lengths: IntArray
    positions: IntArray | None

    @classmethod
    def from_mask(cls, policy: BoolArray) -> Layout:
        """One turn per run of True."""
        padded = np.zeros(policy.size + 2, np.bool_)
        padded[1:-1] = policy
        edges = np.flatnonzero(padded[1:] != padded[:-1])
        starts, stops = edges[::2], edges[1::2]
        following = np.full_like(starts, policy.size)
        following[:-1] = starts[1:]
        lead = int(starts[0]) if starts.size else int(policy.size)
        return cls(lead, (stops - starts).astype(np.int64), (following - stops).astype(np.int64), None)

    @classmethod
    def from_spans(cls, policy: BoolArray, spans: Sequence[tuple[int, int]], *, where: str) -> Layout:
        """One turn per span; spans are ordered, disjoint and hold every policy token."""
        bounds = np.asarray(spans, np.int64).reshape(-1, 2)
        flat = bounds.ravel()
        if flat.size and (flat[0] < 0 or flat[-1] > policy.size or bool((np.diff(flat) < 0).any())):
            raise InvalidArgument(
                "span", list(spans), f"ordered, disjoint spans inside [0, {policy.size}] in trajectory {where!r}"
            )
        written = np.concatenate(([0], np.cumsum(policy)))
        lengths = written[bounds[:, 1]] - written[bounds[:, 0]]
        if int(lengths.sum()) != int(written[-1]):
            raise InvalidArgument("span", list(spans), f"spans that hold every policy token of trajectory {where!r}")
        follows = np.append(bounds[1:, 0], policy.size)[: len(bounds)]
        gaps = follows - bounds[:, 0] - lengths
        lead = int(bounds[0, 0]) if len(bounds) else int(policy.size)
        starts = (
            lead + np.concatenate(([0], np.cumsum(lengths + gaps)))[:-1].astype(np.int64) if len(bounds) else lengths
        )
        plain = np.repeat(starts - np.cumsum(lengths) + lengths, lengths) + np.arange(int(lengths.sum()))
        actual = np.flatnonzero(policy)
        return cls(lead, lengths.astype(np.int64), gaps.astype(np.int64), None if (plain == actual).all() else actual)
