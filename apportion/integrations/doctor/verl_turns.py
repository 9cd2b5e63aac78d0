"""Whether the verdicts of turns would reach the estimator: agent loop, KL, rejection, rewards."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, TypeAlias

from apportion.errors import ApportionError
from apportion.integrations.doctor.finding import Finding
from apportion.integrations.doctor.verl_config import value_of
from apportion.integrations.verl.encoding import Layout
from apportion.integrations.verl.plugin import UNFED
from apportion.integrations.verl.settings import KEY, Settings
from apportion.recipe import Recipe
from apportion.rewards.steps import StepReward
from apportion.rollouts import Level

__all__ = ["check_kl", "check_turns"]

_AGENT = "actor_rollout_ref.rollout.agent"
_OURS = "apportion.integrations.verl.agent_loop.Credit"
_MIXIN = "apportion.integrations.verl.agent_loop.CreditLoop"
_REWARD = "reward.custom_reward_function"

# What is known of the agent loop: apportion's, a class of the user's that may have the mixin, or veRL's own.
_Loop: TypeAlias = Literal["apportion's", "the user's", "veRL's", "unreadable"]


def check_turns(config: Any, recipe: Recipe, settings: Settings, *, fetches: bool) -> list[Finding]:
    """What the recipe observes beside the score, and whether it gets there.

    Args:
        config: of `compose`.
        recipe: of the settings.
        settings: of the `algorithm` section.
        fetches: whether apportion's trainer runs, which reads the facts and the text of turns itself.
    """
    found = _reward(config)
    if recipe.name in UNFED and not fetches:
        return found
    if Layout.of(recipe.observers).only_score or (fetches and all(o.level != Level.TURN for o in recipe.observers)):
        return found
    loop, which = _loop(config)
    beside = ", ".join(recipe.needs)
    paid = settings.dense == "turn_rewards" and all(
        isinstance(o, StepReward) and o.column is None for o in recipe.observers[1:]
    )
    if loop == "unreadable":
        found.append(Finding(severity="error", about=_AGENT, message=which, remedy="a YAML list of {name, _target_}"))
    if loop == "veRL's" and not paid:
        found.append(
            Finding(
                severity="warning" if fetches else "error",
                about=f"{_AGENT}.default_agent_loop={which}",
                message=f"recipe {recipe.name!r} needs {beside}: veRL's own agent loop "
                + ("records no facts of turns" if fetches else "carries a score alone"),
                remedy=f"an agent loop with {_MIXIN} before its class, named in {_AGENT}.agent_loop_config_path",
            )
        )
    if loop == "the user's":
        found.append(
            Finding(
                severity="fine",
                about=f"{_AGENT}.default_agent_loop",
                message=f"{which} must have {_MIXIN} before its class, and bring: {beside}",
            )
        )
    if loop == "apportion's":
        found.append(Finding(severity="fine", about=f"{_AGENT}.default_agent_loop", message=f"{which} observes turns"))
    return found + _rejection(config) + _reward_model(config)


def _loop(config: Any) -> tuple[_Loop, str]:
    name = str(value_of(config, f"{_AGENT}.default_agent_loop", "single_turn_agent"))
    file = value_of(config, f"{_AGENT}.agent_loop_config_path")
    if file is None:
        return "veRL's", name
    from omegaconf import OmegaConf

    try:
        entries: Any = OmegaConf.to_container(OmegaConf.load(Path(str(file))))
        targets = {entry["name"]: str(entry["_target_"]) for entry in entries}
    except Exception as error:  # noqa: BLE001 - whatever is wrong with the file is the finding
        return "unreadable", f"{file} cannot be read as agent loops: {error}"
    if name not in targets:
        return "veRL's", name
    return ("apportion's" if targets[name].startswith(_OURS) else "the user's"), targets[name]


def check_kl(config: Any, settings: Settings) -> list[Finding]:
    """KL in the reward hides a marker that stands in place of a score."""
    loop, _ = _loop(config)
    if not settings.kl_in_reward or loop in ("apportion's", "the user's") or settings.unmarked == "scored":
        return []
    return [
        Finding(
            severity="error",
            about="algorithm.use_kl_in_reward=True",
            message="KL is subtracted from the scores, where a missing verdict cannot be told from a number any more",
            remedy=f"actor_rollout_ref.actor.use_kl_loss=True instead, or {_MIXIN} before the agent loop's class, or "
            f"+{KEY}.unmarked=scored where no verdict is ever missing",
        )
    ]


def _rejection(config: Any) -> list[Finding]:
    chosen = value_of(config, "algorithm.rollout_correction.rollout_rs")
    if chosen is None or "token_" not in str(chosen):
        return []
    return [
        Finding(
            severity="error",
            about=f"algorithm.rollout_correction.rollout_rs={chosen}",
            message="rejection of single tokens changes the mask before the estimator and splits turns",
            remedy="rollout_rs=seq_mean_k1 or another one of whole sequences, or rollout_is, which only weighs",
        )
    ]


def _reward_model(config: Any) -> list[Finding]:
    model = "reward.reward_model"
    if not value_of(config, f"{model}.enable") or value_of(config, f"{model}.enable_resource_pool"):
        return []
    return [
        Finding(
            severity="error",
            about=f"{model}.enable_resource_pool=False",
            message="a colocated reward model writes its own scores over those of the agent loop, and turns are lost",
            remedy=f"{model}.enable_resource_pool=True",
        )
    ]


def _reward(config: Any) -> list[Finding]:
    """The reward function, where it is apportion's."""
    path = str(value_of(config, f"{_REWARD}.path", ""))
    if path != "pkg://apportion.integrations.verl":
        return []
    from apportion.integrations.verl import reward

    given = value_of(config, f"{_REWARD}.reward_kwargs", {})
    name = str(given.get("reward", "exact"))
    try:
        # Makes the reward, as the first rollout would.
        reward.compute_score(None, "", "", reward=name, reward_args=given.get("reward_args"))
    except (ApportionError, OSError) as error:
        where = f"+{_REWARD}.reward_kwargs.reward={name}"
        return [Finding(severity="error", about=where, message=str(error), remedy="a file that defines reward")]
    return [Finding(severity="fine", about=_REWARD, message=f"reward {name!r} can be made")]
