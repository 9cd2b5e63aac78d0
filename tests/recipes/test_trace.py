"""TRACE: the worked numbers end to end, what is a transition, and when it is GRPO."""

from __future__ import annotations

import math
from typing import Any

import pytest

from apportion import recipes
from apportion.errors import InvalidArgument, MissingInput
from apportion.recipes.trace import transitions
from apportion.rewards import observe
from apportion.rollouts import Action, Trajectory, Turn
from tests.recipes.builders import advantages

GAPS = [math.log(2.1 / (0.1 + loss)) for loss in (1.0, 1.0, 0.4)]
SEARCH = (Action("search"),)


def episode(name: str, reward: float | None, *values: float | None, answer: bool = True, **fields: Any) -> Trajectory:
    """A search per value, then an answer."""
    columns = [{} if v is None else {"potential": v} for v in values]
    turns = [Turn(actions=SEARCH, columns=c) for c in columns] + [Turn(text="so")] * answer
    return Trajectory(id=name, group="q", turns=turns, columns={"reward": reward, "potential_start": 0.0}, **fields)


def credit(*rollouts: Trajectory, **settings: Any) -> list[float]:
    return advantages(recipes.load("trace", **settings), rollouts)


def test_worked_numbers() -> None:
    made = credit(episode("won", 1.0, *GAPS), episode("lost", 0.0, *GAPS))
    assert made[:4] == pytest.approx([1.2992, 1.3261, 1.4777, 1.0], abs=1e-4)
    assert made[4:] == pytest.approx([-1.1104, -1.1859, -1.1623, -1.0], abs=1e-4)


def test_a_shorter_window_does_not_reach_the_end() -> None:
    made = credit(episode("won", 1.0, *GAPS), episode("lost", 0.0, *GAPS), n_step=2)
    assert made[0] == pytest.approx(1.0 + 0.2 * 0.3592, abs=1e-4)


def test_without_decay_the_window_is_a_mean() -> None:
    made = credit(episode("won", 1.0, 0.5, 0.5), episode("lost", 0.0, 0.0), decay=1.0, n_step=2, fill=0.0)
    assert made[:3] == pytest.approx([1.05, 1.0, 1.0])


def test_the_ledger_tells_outcome_and_potential_apart() -> None:
    made, _ = recipes.load("trace").score([episode("won", 1.0, *GAPS), episode("lost", 0.0, *GAPS)])
    ledger = made.ledger()
    assert set(ledger) == {"outcome", "potential"}
    assert ledger["potential"].tolist() == pytest.approx([0.0944, 0.0701, 0.1577, 0.0] * 2, abs=1e-4)


def test_what_never_reached_the_environment_is_no_transition() -> None:
    plain = credit(episode("won", 1.0, *GAPS), episode("lost", 0.0, *GAPS))
    cut = Turn(actions=SEARCH, executed=False, columns={"potential": -9.0})
    won = episode("won", 1.0, *GAPS)
    turns = (*won.turns[:1], cut, *won.turns[1:])
    broken = Trajectory(id="won", group="q", turns=turns, columns=won.columns)
    made = credit(broken, episode("lost", 0.0, *GAPS))
    assert [made[0], *made[2:5]] == pytest.approx(plain[:4])
    assert made[1] == 1.0


def test_transitions() -> None:
    turns = [Turn(text="?", observation="yes"), Turn(actions=SEARCH), Turn(actions=SEARCH, executed=False), Turn()]
    table = Trajectory(id="a", group="q", turns=turns)
    masks = [
        Trajectory(id=f"b{i}", group="q", response_ids=list(range(len(mask))), policy=mask)  # type: ignore[arg-type]
        for i, mask in enumerate([[1, 0, 1, 0, 1], [1, 0, 1, 0]])
    ]
    tokens = Trajectory(id="c", group="q", turns=[Turn(), Turn()], response_ids=[1, 2, 3], policy=[1, 0, 1])  # type: ignore[arg-type]
    found = observe([transitions()], [table, *masks, tokens])["transition"]
    assert [[v.value for v in row] for row in found] == [[1, 1, 0, 0], [1, 1, 0], [1, 1], [1, 0]]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("values", "settings"),
    [
        ([[0.3, 0.9], [0.1]], {"weight": 0.0}),
        ([[0.0, 0.0], [0.0]], {"fill": 0.0}),
        ([[0.3], [0.1, 0.2]], {"n_step": 0, "fill": 0.0}),
    ],
)
def test_it_is_grpo_without_anything_dense(values: list[list[float]], settings: dict[str, Any]) -> None:
    made = credit(episode("won", 1.0, *values[0]), episode("lost", 0.0, *values[1]), **settings)
    assert made == [1.0] * (len(values[0]) + 1) + [-1.0] * (len(values[1]) + 1)


def test_it_is_grpo_without_a_transition() -> None:
    answer = Turn(text="42", columns={"potential": 0.9})
    columns = {"potential_start": 0.0}
    rows = [Trajectory(id=str(r), group="q", turns=[answer], columns={"reward": r, **columns}) for r in (1.0, 0.0)]
    assert credit(*rows) == [1.0, -1.0]


def test_an_unknown_value_is_no_progress_and_no_step() -> None:
    made = credit(episode("won", 1.0, 0.5, None, 1.0), episode("lost", 0.0, 0.5), fill=0.0)
    assert made[:4] == pytest.approx([1.0 + 0.2 * 0.5, 1.0, 1.0, 1.0])


def test_a_turn_without_tokens_belongs_to_the_turn_before() -> None:
    def tokens(name: str, reward: float) -> Trajectory:
        turns = [
            Turn(actions=SEARCH, columns={"potential": 0.25}, span=(0, 2)),
            Turn(actions=SEARCH, columns={"potential": 0.75}, span=(2, 4)),
            Turn(actions=SEARCH, columns={"potential": 1.0}, span=(4, 6)),
        ]
        columns = {"reward": reward, "potential_start": 0.0}
        policy = [1, 0, 0, 0, 1, 0]
        return Trajectory(
            id=name,
            group="q",
            turns=turns,
            columns=columns,
            response_ids=list(range(6)),
            policy=policy,  # type: ignore[arg-type]
        )

    made = credit(tokens("won", 1.0), tokens("lost", 0.0), n_step=1, fill=0.0)
    assert made == pytest.approx([1.0 + 0.2 * 0.75, 1.0 + 0.2 * 0.25, -1.0 + 0.2 * 0.75, -1.0 + 0.2 * 0.25])


def test_a_dead_group_learns_from_the_potential_alone() -> None:
    made = credit(episode("a", 0.0, 0.5), episode("b", 0.0, -0.5))
    assert made == pytest.approx([0.1, 0.0, -0.1, 0.0])


def test_what_is_missing_is_named() -> None:
    bare = [Trajectory(id="a", group="q", turns=[Turn()], columns={"reward": 1.0})]
    with pytest.raises(MissingInput, match="turn column 'potential'"):
        recipes.load("trace").score(bare)
    for name, value in (("decay", 2.0), ("n_step", -1), ("weight", math.inf), ("fill", math.nan)):
        with pytest.raises(InvalidArgument, match=name):
            recipes.load("trace", **{name: value})
    assert "re-implementation" in recipes.load("trace").reconstruction
