"""A small decision process solved exactly: with the true values, expected credit is the true advantage.

Three turns, two states, two actions, chance in the transitions and in the outcome, an action that ends it early.
Every path is a rollout with its probability, so expectations are sums, without any sampling.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
import torch

from apportion import recipes
from apportion.advantages.gae import gae
from apportion.advantages.states import StateValues, state_values
from apportion.advantages.td import td
from apportion.batch import Batch
from apportion.rewards.potentials import learned_potential, monte_carlo_potential
from apportion.rollouts import Action, Level, Trajectory, Turn
from apportion.signal import Signal

Place = tuple[int, int, int]

HORIZON = 3
POLICY = {0: 0.3, 1: 0.6}
NEXT = {(0, 0): 0.1, (0, 1): 0.7, (1, 0): 0.4, (1, 1): 0.95}
SUCCESS = {0: 0.2, 1: 0.9}


def chance(a: int, s: int) -> float:
    """pi(a | s)."""
    return POLICY[s] if a else 1.0 - POLICY[s]


def ends(k: int, s: int, a: int) -> bool:
    return k + 1 == HORIZON or (k == 1 and s == 1 and a == 1)


@cache
def q(k: int, s: int, a: int) -> float:
    """The value of an action, by dynamic programming."""
    up = NEXT[s, a]
    worth = SUCCESS.__getitem__ if ends(k, s, a) else lambda t: v(k + 1, t)
    return up * worth(1) + (1.0 - up) * worth(0)


@cache
def v(k: int, s: int) -> float:
    """The value of a state under the policy."""
    return sum(chance(a, s) * q(k, s, a) for a in (0, 1))


def advantage(place: Place) -> float:
    return q(*place) - v(*place[:2])


@dataclass(frozen=True)
class Path:
    """One rollout: its probability, the places (turn, state, action), the last state, the outcome."""

    probability: float
    places: tuple[Place, ...]
    last: int
    outcome: float

    @property
    def values(self) -> list[float]:
        """V of every state, the last one included: there, the chance of success."""
        return [*(v(k, s) for k, s, _ in self.places), SUCCESS[self.last]]


def walk(p: float, k: int, s: int, places: tuple[Place, ...]) -> Iterator[Path]:
    for a in (0, 1):
        for t in (0, 1):
            step = p * chance(a, s) * (NEXT[s, a] if t else 1.0 - NEXT[s, a])
            here = (*places, (k, s, a))
            if ends(k, s, a):
                yield Path(step * SUCCESS[t], here, t, 1.0)
                yield Path(step * (1.0 - SUCCESS[t]), here, t, 0.0)
            else:
                yield from walk(step, k + 1, t, here)


PATHS = list(walk(1.0, 0, 0, ()))
BATCH = Batch.of(groups=["q"] * len(PATHS), turns=[len(path.places) for path in PATHS])
OUTCOME = Signal.of(BATCH, Level.TRAJECTORY, [path.outcome for path in PATHS], name="outcome")
PLACES = sorted({place for path in PATHS for place in path.places})


def valued(value: Callable[[Path], Sequence[float]], *, end: float | None = None) -> StateValues:
    """Values of all states of all paths; `end` replaces those of the last states."""
    rows = [[*value(path)[:-1], value(path)[-1] if end is None else end] for path in PATHS]
    start = Signal.of(BATCH, Level.TRAJECTORY, [row[0] for row in rows], name="value")
    return state_values(start, Signal.of(BATCH, Level.TURN, [x for row in rows for x in row[1:]], name="value"))


def exact(*, end: float | None = None) -> StateValues:
    return valued(lambda path: path.values, end=end)


def wrong(*, end: float | None = None) -> StateValues:
    """A bad guess that depends on the state alone."""
    return valued(lambda path: [0.4 * s - 0.1 * k for k, s, _ in path.places] + [0.3 * path.last], end=end)


def expected(credit: Sequence[float]) -> Mapping[Place, float]:
    """E[credit | turn, state, action]."""
    assert len(credit) == sum(len(path.places) for path in PATHS)
    mass: defaultdict[Place, float] = defaultdict(float)
    total: defaultdict[Place, float] = defaultdict(float)
    numbers = iter(credit)
    for path in PATHS:
        for place in path.places:
            mass[place] += path.probability
            total[place] += path.probability * next(numbers)
    return {place: total[place] / mass[place] for place in mass}


def rollouts() -> list[Trajectory]:
    """The paths as rollouts of one token per turn; an observation tells the state that follows."""
    made = []
    for i, path in enumerate(PATHS):
        states = [*(s for _, s, _ in path.places[1:]), path.last]
        turns = [
            Turn(text=str(a), actions=(Action("act"),), observation=str(state), span=(2 * k, 2 * k + 2))
            for k, ((_, _, a), state) in enumerate(zip(path.places, states, strict=True))
        ]
        logps = [(math.log(chance(a, s)), math.log(hindsight((k, s, a), path.outcome))) for k, s, a in path.places]
        before, after = ([x for logp in logps for x in (logp[which], 0.0)] for which in (0, 1))
        made.append(
            Trajectory(
                id=str(i),
                group="q",
                turns=turns,
                columns={"reward": path.outcome, "i": i},
                response_ids=[x for (_, _, a), state in zip(path.places, states, strict=True) for x in (a, 10 + state)],  # type: ignore[arg-type]
                policy=[1, 0] * len(turns),  # type: ignore[arg-type]
                behaviour_logps=before,  # type: ignore[arg-type]
                token_columns={"hindsight_logps": after},  # type: ignore[dict-item]
            )
        )
    return made


def hindsight(place: Place, outcome: float) -> float:
    """h(a | s, outcome), by Bayes' rule."""
    k, s, a = place
    likely, prior = (x if outcome else 1.0 - x for x in (q(k, s, a), v(k, s)))
    return chance(a, s) * likely / prior


