"""What a veRL configuration would do with the recipe that it names."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from apportion.errors import ApportionError, InvalidArgument
from apportion.integrations.doctor.finding import Finding, Severity
from apportion.integrations.doctor.loading import check_filter
from apportion.integrations.doctor.verl_config import value_of
from apportion.integrations.doctor.verl_turns import check_kl, check_turns
from apportion.integrations.verl.plugin import UNFED
from apportion.integrations.verl.settings import KEY, PREFIX, Settings, estimator_name, read
from apportion.recipe import Recipe
from apportion.recipes import names

__all__ = ["TRAINER", "check_verl_config"]

# The mode of `apportion.integrations.verl.trainer`.
TRAINER = "apportion_sync"
_MODE = "trainer.v1.trainer_mode"
_ESTIMATOR = "algorithm.adv_estimator"
_AGGREGATION = "actor_rollout_ref.actor.loss_agg_mode"


@dataclass(frozen=True, kw_only=True)
class _Chosen:
    config: Any
    settings: Settings

    @property
    def recipe(self) -> Recipe:
        return self.settings.recipe

    @property
    def fetches(self) -> bool:
        """Whether apportion's own trainer runs, which also fetches values, log-probabilities and columns."""
        return str(self.get(_MODE)) == TRAINER

    def get(self, key: str, default: Any = None) -> Any:
        return value_of(self.config, key, default)


def check_verl_config(config: Any) -> list[Finding]:
    """Everything that can be said before a run.

    Args:
        config: of `compose`.
    """
    estimator = str(value_of(config, _ESTIMATOR, ""))
    known = {PREFIX, *map(estimator_name, names())}
    if estimator not in known:
        return [_not_ours(estimator, known)]
    try:
        settings = read(config.algorithm)
    except ApportionError as error:
        return [_of(error, about=KEY)]
    if settings is None:
        return [_not_ours(estimator, known)]
    chosen = _Chosen(config=config, settings=settings)
    made = settings.recipe
    shown = ", ".join(f"{k}={v}" for k, v in made.parameters.items())
    found = [Finding(severity="fine", about=f"{_ESTIMATOR}={estimator}", message=f"recipe {made.name!r}: {shown}")]
    for check in _CHECKS:
        found += check(chosen)
    found += check_turns(config, made, settings, fetches=chosen.fetches)
    found += [] if chosen.fetches else check_kl(config, settings)
    variables = chosen.get("ray_kwargs.ray_init.runtime_env.env_vars", {})
    return found + check_filter(dict(variables), where="ray_kwargs.ray_init.runtime_env")


def _not_ours(estimator: str, known: set[str]) -> Finding:
    if not estimator.startswith(PREFIX):
        return Finding(
            severity="warning",
            about=f"{_ESTIMATOR}={estimator}",
            message="not one of apportion's: its recipes take no part",
            remedy=f"{_ESTIMATOR}={PREFIX}_<recipe>",
        )
    close = difflib.get_close_matches(estimator, known, n=3)
    return Finding(
        severity="error",
        about=f"{_ESTIMATOR}={estimator}",
        message="no such estimator",
        remedy=f"meant {' or '.join(close)}?" if close else "apportion recipes lists them",
    )


def _of(error: ApportionError, *, about: str) -> Finding:
    if isinstance(error, InvalidArgument):
        return Finding(
            severity="error", about=f"{error.argument}={error.value!r}", message="is refused", remedy=error.expected
        )
    return Finding(
        severity="error", about=about, message=str(error), remedy="apportion recipes NAME says what it takes"
    )


def _trainer(c: _Chosen) -> Iterator[Finding]:
    mode, v1 = str(c.get(_MODE, "sync")), bool(c.get("trainer.use_v1", True))
    if not v1:
        yield Finding(
            severity="error" if c.fetches else "warning",
            about="trainer.use_v1=False",
            message="the trainer of V0 makes the scores anew from one number per rollout: turns do not arrive",
            remedy="trainer.use_v1=True",
        )
    if not c.fetches and mode != "sync":
        yield Finding(
            severity="warning",
            about=f"{_MODE}={mode}",
            message="only the synchronous trainer was run with apportion",
            remedy=f"{_MODE}=sync, or compare the logged advantages of a few steps",
        )


