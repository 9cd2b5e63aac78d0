"""Rows of the estimators that look at the whole batch, or at no group at all, and of those that place and add up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import torch

from apportion import advantages as adv
from apportion.rollouts import Level
from apportion.signal import Signal
from tests.conformance.row import Deviation, Row, because, number, step_number
from tests.conformance.rows_group import EPSILON, RAW_SINGLETON, one
from tests.conformance.strategies import Case, build, signal

WHITENED = because("the mean and standard deviation are those of the whole batch")
NO_GROUP = because("no group is used: the baseline is the mean of the batch")
TOKEN_MEAN = because("the whitening subtracts a mean over tokens, which is not 0 where lengths and rewards go together")
RAW = because("no baseline is subtracted")
ALPHA = because("alpha counts the samples of the whole batch")
ALPHA_VERL = because("veRL's alpha counts rewards that are not 0")
DENOMINATOR = because("the denominator counts tokens of the whole batch")

UNCENTRED: Mapping[str, Deviation] = {
    "shift_group": RAW,
    "shift_batch": RAW,
    "constant_group": RAW,
    "constant_batch": RAW,
}


def _lone(case: Case) -> bool:
    (x,) = case.signals
    return min(int(x.known.sum()), int(x.batch.tokens_per_trajectory[x.known].sum())) < 2


def _lone_case() -> Case:
    batch = build([("a", 0, [(1, 0)])])
    return Case(batch, (signal(batch, Level.TRAJECTORY, [0.75], [2], name="reward"),))


SKIPPED = because("with fewer than two known elements there is nothing to whiten", _lone_case(), _lone)
BATCH: Mapping[str, Deviation] = {
    "isolation": WHITENED,
    "shift_group": NO_GROUP,
    "shift_batch": SKIPPED,
    "scale": SKIPPED,
    "constant_group": NO_GROUP,
    "constant_batch": SKIPPED,
    "singleton": NO_GROUP,
}


def _kl(estimator: object, x: Signal, **options: object) -> Signal:
    ref_logps = -(step_number(x.batch) % 5).double() / 8 - 0.125
    return estimator(x, beta=0.5, logps=torch.zeros_like(ref_logps), ref_logps=ref_logps, **options)


def _remax(signals: Sequence[Signal]) -> Signal:
    return adv.remax(signals[0], baseline=(number(signals[0].batch) % 3).double() / 4)


_KL = because("the KL penalty is added to the reward")

_WHITENED = [
    one("whiten", adv.whiten, degree=0, deviations=BATCH),
    one("whiten (by tokens)", partial(adv.whiten, unit="token"), degree=0, text="refused", deviations=BATCH),
    one(
        "whiten (scale only)",
        partial(adv.whiten, center="none"),
        degree=0,
        deviations={**BATCH, "shift_batch": RAW},
    ),
    one("reinforce_pp", adv.reinforce_pp, degree=0, text="refused", deviations=BATCH),
    one(
        "reinforce_pp (discount)",
        partial(adv.reinforce_pp, discount=0.9),
        degree=0,
        text="refused",
        deviations={
            **BATCH,
            "shift_batch": because("a discounted constant is not constant along a rollout"),
            "constant_batch": because("a discounted constant is not constant along a rollout"),
        },
    ),
    one(
        "reinforce_pp (KL)",
        partial(_kl, adv.reinforce_pp),
        text="refused",
        deviations={**BATCH, "constant_batch": _KL, "scale": _KL},
    ),
    one(
        "reinforce_pp_baseline",
        adv.reinforce_pp_baseline,
        degree=0,
        text="refused",
        deviations={"isolation": WHITENED, "constant_group": TOKEN_MEAN, "singleton": TOKEN_MEAN},
    ),
    one(
        "reinforce_pp_baseline (by rollouts)",
        partial(adv.reinforce_pp_baseline, unit="element"),
        degree=0,
        deviations={"isolation": WHITENED},
    ),
    one("gpg", adv.gpg, deviations={"isolation": ALPHA}),
    one(
        "gpg (verl)",
        partial(adv.gpg, dialect="verl"),
        singleton="raw",
        deviations={
            **RAW_SINGLETON,
            "isolation": ALPHA,
            "shift_group": ALPHA_VERL,
            "shift_batch": ALPHA_VERL,
            "singleton": because("alpha multiplies the raw reward too"),
        },
    ),
]

_SINGLE = because("a move, not a comparison: no group is needed")

_PLACED = [
    one("channel", adv.channel, levels=[Level.TURN], door=False, singleton="raw", deviations=UNCENTRED),
    one("channel (outcome)", adv.channel, singleton="raw", deviations=UNCENTRED),
    one("on_last_token", adv.on_last_token, text="refused", deviations={**UNCENTRED, "singleton": _SINGLE}),
    one(
        "on_last_token (turns)",
        adv.on_last_token,
        levels=[Level.TURN],
        door=False,
        text="refused",
        deviations={**UNCENTRED, "singleton": _SINGLE},
    ),
    one("penalised_rewards", adv.penalised_rewards, text="refused", deviations={**UNCENTRED, "singleton": _SINGLE}),
    one(
        "penalised_rewards (KL)",
        partial(_kl, adv.penalised_rewards),
        text="refused",
        deviations={**UNCENTRED, "singleton": _SINGLE, "scale": _KL},
    ),
    *(
        one(
            f"return_to_go ({form}, {level.name.lower()}s)",
            partial(adv.return_to_go, form=form, discount=discount),
            levels=[level],
            door=level == Level.TOKEN,
            deviations={**UNCENTRED, "singleton": _SINGLE},
        )
        for form, discount, level in (
            ("sum", 0.9, Level.TURN),
            ("min", 1.0, Level.TURN),
            ("last", 1.0, Level.TURN),
            ("sum", 1.0, Level.TOKEN),
        )
    ),
    one(
        "return_to_go (softmin)",
        partial(adv.return_to_go, form="softmin"),
        levels=[Level.TURN],
        door=False,
        deviations={
            **UNCENTRED,
            "singleton": _SINGLE,
            "scale": because("the temperature has the units of the reward"),
        },
    ),
    one(
        "reweight",
        lambda x: adv.reweight(adv.channel(x), assumed="seq-mean-token-mean", trainer="token-mean"),
        singleton="raw",
        text="refused",
        deviations={
            **UNCENTRED,
            "isolation": DENOMINATOR,
            "singleton": DENOMINATOR,
            "missing": because("the trainer's denominators also count the tokens that left the loss"),
        },
    ),
    Row(
        name="remax",
        covers="remax",
        run=_remax,
        deviations={**UNCENTRED, "scale": because("the greedy baseline is not scaled"), "singleton": RAW},
    ),
    Row(
        name="remax (scored baseline)",
        covers="remax",
        run=lambda signals: adv.remax(signals[0], baseline=signals[1]),
        levels=[Level.TRAJECTORY] * 2,
        door=False,
        deviations={"singleton": because("the baseline is a rollout of its own: no group is needed")},
    ),
]

_TWO = [Level.TRAJECTORY] * 2


def _partly_missing(case: Case) -> bool:
    a, b = case.signals
    return not torch.equal(a.known, b.known)


def _half() -> Case:
    batch = build([("a", 0, [(1, 0)])] * 3)
    states = ([2, 2, 2], [2, 1, 2])
    return Case(batch, tuple(signal(batch, Level.TRAJECTORY, [1.0, 2.0, 4.0], s, name=f"reward {s}") for s in states))


PARTS = because("a reward that is absent adds nothing, so the sums still differ", _half(), _partly_missing)
_GDPO_TOKEN = because("the last step subtracts a mean over tokens, which is not 0")

_COMBINED = [
    Row(
        name="gdpo", covers="gdpo", run=adv.gdpo, levels=_TWO, degree=0, door=False, deviations={"isolation": WHITENED}
    ),
    Row(
        name="gdpo (last step by tokens)",
        covers="gdpo",
        run=partial(adv.gdpo, final="token"),
        levels=_TWO,
        degree=0,
        door=False,
        text="refused",
        deviations={"isolation": WHITENED, "constant_group": _GDPO_TOKEN, "singleton": _GDPO_TOKEN},
    ),
    Row(
        name="gdpo (no last step)",
        covers="gdpo",
        run=partial(adv.gdpo, final="none", weights=[2.0, 0.5]),
        levels=_TWO,
        degree=0,
        door=False,
    ),
    Row(
        name="gdpo (trl)",
        covers="gdpo",
        run=partial(adv.gdpo, dialect="trl"),
        levels=_TWO,
        degree=0,
        door=False,
        deviations={"isolation": WHITENED, "scale": EPSILON},
    ),
    Row(
        name="normalize_then_sum",
        covers="normalize_then_sum",
        run=adv.normalize_then_sum,
        levels=[Level.TRAJECTORY, Level.TURN],
        degree=0,
        door=False,
    ),
    Row(
        name="sum_then_normalize",
        covers="sum_then_normalize",
        run=partial(adv.sum_then_normalize, weights=[1.0, -0.5]),
        levels=_TWO,
        degree=0,
        door=False,
        deviations=dict.fromkeys(("shift_group", "shift_batch", "constant_group", "constant_batch"), PARTS),
    ),
    Row(
        name="per_channel",
        covers="per_channel",
        run=partial(adv.per_channel, counted=["known", "nonzero"]),
        levels=[Level.TRAJECTORY, Level.TURN],
        door=False,
        deviations={**UNCENTRED, "isolation": DENOMINATOR, "singleton": DENOMINATOR},
    ),
    Row(
        name="gate",
        covers="gate",
        run=lambda signals: adv.gate(signals[0], when=signals[1]),
        levels=[Level.TURN, Level.TRAJECTORY],
        moved=[0],
        door=False,
        deviations={
            **UNCENTRED,
            "singleton": because("a gate, not a comparison"),
        },
    ),
]

ROWS = [*_WHITENED, *_PLACED, *_COMBINED]