def score(name: str, **settings: Any) -> list[float]:
    credit, _ = recipes.load(name, **settings).score(rollouts())
    found: list[float] = credit.advantages.values.tolist()
    return found


# Shown the whole rollout, a head that looks the exact values up.
EXACT = learned_potential(lambda t: PATHS[t.columns["i"]].values, sees="trajectory", name="value")
WRONG = learned_potential(
    lambda t: [0.4 * s - 0.1 * k for k, s, _ in PATHS[t.columns["i"]].places] + [0.5], sees="trajectory", name="value"
)
HOPEFUL = learned_potential(lambda t: [0.5] * t.n_turns + [1.0 - PATHS[t.columns["i"]].last], sees="trajectory")
REWARD = OUTCOME.scaled(
    torch.tensor([float(k == len(path.places) - 1) for path in PATHS for k in range(len(path.places))]), Level.TURN
)


def test_the_process_is_what_it_says() -> None:
    assert math.fsum(path.probability for path in PATHS) == pytest.approx(1.0)
    assert math.fsum(path.probability * path.outcome for path in PATHS) == pytest.approx(v(0, 0))
    assert len(PLACES) == 2 + 4 + 4
    for k, s in {place[:2] for place in PLACES}:
        assert math.fsum(chance(a, s) * advantage((k, s, a)) for a in (0, 1)) == pytest.approx(0.0)
    assert min(abs(advantage(place)) for place in PLACES) > 0.01


@pytest.mark.parametrize(
    "credit",
    [
        pytest.param(lambda: td(exact(end=0.0), reward=REWARD), id="td, one step"),
        pytest.param(lambda: td(exact()), id="td of the potential alone"),
        pytest.param(lambda: td(exact(end=0.0), reward=REWARD, n_step=2), id="td, two steps"),
        pytest.param(lambda: td(exact(), reward=REWARD, n_step=None, terminal="zero"), id="td, all steps"),
        pytest.param(lambda: td(exact(), n_step=1, lam=0.8, window="normalised"), id="a window of one"),
        *(
            pytest.param(lambda lam=lam: gae(OUTCOME, exact(end=0.0), lam=lam), id=f"gae({lam})")
            for lam in (0.0, 0.5, 0.95, 1.0)
        ),
    ],
)
def test_exact_values_give_the_true_advantage(credit: Callable[[], Signal]) -> None:
    found = expected(credit().check().values.tolist())
    assert found == pytest.approx({place: advantage(place) for place in PLACES})


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("vineppo", {"whitening": "none"}),
        ("pbrs", {"baseline": "none"}),
        ("rudder", {"max_error": 2.0}),
    ],
)
def test_so_do_the_recipes(name: str, settings: dict[str, Any]) -> None:
    found = expected(score(name, potential=EXACT, **settings))
    assert found == pytest.approx({place: advantage(place) for place in PLACES})


