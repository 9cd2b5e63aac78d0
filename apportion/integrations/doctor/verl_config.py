"""A veRL configuration as a run would see it: a file, overrides, or both, over veRL's own schema."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from apportion._extras import require
from apportion.errors import InvalidArgument, MissingExtra

__all__ = ["compose", "unknown_keys", "value_of"]

_MAIN = "ppo_trainer"
# Sections that take any name.
_OPEN = ("algorithm.apportion", "reward.custom_reward_function.reward_kwargs", "ray_kwargs.ray_init", "hydra")


def compose(file: Path | None = None, overrides: Sequence[str] = ()) -> Any:
    """The configuration of `python -m verl.trainer.main_ppo`, without importing veRL.

    Args:
        file: a YAML file. One with a `defaults` list is composed as `--config-dir` and `--config-name` do; another one
            is laid over veRL's own, such as the resolved configuration that a run prints.
        overrides: as on the command line of main_ppo, with `+` where a key is new.

    Returns:
        An OmegaConf `DictConfig`.

    Raises:
        InvalidArgument: what Hydra does not take, with its own words.
        MissingExtra: veRL, or Hydra, is not installed.
    """
    schema = _schema()
    hydra: Any = require("hydra", extra="verl")
    conf: Any = require("omegaconf", extra="verl").OmegaConf
    instance: Any = require("hydra.core.global_hydra", extra="verl").GlobalHydra.instance()
    folder, name, path, over = schema, _MAIN, [], None
    try:
        if file is not None:
            over = conf.load(file)
            if "defaults" in over:
                folder, name, over = file.resolve().parent, file.stem, None
                path = [f"hydra.searchpath=[file://{schema}]"]
        instance.clear()
        with hydra.initialize_config_dir(config_dir=str(folder), version_base=None):
            made = hydra.compose(config_name=name, overrides=[*path, *overrides])
        if over is not None:
            conf.set_struct(made, False)
            made = conf.merge(made, over)
    except Exception as error:
        if isinstance(error, OSError) or not type(error).__module__.startswith(("hydra", "omegaconf", "yaml")):
            raise
        text = " ".join(str(error).split())
        raise InvalidArgument("configuration", str(file or ", ".join(overrides)), f"what veRL takes: {text}") from error
    finally:
        instance.clear()
    return made


def _schema() -> Path:
    found = importlib.util.find_spec("verl")
    if found is None or not found.submodule_search_locations:
        raise MissingExtra("verl", "verl")
    return Path(next(iter(found.submodule_search_locations))) / "trainer" / "config"


def unknown_keys(config: Any) -> list[str]:
    """Keys that veRL's schema does not have: in a file a misspelt one is taken without a word.

    Args:
        config: of `compose`.
    """
    conf: Any = require("omegaconf", extra="verl").OmegaConf
    given, known = (conf.to_container(one, resolve=False) for one in (config, compose()))
    return list(_beyond(given, known, ""))


def _beyond(given: Mapping[str, Any], known: Mapping[str, Any], path: str) -> Iterator[str]:
    for key, value in given.items():
        name = f"{path}{key}"
        if name.startswith(_OPEN):
            continue
        if key not in known:
            yield name
        elif isinstance(value, dict) and isinstance(known[key], dict) and known[key]:
            yield from _beyond(value, known[key], f"{name}.")


def value_of(config: Any, key: str, default: Any = None) -> Any:
    """One value by its dotted key, interpolations resolved; the default where it is not there or not given.

    Example:
        >>> from omegaconf import OmegaConf
        >>> value_of(OmegaConf.create({"a": {"b": 1}}), "a.b"), value_of(OmegaConf.create({}), "a.b", 2)
        (1, 2)
    """
    conf: Any = require("omegaconf", extra="verl").OmegaConf
    found = conf.select(config, key, default=None, throw_on_missing=False)
    return default if found is None else found
