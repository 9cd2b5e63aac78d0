"""Rows of what turns values of states into credit: TD, GAE, and the recipes with a critic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from apportion import advantages as adv
from apportion import recipes
from apportion.advantages.states import critic_values, last_values, state_values, turn_values
from apportion.batch import Batch
from apportion.rollouts import Level
from apportion.signal import Signal
from tests.conformance.row import Deviation, Row, because, step_number
from tests.conformance.rows_batch import BATCH, UNCENTRED
from tests.conformance.rows_group import one
from tests.conformance.rows_recipes import verdicts

_SINGLE = because("a state is compared with the next one: no group is needed")
_CRITIC = because("the critic's values are not scaled")
_TURNS = because("a turn is a step")
_GAE: Mapping[str, Deviation] = {**UNCENTRED, "singleton": _SINGLE, "scale": _CRITIC}


def _values(batch: Batch) -> Tensor:
    """A critic whose values follow a rollout wherever it goes."""
    return (step_number(batch) % 7).double() / 8


def _critic(batch: Batch) -> Signal:
    return Signal.of(batch, Level.TOKEN, _values(batch), name="value")


def _gae(x: Signal) -> Signal:
    return adv.gae(x, critic_values(_critic(x.batch), last_values(x.batch)), discount=0.9, lam=0.8)


def _turn_gae(x: Signal) -> Signal:
    return adv.gae(x, turn_values(_critic(x.batch), last_values(x.batch)), discount=0.9, lam=0.8)


def _returns(x: Signal) -> Signal:
    return adv.lambda_returns(x, critic_values(_critic(x.batch), last_values(x.batch)), lam=0.5)


def _bilevel(x: Signal) -> Signal:
    return adv.bilevel_gae(x, _critic(x.batch), last_values(x.batch), turn_lam=0.9, lam=0.8)


def _td(**options: object) -> object:
    return lambda signals: adv.td(state_values(*signals), **options)


_STATES = [Level.TRAJECTORY, Level.TURN]
_DISCOUNTED = because("a discounted constant is not constant along a rollout")

_VERBS = [
    Row(
        name="td (one step)",
        covers="td",
        run=_td(),
        levels=_STATES,
        door=False,
        deviations={"singleton": _SINGLE},
    ),
    Row(
        name="td (windows)",
        covers="td",
        run=_td(n_step=3, lam=0.8, window="normalised"),
        levels=_STATES,
        door=False,
        deviations={"singleton": _SINGLE},
    ),
    Row(
        name="td (shaping)",
        covers="td",
        run=_td(discount=0.9, terminal="zero"),
        levels=_STATES,
        door=False,
        deviations={
            **dict.fromkeys(("shift_group", "shift_batch", "constant_group", "constant_batch"), _DISCOUNTED),
            "singleton": _SINGLE,
        },
    ),
    Row(
        name="td_errors",
        covers="td_errors",
        run=lambda signals: adv.td_errors(state_values(*signals)),
        levels=_STATES,
        door=False,
        deviations={"singleton": _SINGLE},
    ),
    one("gae", _gae, text="refused", deviations=_GAE),
    one("gae (turns)", _turn_gae, door=False, text="refused", deviations={**_GAE, "turn_splitting": _TURNS}),
    one("lambda_returns", _returns, text="refused", deviations=_GAE),
    one("bilevel_gae", _bilevel, door=False, text="refused", deviations={**_GAE, "turn_splitting": _TURNS}),
]


def _recipe(name: str, *, turns: bool = False, **settings: object) -> Row:
    made = recipes.load(name, **settings)

    def run(signals: Sequence[Signal]) -> Signal:
        (x,) = signals
        batch = replace(x.batch, token_columns={"values": _values(x.batch)})
        nothing = [*verdicts(x.masked(torch.zeros_like(x.known)))]
        credit, _ = made.assign(batch, {"outcome": verdicts(x), "bootstrap_value": nothing}, step=0)
        return credit.advantages

    whitened = settings.get("whitening") != "none"
    critic = because("the critic's values are neither shifted nor scaled")
    broken = {**BATCH, **dict.fromkeys(("shift_batch", "scale", "constant_batch"), critic)} if whitened else _GAE
    return Row(
        name=f"recipe {name}" + ("" if whitened else " (not whitened)"),
        covers=f"recipe {name}",
        run=run,
        degree=0 if whitened else 1,
        door=False,
        text="refused",
        floats_only=True,
        scope=made.scope,
        deviations={**broken, **({"turn_splitting": _TURNS} if turns else {})},
    )


ROWS = [
    *_VERBS,
    _recipe("ppo"),
    _recipe("ppo", whitening="none"),
    _recipe("vapo"),
    _recipe("turn_gae", turns=True),
    _recipe("bilevel_gae", turns=True),
]
