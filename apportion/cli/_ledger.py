"""The ledger page of `apportion demo`: what each turn of a rollout earned under two recipes, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from apportion.batch import Batch
from apportion.cli import _console as c
from apportion.errors import InvalidArgument
from apportion.recipe import Credit, Recipe
from apportion.rewards import observe
from apportion.rollouts import Level, Trajectory, Turn
from apportion.segments import starts
from apportion.verdicts import Scored

__all__ = ["ScoredDemo", "group_page", "opening", "scored"]


@dataclass(frozen=True, kw_only=True)
class ScoredDemo:
    """The rollouts under one recipe."""

    recipe: Recipe
    settings: str
    credit: Credit
    verdicts: Mapping[str, Any]


def scored(recipe: Recipe, settings: str, batch: Batch, trajectories: Sequence[Trajectory]) -> ScoredDemo:
    """Observe and assign."""
    verdicts = observe(recipe.observers, trajectories)
    credit, _ = recipe.assign(batch, verdicts, step=1)
    return ScoredDemo(recipe=recipe, settings=settings, credit=credit, verdicts=verdicts)


def opening(console: Console, scored: Sequence[ScoredDemo]) -> None:
    """How much there is, and what each recipe makes of it."""
    batch = scored[0].credit.batch
    sizes = (
        f"{len(batch)} rollouts of {batch.size(Level.GROUP)} tasks, {batch.size(Level.TURN)} turns, "
        f"{batch.n_tokens} policy tokens"
    )
    console.print(c.heading("demo", sizes))
    console.print()
    rows: list[list[c.Cell]] = []
    for each in scored:
        found = each.credit.diagnostics()
        rows.append(
            [
                Text(each.recipe.name, style="bold"),
                each.settings,
                c.share(found["groups/without_credit_share"]),
                c.number(each.credit.advantages.residual(), 2),
                ", ".join(each.credit.advantages.terms),
            ]
        )
    heads: list[c.Column] = ["recipe", "settings", ("dead", "right"), ("residual", "right"), "terms of its ledger"]
    console.print(c.table(heads, rows, flexible=(1, 4)))


def group_page(
    console: Console, name: str, remark: str, trajectories: Sequence[Trajectory], grpo: ScoredDemo, rlvp: ScoredDemo
) -> None:
    """The turns of one group's rollouts, line by line."""
    rows = [i for i, trajectory in enumerate(trajectories) if trajectory.group == name]
    if not rows:
        known = dict.fromkeys(trajectory.group for trajectory in trajectories)
        raise InvalidArgument("--group", name, f"one of {', '.join(known)}")
    console.print()
    console.print(c.heading(f"ledger of {name}", "credit of each policy token, turn by turn"))
    if remark:
        console.print(Padding(Text(remark), (0, 0, 0, 2)))
    unit = "rlvp's credit is shown times the policy tokens of the step: its loss sums, grpo's takes means."
    console.print(Padding(Text(unit), (0, 0, 0, 2)))
    console.print()
    console.print(_ledger(rows, trajectories, grpo, rlvp))


def _ledger(rows: Sequence[int], trajectories: Sequence[Trajectory], grpo: ScoredDemo, rlvp: ScoredDemo) -> Any:
    batch = grpo.credit.batch
    # The loss of rlvp is a sum with denominators of its own, that of grpo a mean: this makes the two comparable.
    scale = float(rlvp.credit.in_loss.sum())
    columns = {
        "grpo": _per_turn(grpo.credit.advantages.values, batch),
        **{name: _per_turn(values * scale, batch) for name, values in rlvp.credit.ledger().items()},
        "rlvp": _per_turn(rlvp.credit.advantages.values * scale, batch),
    }
    first = starts(batch.turns).tolist()
    wanted = [k for i in rows for k in range(first[i], first[i] + trajectories[i].n_turns)]
    largest = max(abs(columns["rlvp"][k]) for k in wanted)
    table: list[list[c.Cell]] = []
    for i in rows:
        table.append([_title(trajectories[i]), *[""] * (len(columns) + 1)])
        for number, turn in enumerate(trajectories[i].turns):
            k = first[i] + number
            cells = [_signed(values[k]) for values in columns.values()]
            bar = c.signed_bar(columns["rlvp"][k], largest=largest, half=5)
            table.append([_move(turn, rlvp.verdicts, i, number), *cells, bar])
    heads: list[c.Column] = ["turn", *((_SHORT.get(name, name), "right") for name in columns), ""]
    return c.table(heads, table)


# The terms of rlvp in the width of a column.
_SHORT: Mapping[str, str] = {"violations": "broken", "fulfilments": "kept"}


def _per_turn(values: Any, batch: Batch) -> list[float]:
    """The credit of a turn's tokens, which all have the same."""
    result: list[float] = batch.pool(values, Level.TOKEN, Level.TURN, "mean").tolist()
    return result


def _signed(value: float) -> Text:
    text = f"{value:+.2f}"
    return Text("·", style=c.STYLES["faint"]) if float(text) == 0 else Text(text)


def _title(trajectory: Trajectory) -> Text:
    reward = trajectory.columns.get("reward")
    style, word = (
        ("warning", trajectory.status)
        if trajectory.status != "terminated"
        else ("good", "passed")
        if reward
        else ("bad", "failed")
    )
    return Text.assemble((f"/{trajectory.id.partition('/')[2]} ", "bold"), (word, c.STYLES[style]))


def _move(turn: Turn, verdicts: Mapping[str, Any], rollout: int, number: int) -> Text:
    broken, kept = (verdicts[name][rollout][number] for name in ("violations", "fulfilments"))
    mark, style = " ", ""
    if isinstance(broken, Scored) and broken.value:
        mark, style = "x", c.STYLES["bad"]
    elif isinstance(kept, Scored) and kept.value:
        mark, style = "+", c.STYLES["good"]
    words = [word for action in turn.actions for word in (action.name or "?", *map(str, action.arguments.values()))]
    return Text(f"{mark} ", style=style).append_text(c.safe(" ".join(words), 22))