def test_so_does_the_dense_part_of_trace() -> None:
    recipe = recipes.load("trace", potential=EXACT, n_step=1, fill=0.0, weight=1.0)
    made, _ = recipe.score(rollouts())
    assert expected(made.ledger()["value"].tolist()) == pytest.approx({p: advantage(p) for p in PLACES})


def test_so_do_fresh_continuations() -> None:
    asked: list[tuple[int, int]] = []

    def play(state: Trajectory, n: int) -> list[float]:
        """The exact mean in place of many continuations."""
        s = int(state.turns[-1].observation) if state.turns else 0
        asked.append((state.n_turns, s))
        return [v(state.n_turns, s)] * n

    found = expected(score("vineppo", whitening="none", potential=monte_carlo_potential(play, continuations=2)))
    assert found == pytest.approx({place: advantage(place) for place in PLACES})
    # Equal prefixes once: the start, then what was done and what followed.
    assert sorted(k for k, _ in asked) == [0] + [1] * 4 + [2] * 12


def test_so_does_exact_hindsight() -> None:
    for action in ("turn", "token"):
        found = expected(score("hca", action=action, limit=1e6))
        assert found == pytest.approx({place: advantage(place) for place in PLACES})


# ---------------------------------------------------------------------------------------------- what wrong values do


def preferences(found: Mapping[Place, float]) -> list[float]:
    """By how much the second action is preferred, in every state: what the expected gradient depends on."""
    return [found[k, s, 1] - found[k, s, 0] for k, s in sorted({place[:2] for place in PLACES})]


TRUE = [advantage((k, s, 1)) - advantage((k, s, 0)) for k, s in sorted({place[:2] for place in PLACES})]


def test_a_wrong_value_is_no_more_than_a_baseline_where_everything_follows() -> None:
    for credit in (
        gae(OUTCOME, wrong(end=0.0), lam=1.0).values.tolist(),
        score("pbrs", baseline="none", potential=WRONG),
    ):
        found = expected(credit)
        assert preferences(found) == pytest.approx(TRUE)
        assert found != pytest.approx({place: advantage(place) for place in PLACES})


def test_a_wrong_value_misleads_short_windows_and_shaping_that_keeps_its_end() -> None:
    assert preferences(expected(td(wrong(end=0.0), reward=REWARD).values.tolist())) != pytest.approx(TRUE, abs=0.01)
    assert preferences(expected(gae(OUTCOME, wrong(end=0.0), lam=0.5).values.tolist())) != pytest.approx(TRUE, abs=0.01)
    kept = score("pbrs", baseline="none", terminal="keep", potential=HOPEFUL)
    assert preferences(expected(kept)) != pytest.approx(TRUE, abs=0.01)


def correlation(credit: Sequence[float]) -> float:
    """Between the credit of the single turns and their true advantage, over the paths."""
    weight = torch.tensor([path.probability for path in PATHS for _ in path.places], dtype=torch.float64)
    true = torch.tensor([advantage(place) for path in PATHS for place in path.places], dtype=torch.float64)
    c = torch.cov(torch.stack((torch.tensor(list(credit), dtype=torch.float64), true)), aweights=weight)
    return float(c[0, 1] / (c[0, 0] * c[1, 1]).sqrt())


def test_exact_values_tell_turns_apart_better_than_the_outcome_does() -> None:
    outcome = correlation(score("dr_grpo"))
    others = [correlation(gae(OUTCOME, exact(end=0.0), lam=1.0).values.tolist())]
    others += [correlation(score("trace", potential=EXACT)), correlation(score("pbrs", potential=EXACT))]
    one_step = correlation(td(exact()).values.tolist())
    assert outcome < min(others)
    assert max(others) < 0.5 < one_step
