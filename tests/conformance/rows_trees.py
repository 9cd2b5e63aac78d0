"""Rows of the recipes that see trees. Who branched off whom follows from the number of a rollout, wherever it goes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch

from apportion import recipes
from apportion.batch import Batch
from apportion.rollouts import Level
from apportion.signal import Signal
from apportion.verdicts import Abstained, Scored, Verdict
from tests.conformance.row import Row, because, number
from tests.conformance.rows_recipes import verdicts

Seen = Mapping[str, list[Verdict] | list[list[Verdict]]]


def _recorded(batch: Batch) -> Seen:
    """Of three rollouts the second and third copied two and one tokens (turns) of the first."""
    place = [int(name) for name in batch.ids]
    branch = [n % 3 != 0 for n in place]
    return {
        "rollout": [Scored(float(n)) for n in place],
        "parent": [Scored(float(n - n % 3)) if b else Abstained("-") for n, b in zip(place, branch, strict=True)],
        "copied": [Scored(3.0 - n % 3) if b else Abstained("-") for n, b in zip(place, branch, strict=True)],
    }


def _equal_turns(batch: Batch) -> Seen:
    """Of three rollouts all share their first turn, and the first two the second as well."""
    shared = lambda n, k: k < (1 if n % 3 == 2 else 2)  # noqa: E731
    codes = [
        [Scored(float(n // 3 * 1000 + k if shared(n, k) else n * 1000 + 500 + k)) for k in range(count)]
        for n, count in zip(number(batch).tolist(), batch.turns.tolist(), strict=True)
    ]
    return {"prefix": codes}


def _trees(batch: Batch) -> Seen:
    return {"tree": [Scored(float(n // 2)) for n in number(batch).tolist()]}


def _tree(
    name: str,
    seen: Callable[[Batch], Seen],
    *,
    called: str = "",
    settings: Mapping[str, object] | None = None,
    **declared: object,
) -> Row:
    made = recipes.load(name, **(settings or {}))

    def run(signals: Sequence[Signal]) -> Signal:
        (x,) = signals
        credit, _ = made.assign(x.batch, {"outcome": verdicts(x), **seen(x.batch)}, step=0)
        return credit.advantages

    return Row(
        name=f"recipe {called or name}",
        covers=f"recipe {name}",
        run=run,
        door=False,
        floats_only=True,
        scope=made.scope,
        **declared,
    )


def _chain(signals: Sequence[Signal]) -> Signal:
    solved, values = signals
    batch = solved.batch
    column = torch.where(values.known, values.values, torch.nan)
    with_values = Batch.of(
        groups=[batch.group_ids[g] for g in batch.group.tolist()],
        ids=batch.ids,
        turns=batch.turns,
        tokens=batch.tokens,
        lead=batch.lead,
        gaps=batch.gaps,
        own=batch.own,
        token_columns={"segment_values": column},
    )
    credit, _ = recipes.load("spo", mask_above=1.0).assign(with_values, {"outcome": verdicts(solved)})
    return credit.advantages


_NODES = because("the contrast of a node is measured against the nodes of all groups")
_BY_TURN = because("where rollouts part is counted in turns")
_VALUED = because("what a state is worth comes from its own continuations: no group is needed")

ROWS = [
    _tree("cbpo", _recorded, degree=0, deviations={"isolation": _NODES}),
    _tree("hdl", _recorded),
    _tree("trace_tree", _recorded, degree=0),
    _tree("tree_grpo", _trees, degree=0),
    _tree("treerl", _recorded),
    _tree(
        "treerl",
        _equal_turns,
        called="treerl (prefixes)",
        settings={"branches": "prefixes"},
        deviations={"turn_splitting": _BY_TURN},
    ),
    _tree("spo", _recorded, called="spo (tree)", settings={"form": "tree", "mask_above": 1.0}),
    _tree(
        "spo",
        _recorded,
        called="spo (continuations)",
        settings={"form": "continuations", "mask_above": 1.0},
    ),
    Row(
        name="recipe spo",
        covers="recipe spo",
        run=_chain,
        levels=(Level.TRAJECTORY, Level.TOKEN),
        door=False,
        floats_only=True,
        scope="group",
        deviations={"singleton": _VALUED},
    ),
]