def _needs(c: _Chosen) -> Iterator[Finding]:
    """Columns that stock veRL does not hand to an estimator."""
    lacking = UNFED.get(c.recipe.name)
    stateful = bool(c.recipe.initial_state)
    if not c.fetches:
        if lacking:
            needs = "; ".join(c.recipe.needs)
            yield Finding(
                severity="error",
                about=f"recipe {c.recipe.name!r}",
                message=f"needs {lacking} ({needs})",
                remedy=f"{_MODE}={TRAINER}, which fetches what the rollouts and the critic brought",
            )
        if c.recipe.parameters.get("anneal_after") is not None:
            yield Finding(
                severity="error",
                about=f"{KEY}.anneal_after",
                message="follows the training step, which an estimator is not told",
                remedy=f"{_MODE}={TRAINER}",
            )
        if stateful:
            yield Finding(
                severity="error",
                about=f"recipe {c.recipe.name!r}",
                message=f"keeps a state over steps ({', '.join(c.recipe.initial_state)}): an estimator cannot",
                remedy=f"{_MODE}={TRAINER}",
            )
        return
    if any("token column 'values'" in need for need in c.recipe.needs) and not c.get("critic.enable"):
        yield Finding(
            severity="error",
            about="critic.enable",
            message=f"recipe {c.recipe.name!r} needs a critic, and veRL starts one for gae only",
            remedy="critic.enable=True",
        )


def _aggregation(c: _Chosen) -> Iterator[Finding]:
    computed, assumed, told = c.get(_AGGREGATION), c.recipe.aggregation, c.settings.loss_agg_mode
    how = c.settings.on_aggregation
    if c.fetches:
        told = computed
    if told is not None and told != computed:
        yield Finding(
            severity="error",
            about=f"{KEY}.loss_agg_mode={told}",
            message=f"the actor computes {computed}",
            remedy=f"+{KEY}.loss_agg_mode='${{{_AGGREGATION}}}'",
        )
    if computed == assumed:
        yield Finding(severity="fine", about=_AGGREGATION, message=f"{computed}, as the recipe assumes")
        return
    said = f"the actor computes {computed}, recipe {c.recipe.name!r} assumes {assumed}"
    if how == "rescale" and told is not None:
        yield from _rescaled(c, said)
        return
    severity: Severity = "error" if how == "refuse" or (how == "rescale" and told is None) else "warning"
    tell = "" if c.fetches else f" +{KEY}.loss_agg_mode='${{{_AGGREGATION}}}'"
    yield Finding(
        severity=severity,
        about=_AGGREGATION,
        message=said,
        remedy=f"{_AGGREGATION}={assumed}, or +{KEY}.on_aggregation=rescale{tell}",
    )


def _rescaled(c: _Chosen, said: str) -> Iterator[Finding]:
    whole, mini = c.get("data.train_batch_size"), c.get("actor_rollout_ref.actor.ppo_mini_batch_size")
    if whole == mini:
        yield Finding(severity="fine", about=_AGGREGATION, message=f"{said}: advantages are rescaled")
        return
    yield Finding(
        severity="warning",
        about=_AGGREGATION,
        message=f"{said}: rescaling is exact for one mini-batch per step, here are {mini} of {whole} prompts",
        remedy="ppo_mini_batch_size equal to train_batch_size, or the recipe's own aggregation",
    )


def _without_effect(c: _Chosen) -> Iterator[Finding]:
    """Settings that veRL hands to its own estimators alone."""
    instead = "the recipe decides: another recipe, or a parameter of this one"
    for key, default in (("norm_adv_by_std_in_grpo", True), ("gamma", 1.0), ("lam", 1.0)):
        value = c.get(f"algorithm.{key}", default)
        if value != default:
            own = {"gamma": "discount", "lam": "lam"}.get(key)
            remedy = f"+{KEY}.{own}={value}" if own in c.recipe.parameters else instead
            yield Finding(
                severity="warning", about=f"algorithm.{key}={value}", message="has no effect here", remedy=remedy
            )


def _traps(c: _Chosen) -> Iterator[Finding]:
    if c.get("algorithm.use_pf_ppo", False):
        yield Finding(
            severity="error",
            about="algorithm.use_pf_ppo=True",
            message="V1 resamples rows and writes advantages back under the old keys: each trains on another's",
            remedy="algorithm.use_pf_ppo=False",
        )
    if c.get("critic.enable") and not any("values" in need for need in c.recipe.needs):
        yield Finding(
            severity="warning",
            about="critic.enable=True",
            message=f"recipe {c.recipe.name!r} does not read its values, and its targets are the advantages",
            remedy="critic.enable=False",
        )
    group = c.get("actor_rollout_ref.rollout.n", 1)
    if group == 1 and not any("values" in need for need in c.recipe.needs):
        yield Finding(
            severity="warning",
            about="actor_rollout_ref.rollout.n=1",
            message="a rollout without others of its prompt has nothing to be compared with",
            remedy="actor_rollout_ref.rollout.n=8",
        )


_CHECKS: Sequence[Callable[[_Chosen], Iterator[Finding]]] = (
    _trainer,
    _needs,
    _aggregation,
    _without_effect,
    _traps,
)
