"""`algorithm.apportion.*` of a veRL configuration: which recipe, with which parameters, and how scores are read.

    algorithm.adv_estimator=apportion_rlvp          the recipe by name; "apportion" takes it from the next line
    +algorithm.apportion.recipe=my_recipe.py        a name or a file, with adv_estimator=apportion
    +algorithm.apportion.penalty=0.5                any parameter of the recipe
    +algorithm.apportion.failure_limit=0.2          and what `Settings` lists

The estimator and the agent loop live in different processes and read the same configuration.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from apportion.advantages.aggregation import Aggregation
from apportion.errors import InvalidArgument
from apportion.recipe import Recipe
from apportion.recipes import load, names

__all__ = ["KEY", "PREFIX", "Dense", "OnAggregation", "Settings", "Unmarked", "estimator_name", "read"]

PREFIX = "apportion"
KEY = "algorithm.apportion"

Unmarked: TypeAlias = Literal["refuse", "scored"]
Dense: TypeAlias = Literal["outcome", "turn_rewards"]
OnAggregation: TypeAlias = Literal["warn", "refuse", "rescale"]


_CHOICES = {"unmarked": Unmarked, "dense": Dense, "loss_agg_mode": Aggregation, "on_aggregation": OnAggregation}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the configuration says.

    Attributes:
        recipe: made with its parameters.
        kl_in_reward: `algorithm.use_kl_in_reward`.
        unmarked: what a score is that an ordinary agent loop brings while KL is subtracted from it: "refuse", since a
            missing verdict cannot be told from a number any more, or "scored", where none is ever missing.
        dense: what rewards on single tokens are that an ordinary agent loop brings: parts of the "outcome", or the
            "turn_rewards" of the environment for recipes that read them.
        failure_limit: share of one observer's failed verdicts in a batch above which training stops.
        timeout: seconds that the agent loop gives an observer; late is failed.
        loss_agg_mode: the actor's, told by interpolation, since an estimator sees the `algorithm` section alone.
        loss_scale_factor: the actor's, likewise; of seq-mean-token-sum-norm only.
        on_aggregation: where the recipe assumes another aggregation: "warn", "refuse", or "rescale" the advantages.
    """

    recipe: Recipe
    kl_in_reward: bool = False
    unmarked: Unmarked = "refuse"
    dense: Dense = "outcome"
    failure_limit: float = 0.5
    timeout: float | None = None
    loss_agg_mode: Aggregation | None = None
    loss_scale_factor: float | None = None
    on_aggregation: OnAggregation = "warn"

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            value = getattr(self, name)
            if value not in get_args(choices) and not (value is None and name == "loss_agg_mode"):
                raise InvalidArgument(f"{KEY}.{name}", value, f"one of {', '.join(get_args(choices))}")
        limit = self.failure_limit
        if isinstance(limit, bool) or not isinstance(limit, (int, float)) or not 0 <= limit <= 1:
            raise InvalidArgument(f"{KEY}.failure_limit", limit, "a share in [0, 1]")
        for name in ("timeout", "loss_scale_factor"):
            amount = getattr(self, name)
            if amount is not None and not (isinstance(amount, (int, float)) and 0 < amount < float("inf")):
                raise InvalidArgument(f"{KEY}.{name}", amount, "a number > 0")


_OURS = ("unmarked", "dense", "failure_limit", "timeout", "loss_agg_mode", "loss_scale_factor", "on_aggregation")


def estimator_name(recipe: str) -> str:
    """What a recipe is called as an estimator.

    Example:
        >>> estimator_name("experimental/first_error")
        'apportion_experimental_first_error'
    """
    return f"{PREFIX}_{recipe.replace('/', '_')}"


def read(algorithm: Any, *, recipe: str | None = None) -> Settings | None:
    """The settings in `config.algorithm`; None when its estimator is not one of ours.

    Args:
        algorithm: veRL's `algorithm` section, or a mapping; None counts as empty.
        recipe: the recipe, where the caller knows it; default by `algorithm.adv_estimator`.

    Raises:
        InvalidArgument: an unknown recipe, parameter or choice; the key of the configuration is named.

    Example:
        >>> found = read({"adv_estimator": "apportion_grpo", "apportion": {"dialect": "verl"}})
        >>> found.recipe.name, found.recipe.parameters["dialect"]
        ('grpo', 'verl')
        >>> read({"adv_estimator": "grpo"}) is None
        True
    """
    given = _plain(algorithm)
    own = given.get("apportion") or {}
    if not isinstance(own, dict):
        raise InvalidArgument(KEY, own, "settings by name: +algorithm.apportion.penalty=0.5")
    name = recipe or _recipe(str(given.get("adv_estimator", "")), own)
    if name is None:
        return None
    rest = {key: value for key, value in own.items() if key not in (*_OURS, "recipe")}
    return Settings(
        recipe=_made(name, json.dumps(rest, sort_keys=True)),
        kl_in_reward=bool(given.get("use_kl_in_reward", False)),
        **{key: own[key] for key in _OURS if key in own},
    )


def _recipe(estimator: str, own: Mapping[str, Any]) -> str | None:
    if estimator == PREFIX:
        if not own.get("recipe"):
            raise InvalidArgument(f"{KEY}.recipe", own.get("recipe"), f"a recipe's name or file, one of {names()}")
        return str(own["recipe"])
    return {estimator_name(name): name for name in names()}.get(estimator)


@functools.lru_cache(maxsize=32)
def _made(name: str, parameters: str) -> Recipe:
    given = json.loads(parameters)
    try:
        return load(name, **given)
    except InvalidArgument as error:
        where = f"{KEY}.{error.argument}" if error.argument in given else KEY
        where = f"{KEY}.recipe" if error.argument == "recipe" else where
        raise InvalidArgument(where, error.value, error.expected) from error


def _plain(section: Any) -> dict[str, Any]:
    """The section as plain data; interpolations are resolved. OmegaConf, a dataclass of veRL's, or a mapping."""
    if section is None:
        return {}
    if isinstance(section, Mapping) and not hasattr(section, "_get_node"):
        return {key: _plain(value) if isinstance(value, Mapping) else value for key, value in section.items()}
    if hasattr(section, "_get_node"):
        from omegaconf import OmegaConf

        found: Any = OmegaConf.to_container(section, resolve=True)
        return dict(found)
    return {
        name: section.get(name)
        for name in ("adv_estimator", "apportion", "use_kl_in_reward")
        if hasattr(section, "get")
    }
