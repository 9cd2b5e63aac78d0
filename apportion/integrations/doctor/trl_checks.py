"""What a TRL configuration would do with the recipe that it names."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from apportion._extras import require
from apportion.errors import ApportionError, InvalidArgument
from apportion.integrations.doctor.finding import Finding
from apportion.recipes import load

__all__ = ["check_trl_config", "read_trl_config"]

# Keys beside those of GRPOConfig: arguments of `CreditGRPOTrainer`, and what TRL's own script takes.
_OURS = ("recipe", "recipe_args", "on_aggregation", "trainer")
_DEFAULTS = {
    "loss_type": "dapo",
    "max_completion_length": 256,
    "num_generations": 8,
    "per_device_train_batch_size": 8,
    "scale_rewards": "group",
}
_BESIDE = {
    "token column 'values'": "values of a critic",
    "token columns": "log-probabilities per token",
    "trajectory columns 'parent'": "a tree of branches",
    "token column 'segment_values'": "values of segments",
}


def read_trl_config(file: Path) -> dict[str, Any]:
    """A YAML file of settings: those of GRPOConfig, and recipe, recipe_args, on_aggregation.

    Raises:
        InvalidArgument: it is no mapping.
    """
    yaml: Any = require("yaml", extra="trl")
    try:
        found = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidArgument("configuration", str(file), f"YAML: {' '.join(str(error).split())}") from error
    if not isinstance(found, dict):
        raise InvalidArgument("configuration", str(file), "settings by name: loss_type: dapo")
    return {str(key): value for key, value in found.items()}


def check_trl_config(config: Mapping[str, Any]) -> list[Finding]:
    """Everything that can be said before a run.

    Args:
        config: settings of `GRPOConfig` by name, with `recipe`, `recipe_args`, `on_aggregation`, and `trainer`, the
            name of the class, where it is not `CreditGRPOTrainer`.
    """
    recipe = config.get("recipe", "grpo")
    try:
        made = load(recipe, **(config.get("recipe_args") or {}))
    except (ApportionError, OSError) as error:
        return [Finding(severity="error", about=f"recipe={recipe}", message=str(error), remedy="apportion recipes")]
    shown = ", ".join(f"{k}={v}" for k, v in made.parameters.items())
    found = [Finding(severity="fine", about=f"recipe={recipe}", message=f"recipe {made.name!r}: {shown}")]
    found += [
        Finding(
            severity="error",
            about=f"recipe={recipe}",
            message=f"needs {what}, which TRL's trainer does not have",
            remedy="another recipe, or veRL with trainer.v1.trainer_mode=apportion_sync",
        )
        for start, what in _BESIDE.items()
        if any(need.startswith(start) for need in made.needs)
    ]
    return found + _settings(made, config) + _class(config) + _known(config)


def _settings(recipe: Any, config: Mapping[str, Any]) -> list[Finding]:
    """The trainer's own check, with what it would log as findings."""
    from apportion.integrations.trl import compatibility

    rest = {**_DEFAULTS, **{k: v for k, v in config.items() if k not in _OURS}}
    steps = rest.get("steps_per_generation") or rest.get("gradient_accumulation_steps") or 1
    how: Any = config.get("on_aggregation", "rescale")
    with _heard(compatibility.LOG) as said:
        try:
            compatibility.check_on_aggregation(how)
            compatibility.check_settings(recipe, SimpleNamespace(**rest), how, micro_batches=int(steps))
        except InvalidArgument as error:
            about = f"{error.argument}={error.value}"
            return [Finding(severity="error", about=about, message="is refused", remedy=error.expected)]
    found = [Finding(severity="warning", about="GRPOConfig", message=text, remedy=_remedy(text)) for text in said]
    return found or [Finding(severity="fine", about=f"loss_type={rest['loss_type']}", message="as the recipe assumes")]


def _remedy(text: str) -> str:
    return "leave it out" if "no effect" in text else "nothing, or the loss_type that the recipe assumes"


def _class(config: Mapping[str, Any]) -> list[Finding]:
    from apportion.integrations.trl.compatibility import check_class

    name = config.get("trainer")
    if name in (None, "CreditGRPOTrainer"):
        return []
    stand_in = type(str(name), (type("GRPOTrainer", (), {}),), {})
    try:
        check_class(stand_in)
    except InvalidArgument as error:
        return [Finding(severity="error", about=f"trainer={name}", message="is refused", remedy=error.expected)]
    return []


def _known(config: Mapping[str, Any]) -> list[Finding]:
    """Whether TRL itself takes the settings; skipped where it is not installed."""
    try:
        from trl import GRPOConfig
    except ImportError:
        return []
    given = {k: v for k, v in config.items() if k not in _OURS}
    unknown = sorted(set(given) - set(GRPOConfig.__dataclass_fields__))
    if unknown:
        return [
            Finding(
                severity="error",
                about=", ".join(unknown),
                message="not settings of GRPOConfig",
                remedy=f"take them out; apportion's own are {', '.join(_OURS)}",
            )
        ]
    # The precision depends on the machine that trains, not on this one.
    here = {**given, "use_cpu": True, "bf16": False, "fp16": False, "tf32": None, "report_to": "none"}
    try:
        GRPOConfig(**{"output_dir": "unused", **here})
    except (TypeError, ValueError, ImportError) as error:
        text = " ".join(str(error).split())
        return [Finding(severity="error", about="GRPOConfig", message=text, remedy="see TRL's documentation")]
    return [Finding(severity="fine", about="GRPOConfig", message=f"TRL takes all {len(given)} settings")]


@contextmanager
def _heard(log: logging.Logger) -> Iterator[list[str]]:
    """What is logged inside, kept and not shown."""
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    before, log.propagate = log.propagate, False
    log.addHandler(handler)
    try:
        yield said
    finally:
        log.removeHandler(handler)
        log.propagate = before
