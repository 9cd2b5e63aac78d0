"""The credit of a rollout turn by turn, as a record of a credit file tells it."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

from apportion.errors import InvalidArgument

__all__ = ["TurnCredit", "chosen", "turn_credits"]

Record: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class TurnCredit:
    """One turn of a rollout.

    Attributes:
        tokens: the policy's; None for text-only rollouts.
        advantage: the mean over the turn's tokens; None where the turn takes no part in the loss.
        terms: the same of every term of the ledger.
        verdicts: observer -> its verdict on this turn, as the record holds it; those per turn only.
    """

    tokens: int | None
    advantage: float | None
    terms: Mapping[str, float | None]
    verdicts: Mapping[str, Mapping[str, Any]]


def turn_credits(record: Record) -> list[TurnCredit]:
    """Every turn's credit and its causes.

    Example:
        >>> record = {
        ...     "layout": {"lead": 0, "turns": [2, 1], "gaps": [2, 0]},
        ...     "advantages": {"per": "turn", "values": [0.5, 0.25]},
        ...     "in_loss": {"per": "trajectory", "values": True},
        ...     "ledger": {
        ...         "outcome": {"per": "trajectory", "values": 0.5},
        ...         "path": {"per": "turn", "values": [0, -0.25]},
        ...     },
        ...     "verdicts": {"outcome": {"value": 1.0}, "path": [{"value": 0.0}, {"value": -1.0}]},
        ... }
        >>> second = turn_credits(record)[1]
        >>> second.advantage, dict(second.terms), second.verdicts["path"]
        (0.25, {'outcome': 0.5, 'path': -0.25}, {'value': -1.0})
    """
    turns = record["layout"]["turns"]
    tokens: list[int | None] = list(turns) if isinstance(turns, list) else [None] * turns
    in_loss = _per_turn(record["in_loss"], tokens)
    names = ("advantages", *record["ledger"])
    columns = {
        name: [
            value if known else None
            for value, known in zip(_per_turn(_column(record, name), tokens), in_loss, strict=True)
        ]
        for name in names
    }
    said = {name: rows for name, rows in record["verdicts"].items() if isinstance(rows, Sequence)}
    return [
        TurnCredit(
            tokens=n,
            advantage=columns["advantages"][k],
            terms={name: columns[name][k] for name in record["ledger"]},
            verdicts={name: rows[k] for name, rows in said.items()},
        )
        for k, n in enumerate(tokens)
    ]


def chosen(records: Iterable[Record], *, ids: Sequence[str] = (), group: str | None = None, most: int) -> list[Record]:
    """The records that were asked for by name; otherwise those with the largest credit on a single token or turn.

    Args:
        records: one at a time.
        ids: trajectory ids, in the order wanted.
        group: the rollouts of one prompt.
        most: so many at most; all of `ids`.

    Raises:
        InvalidArgument: an id or a group that does not occur.
    """
    if ids:
        wanted = set(ids)
        found = {record["id"]: record for record in records if record["id"] in wanted}
        absent = [name for name in ids if name not in found]
        if absent:
            raise InvalidArgument("rollout", absent, "ids of rollouts in the credit file")
        return [found[name] for name in ids]
    if group is not None:
        members = list(islice((record for record in records if record["group"] == group), most))
        if not members:
            raise InvalidArgument("group", group, "a group in the credit file")
        return members
    # The first of equals comes first: the count breaks ties, and records are never compared.
    ranked = ((_largest(record["advantages"]["values"]), -n, record) for n, record in enumerate(records))
    return [record for _, _, record in heapq.nlargest(most, ranked)]


def _column(record: Record, name: str) -> Mapping[str, Any]:
    column: Mapping[str, Any] = record["advantages"] if name == "advantages" else record["ledger"][name]
    return column


def _per_turn(column: Mapping[str, Any], tokens: Sequence[int | None]) -> list[Any]:
    if column["per"] == "trajectory":
        return [column["values"]] * len(tokens)
    if column["per"] == "turn":
        return list(column["values"])
    values: Iterator[Any] = iter(column["values"])
    each = [list(islice(values, n or 0)) for n in tokens]
    return [sum(part) / len(part) if part else 0.0 for part in each]


def _largest(values: Any) -> float:
    return max(map(abs, values), default=0.0) if isinstance(values, list) else abs(values)
