"""One compact row of facts per rollout, so that a file larger than memory can be audited in one pass.

A row costs some hundred bytes whatever the rollout's length: texts and token ids leave only a digest behind.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from apportion.report.reasons import count_reason
from apportion.rollouts import Trajectory
from apportion.verdicts import Abstained, Failed, Scored, Verdict, as_verdict

__all__ = ["Rows", "Table", "collect"]

STATUSES = ("terminated", "truncated", "aborted")
MAX_CATEGORIES = 8
# A file in which every rollout has score columns of its own would cost rollouts times columns.
MAX_COMPONENTS = 64

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Bools: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False, kw_only=True)
class Table:
    """Facts about n rollouts in g groups, one array element per rollout.

    Attributes:
        reward_field: the column that the reward was read from.
        ids: n trajectory ids.
        groups: g (step, group id) pairs; a prompt that returns at a later step is another group.
        group: index into `groups`.
        status: index into `STATUSES`.
        reward: the reward; 0 where it is not known.
        known: the reward is a number and the rollout was not aborted.
        recorded: the reward column holds a number, aborted or not.
        why_missing: reason -> number of rollouts.
        errors: recorded error -> number of aborted rollouts.
        turns: number of turns.
        length: policy tokens, or characters when any rollout is text only.
        unit: "policy tokens" or "characters".
        content: digest of prompt and response.
        reply: digest of the response alone, 0 = nothing written.
        prompt: digest of the prompt, 0 = none recorded.
        reference: digest of the reference, 0 = none recorded.
        token_exact: token ids were recorded.
        components: name -> (values, known), numeric columns that look like parts of the reward.
        categories: name -> (labels, index per rollout, -1 = absent), string columns with few values.
        columns: every column name seen.
    """

    reward_field: str
    ids: Sequence[str]
    groups: Sequence[tuple[int | None, str]]
    group: Ints
    status: Ints
    reward: Floats
    known: Bools
    recorded: Bools
    why_missing: Mapping[str, int]
    errors: Mapping[str, int]
    turns: Ints
    length: Ints
    unit: str
    content: Ints
    reply: Ints
    prompt: Ints
    reference: Ints
    token_exact: Bools
    components: Mapping[str, tuple[Floats, Bools]]
    categories: Mapping[str, tuple[Sequence[str], Ints]]
    columns: Sequence[str]

    def __len__(self) -> int:
        return len(self.ids)

    def examples(self, where: Bools | Ints, most: int = 5) -> tuple[str, ...]:
        """The ids of the first rollouts that a mask or a list of row numbers selects."""
        rows = np.flatnonzero(where) if where.dtype == np.bool_ else where
        return tuple(self.ids[row] for row in rows[:most].tolist())

    def group_names(self, where: Bools | Ints, most: int = 5) -> tuple[str, ...]:
        """The names of the first groups that a mask or a list of group numbers selects."""
        rows = np.flatnonzero(where) if where.dtype == np.bool_ else where
        return tuple(self.groups[row][1] for row in rows[:most].tolist())


def collect(trajectories: Iterable[Trajectory], *, reward_field: str, components: Sequence[str] = ()) -> Table:
    """Facts about every rollout, read once and in order."""
    rows = Rows(reward_field=reward_field, components=tuple(components))
    for trajectory in trajectories:
        rows.add(trajectory)
    return rows.table()


def _ints() -> array[int]:
    return array("q")


@dataclass(eq=False, kw_only=True)
class Rows:
    """Takes rollouts one at a time; `table` gives what was seen."""

    reward_field: str
    components: tuple[str, ...] = ()
    _ids: list[str] = field(default_factory=list)
    _groups: dict[tuple[int | None, str], int] = field(default_factory=dict)
    _ints: dict[str, array[int]] = field(default_factory=dict)
    _reward: array[float] = field(default_factory=lambda: array("d"))
    _why: dict[str, int] = field(default_factory=dict)
    _errors: dict[str, int] = field(default_factory=dict)
    _parts: dict[str, tuple[array[int], array[float]]] = field(default_factory=dict)
    _labels: dict[str, tuple[dict[str, int], array[int], array[int]] | None] = field(default_factory=dict)
    _columns: dict[str, None] = field(default_factory=dict)

    def add(self, trajectory: Trajectory) -> None:
        """Note what matters about one rollout; the rollout itself is not kept."""
        t, row = trajectory, len(self._ids)
        self._ids.append(t.id)
        verdict = _verdict(t, self.reward_field)
        aborted = t.status == "aborted"
        if aborted:
            count_reason(self._errors, t.error or "no error recorded")
        elif not isinstance(verdict, Scored):
            count_reason(self._why, verdict.reason if isinstance(verdict, Abstained) else verdict.error)
        recorded = isinstance(verdict, Scored)
        # A penalty of nothing is written as -0.0 by some verifiers; adding 0 takes the sign off.
        self._reward.append(verdict.value + 0.0 if isinstance(verdict, Scored) and not aborted else 0.0)
        prompt, response = _prompt(t), _response(t)
        written = int(t.policy.sum()) if t.policy is not None else 0
        facts = {
            "group": self._groups.setdefault((t.step, t.group), len(self._groups)),
            "status": STATUSES.index(t.status),
            "known": recorded and not aborted,
            "recorded": recorded,
            "turns": t.n_turns,
            "tokens": written,
            "characters": sum(len(turn.text) for turn in t.turns),
            "content": _digest(prompt, *response),
            "reply": _digest(*response) if any(response) else 0,
            "prompt": _digest(prompt) if prompt else 0,
            "reference": 0 if t.reference is None else _digest(_stable(t.reference)),
            "token_exact": t.has_tokens,
        }
        for name, value in facts.items():
            self._ints.setdefault(name, _ints()).append(int(value))
        for name, value in t.columns.items():
            self._columns.setdefault(name)
            self._note(row, name, value)

    def _note(self, row: int, name: str, value: Any) -> None:
        parts = value.items() if isinstance(value, Mapping) else ((None, value),)
        for part, entry in parts:
            full = name if part is None else f"{name}.{part}"
            looks_it = full in self.components or (
                not self.components and full != self.reward_field and _looks_like_part(name)
            )
            room = full in self._parts or full in self.components or len(self._parts) < MAX_COMPONENTS
            if looks_it and room and (entry is None or isinstance(entry, (int, float))):
                rows, values = self._parts.setdefault(full, (_ints(), array("d")))
                verdict = as_verdict(entry, source=full)
                if isinstance(verdict, Scored):
                    rows.append(row)
                    values.append(verdict.value + 0.0)
        if isinstance(value, str) and name != self.reward_field:
            labels = self._labels.setdefault(name, ({}, _ints(), _ints()))
            if labels is None:
                return
            number = labels[0].setdefault(value, len(labels[0]))
            labels[1].append(row)
            labels[2].append(number)
            if len(labels[0]) > MAX_CATEGORIES:
                self._labels[name] = None

    def table(self) -> Table:
        """Everything seen so far."""
        n = len(self._ids)

        def ints(name: str) -> Ints:
            return np.array(self._ints.get(name, ()), dtype=np.int64)

        components = {}
        for name, (rows, values) in self._parts.items():
            full, known = np.zeros(n), np.zeros(n, np.bool_)
            full[list(rows)], known[list(rows)] = list(values), True
            components[name] = (full, known)
        categories = {}
        for name, labels in self._labels.items():
            if labels is not None:
                index = np.full(n, -1, np.int64)
                index[list(labels[1])] = list(labels[2])
                categories[name] = (tuple(labels[0]), index)
        token_exact = ints("token_exact").astype(np.bool_)
        by_token = n > 0 and bool(token_exact.all())
        return Table(
            reward_field=self.reward_field,
            ids=self._ids,
            groups=tuple(self._groups),
            group=ints("group"),
            status=ints("status"),
            reward=np.array(self._reward, dtype=np.float64),
            known=ints("known").astype(np.bool_),
            recorded=ints("recorded").astype(np.bool_),
            why_missing=dict(self._why),
            errors=dict(self._errors),
            turns=ints("turns"),
            length=ints("tokens" if by_token else "characters"),
            unit="policy tokens" if by_token else "characters",
            content=ints("content"),
            reply=ints("reply"),
            prompt=ints("prompt"),
            reference=ints("reference"),
            token_exact=token_exact,
            components=components,
            categories=categories,
            columns=tuple(self._columns),
        )


def _verdict(t: Trajectory, column: str) -> Verdict:
    if column not in t.columns:
        return Abstained(f"no column {column!r}")
    value = t.columns[column]
    if value is None:
        return Abstained(f"column {column!r} is null")
    if isinstance(value, (Mapping, list, tuple)):
        return Failed(f"column {column!r} holds a {type(value).__name__}, not a number")
    return as_verdict(value, source=f"column {column!r}")


def _looks_like_part(name: str) -> bool:
    lowered = name.lower()
    return "reward" in lowered or "score" in lowered


def _digest(*parts: bytes) -> int:
    made = blake2b(digest_size=8)
    for part in parts:
        made.update(len(part).to_bytes(8, "little"))
        made.update(part)
    # 0 stands for "none recorded".
    return int.from_bytes(made.digest(), "little", signed=True) or 1


def _stable(value: Any) -> bytes:
    try:
        return json.dumps(value, sort_keys=True, default=repr).encode()
    except (TypeError, ValueError):  # keys of several types, or a value that contains itself
        return repr(value).encode("utf-8", "surrogatepass")


def _prompt(t: Trajectory) -> bytes:
    if t.prompt_ids is not None and t.prompt_ids.size:
        return t.prompt_ids.tobytes()
    opening = []
    for message in t.messages:
        if message.get("role") == "assistant":
            break
        opening.append([message.get("role"), message.get("content")])
    return _stable(opening) if opening else b""


def _response(t: Trajectory) -> Sequence[bytes]:
    if t.response_ids is not None and t.policy is not None:
        return (t.response_ids.tobytes(), t.policy.tobytes())
    return [
        part.encode("utf-8", "surrogatepass")
        for turn in t.turns
        for part in (turn.text, *(action.raw for action in turn.actions), turn.observation)
    ]
