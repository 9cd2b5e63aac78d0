"""Credit as one plain record per trajectory; the schema is described in docs/credit_format.md.

    {"id": "q7/0", "group": "q7", "step": 3, "status": "terminated",
     "layout": {"lead": 0, "turns": [2, 1], "gaps": [2, 0]},
     "advantages": {"per": "turn", "values": [0.5, 0.25]},
     "in_loss": {"per": "trajectory", "values": true},
     "ledger": {"outcome": {"per": "trajectory", "values": 0.5}, "path": {"per": "turn", "values": [0.0, -0.25]}},
     "residual": 0.0,
     "verdicts": {"outcome": {"value": 1.0}, "path": [{"value": 0.0}, {"value": -1.0, "evidence": "..."}]}}

Whatever is constant over a turn is stored once per turn, and once per trajectory when it is constant over that. Only
policy tokens and turns have numbers; `placed` puts them where the tokens lie.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.recipe import Credit
from apportion.rollouts import Level, Trajectory
from apportion.verdicts import Abstained, Scored, Verdict

__all__ = ["Record", "credit_records", "placed"]

Record: TypeAlias = dict[str, Any]


def credit_records(
    credit: Credit,
    trajectories: Sequence[Trajectory],
    verdicts: Mapping[str, Sequence[Verdict] | Sequence[Sequence[Verdict]]],
) -> Iterator[Record]:
    """The record of every trajectory, in the order of the batch.

    Args:
        credit: what a recipe assigned.
        trajectories: the ones that were packed into the credit's batch, in its order.
        verdicts: what was observed, as it was given to `Recipe.assign`.

    Raises:
        InvalidArgument: other trajectories than those of the batch.

    Example:
        >>> from apportion.recipes import load
        >>> rows = [Trajectory(id=f"r{i}", group="q", response_ids=[5, 6], columns={"reward": i}) for i in range(2)]
        >>> verdicts = {"outcome": [Scored(0.0), Scored(1.0)]}
        >>> credit, _ = load("grpo").assign(Batch.pack(rows), verdicts)
        >>> record = next(credit_records(credit, rows, verdicts))
        >>> record["advantages"], record["verdicts"]
        ({'per': 'trajectory', 'values': -0.7071067811865...}, {'outcome': {'value': 0.0}})
    """
    batch, advantages = credit.batch, credit.advantages
    if tuple(t.id for t in trajectories) != batch.ids:
        raise InvalidArgument("trajectories", [t.id for t in trajectories[:3]], f"those of the batch: {batch.ids[:3]}")
    residual = _residual(credit)
    columns = {
        "advantages": _compact(batch, advantages.level, advantages.values),
        "in_loss": _compact(batch, advantages.level, advantages.known),
    }
    ledger = {name: _compact(batch, term.level, term.values) for name, term in advantages.terms.items()}
    layouts = _layouts(batch)
    for i, trajectory in enumerate(trajectories):
        yield {
            "id": trajectory.id,
            "group": trajectory.group,
            "step": trajectory.step,
            "status": trajectory.status,
            "layout": next(layouts),
            "advantages": next(columns["advantages"]),
            "in_loss": next(columns["in_loss"]),
            "ledger": {name: next(values) for name, values in ledger.items()},
            "residual": residual[i],
            "verdicts": {name: _verdicts(rows[i]) for name, rows in verdicts.items()},
        }


def placed(record: Record, name: str = "advantages", *, fill: float = 0.0) -> list[Any]:
    """The values of a record at every response token (or at every turn, for text-only rollouts).

    Args:
        record: one trajectory's.
        name: "advantages", "in_loss", or the name of a term of the ledger.
        fill: what the tokens get that the policy did not write.

    Example:
        >>> placed({"layout": {"lead": 1, "turns": [2, 1], "gaps": [1, 0]},
        ...         "advantages": {"per": "turn", "values": [0.5, 0.25]}})
        [0.0, 0.5, 0.5, 0.0, 0.25]
    """
    layout = record["layout"]
    turns = layout["turns"]
    column = record[name] if name in ("advantages", "in_loss") else record["ledger"][name]
    values, lengths = column["values"], turns if isinstance(turns, list) else [1] * turns
    if column["per"] == "trajectory":
        values = [values] * sum(lengths)
    elif column["per"] == "turn":
        values = [value for value, n in zip(values, lengths, strict=True) for _ in range(n)]
    if isinstance(turns, int):
        return list(values)
    result = [fill] * (layout["lead"] + sum(turns) + sum(layout["gaps"]))
    for at, value in zip(layout.get("offsets") or _offsets(layout), values, strict=True):
        result[at] = value
    return result


def _offsets(layout: Mapping[str, Any]) -> Iterator[int]:
    at = layout["lead"]
    for length, gap in zip(layout["turns"], layout["gaps"], strict=True):
        yield from range(at, at + length)
        at += length + gap


def _layouts(batch: Batch) -> Iterator[dict[str, Any]]:
    counts, lead, gaps = batch.turns.tolist(), batch.lead.tolist(), batch.gaps.tolist()
    tokens = None if batch.tokens is None else batch.tokens.tolist()
    inside = None if batch.positions is None else batch.positions.tolist()
    turn, token = 0, 0
    for i, count in enumerate(counts):
        if tokens is None:
            yield {"turns": count}
            continue
        lengths, after = tokens[turn : turn + count], gaps[turn : turn + count]
        layout = {"lead": lead[i], "turns": lengths, "gaps": after}
        if inside is not None:
            offsets = inside[token : token + sum(lengths)]
            if offsets != list(_offsets(layout)):
                layout["offsets"] = offsets
        turn, token = turn + count, token + sum(lengths)
        yield layout


def _compact(batch: Batch, level: Level, values: Tensor) -> Iterator[dict[str, Any]]:
    """Per trajectory, the values at the coarsest level that loses nothing."""
    kind = values.dtype
    if level == Level.GROUP:
        level, values = Level.TRAJECTORY, batch.spread(values, Level.GROUP, Level.TRAJECTORY)
    if level == Level.TRAJECTORY:
        for value in values.tolist():
            yield {"per": "trajectory", "values": value}
        return
    finest = values.tolist()
    per_turn, within_turn = _constant(batch, values, level, Level.TURN)
    per_trajectory, constant = _constant(batch, values, level, Level.TRAJECTORY)
    turnwise = (batch.pool(within_turn.double(), Level.TURN, Level.TRAJECTORY, "min") > 0).tolist()
    whole, by_turn = per_trajectory.to(kind).tolist(), per_turn.to(kind).tolist()
    counts, turn, at = batch.turns.tolist(), 0, 0
    sizes = batch.lengths(level, Level.TRAJECTORY).tolist()
    for i, one in enumerate(constant.tolist()):
        if one:
            yield {"per": "trajectory", "values": whole[i]}
        elif turnwise[i]:
            yield {"per": "turn", "values": by_turn[turn : turn + counts[i]]}
        else:
            yield {"per": "token", "values": finest[at : at + sizes[i]]}
        turn, at = turn + counts[i], at + sizes[i]


def _constant(batch: Batch, values: Tensor, level: Level, parent: Level) -> tuple[Tensor, Tensor]:
    """The value of every parent element, and whether all below it have that value; an empty one is constant."""
    numbers = values.double()
    low, high = (batch.pool(numbers, level, parent, how) for how in ("min", "max"))
    return high, low == high


def _residual(credit: Credit) -> list[float]:
    """Per trajectory the largest |sum of terms - advantage|, relative to its largest part (at least 1)."""
    advantages, batch = credit.advantages, credit.batch
    parts = list(credit.ledger().values())
    total = torch.stack(parts).sum(0) if parts else torch.zeros_like(advantages.values)
    largest = torch.stack([advantages.values, *parts]).abs().amax(0)

    def highest(values: Tensor) -> Tensor:
        return batch.pool(values, advantages.level, Level.TRAJECTORY, "max")

    relative = highest((total - advantages.values).abs()) / highest(largest).clamp_min(1.0)
    result: list[float] = relative.tolist()
    return result


def _verdicts(row: Verdict | Sequence[Verdict]) -> dict[str, Any] | list[dict[str, Any]]:
    if isinstance(row, Sequence):
        return [_verdict(verdict) for verdict in row]
    return _verdict(row)


def _verdict(verdict: Verdict) -> dict[str, Any]:
    if isinstance(verdict, Scored):
        return {"value": verdict.value, "evidence": verdict.evidence} if verdict.evidence else {"value": verdict.value}
    return {"abstained": verdict.reason} if isinstance(verdict, Abstained) else {"failed": verdict.error}
