"""Recipes become estimators of veRL; `entry_point` runs it in every process.

veRL swallows what a plugin raises, and its names are then just missing. So nothing here raises: what could not be
registered is kept, and `status()` tells. Nothing of ours but this module is imported until an estimator is called.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

__all__ = ["RECIPES", "UNFED", "Status", "register", "status"]

# Named here, not looked up: the recipes' own table would import more than a worker without an estimator needs.
RECIPES: tuple[str, ...] = (
    "dr_grpo",
    "experimental/first_error",
    "experimental/mutating_steps",
    "experimental/step_filter",
    "experimental/value_gate",
    "fapo",
    "gdpo",
    "gigpo",
    "gpg",
    "grm",
    "groundedprm",
    "grpo",
    "iapo",
    "igpo",
    "judge",
    "maxrl",
    "mc_grpo",
    "mt_grpo",
    "opo",
    "pass_at_k",
    "pass_at_k_top",
    "pbrs",
    "procredit",
    "pure",
    "reinforce_pp",
    "reinforce_pp_baseline",
    "rloo",
    "rlvp",
    "rlvp_centred",
    "rudder",
    "ruler_like",
    "siop",
    "trace",
    "triage",
    "ui_s1",
    "vineppo",
)

_CRITIC = "values of a critic, which veRL hands to gae alone"
_LOGPS = "log-probabilities per token, which veRL hands to no estimator"
_TREE = "a tree of branches, which veRL does not sample"
# Registered too, so that the answer is the reason and not an unknown name.
UNFED: Mapping[str, str] = {
    "bilevel_gae": _CRITIC,
    "cbpo": _TREE,
    "hca": _LOGPS,
    "hdl": "parts of a rollout that other policies wrote, of which the mask does not tell",
    "ppo": _CRITIC,
    "prime": _LOGPS,
    "remax": "a greedy rollout per prompt, which veRL's V1 trainer does not bring",
    "spo": "a value per prompt that is kept over steps",
    "trace_tree": _TREE,
    "tree_grpo": _TREE,
    "treerl": _TREE,
    "turn_gae": _CRITIC,
    "vapo": _CRITIC,
}


@dataclass(frozen=True)
class Status:
    """What registration left in this process.

    Attributes:
        registered: names of estimators.
        failures: what went wrong, by estimator (or "verl"), as a traceback.
        ran: whether veRL, or anybody, asked for the registration in this process.
    """

    registered: tuple[str, ...]
    failures: Mapping[str, str]
    ran: bool


_REGISTERED: list[str] = []
_FAILURES: dict[str, str] = {}
_RAN: list[bool] = []


def status() -> Status:
    """What was registered in this process, and what failed.

    Example:
        >>> isinstance(status().failures, dict)
        True
    """
    return Status(tuple(_REGISTERED), dict(_FAILURES), bool(_RAN))


def register() -> None:
    """Put every recipe into veRL's registry of estimators; never raises."""
    _RAN.append(True)
    try:
        from verl.trainer.ppo.core_algos import register_adv_est
    except Exception:  # noqa: BLE001 - veRL would swallow it; status() shows it
        _FAILURES["verl"] = traceback.format_exc()
        return
    for recipe in (*RECIPES, *UNFED):
        name = f"apportion_{recipe.replace('/', '_')}"
        _try(name, partial(register_adv_est(name), _estimator(name, recipe)))
    _try("apportion", partial(register_adv_est("apportion"), _estimator("apportion", None)))


def _try(name: str, step: Callable[[], object]) -> None:
    if name in _REGISTERED:
        return
    try:
        step()
    except Exception:  # noqa: BLE001 - one name that is taken must not take the others along
        _FAILURES[name] = traceback.format_exc()
    else:
        _REGISTERED.append(name)


def _estimator(name: str, recipe: str | None) -> Callable[..., Any]:
    """An estimator as veRL calls it, by keyword; whatever else later versions hand over is not looked at."""

    def estimator(
        token_level_rewards: Any, response_mask: Any, config: Any = None, index: Any = None, **_: Any
    ) -> tuple[Any, Any]:
        from apportion.errors import MissingInput
        from apportion.integrations.verl.estimator import estimate

        if recipe is not None and recipe in UNFED:
            how = "a trainer of apportion's that fetches it, or another recipe"
            raise MissingInput(f"algorithm.adv_estimator={name}", UNFED[recipe], how)
        return estimate(token_level_rewards, response_mask, config, index, recipe=recipe)

    estimator.__name__ = estimator.__qualname__ = name
    return estimator
