"""Named methods: each a `Recipe` made by a function of keyword-only settings with the paper's defaults.

load("rlvp", penalty=0.5)      by name, from Python or a trainer's config
load("my_recipe.py")           from a file that defines `recipe`: a Recipe, or a function that returns one
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from apportion.errors import InvalidArgument
from apportion.recipe import Recipe
from apportion.recipes.files import defined_in

__all__ = ["Factory", "factory", "load", "names"]

Factory: TypeAlias = Callable[..., Recipe]

_CLASSICAL = "apportion.recipes.classical"
_RECIPES: Mapping[str, str] = {
    "dr_grpo": _CLASSICAL,
    "gpg": _CLASSICAL,
    "grpo": _CLASSICAL,
    "maxrl": _CLASSICAL,
    "mc_grpo": _CLASSICAL,
    "opo": _CLASSICAL,
    "pass_at_k": _CLASSICAL,
    "pass_at_k_top": _CLASSICAL,
    "reinforce_pp": _CLASSICAL,
    "reinforce_pp_baseline": _CLASSICAL,
    "rloo": _CLASSICAL,
    "bilevel_gae": "apportion.recipes.bilevel_gae",
    "fapo": "apportion.recipes.fapo",
    "gdpo": "apportion.recipes.gdpo",
    "grm": "apportion.recipes.judged",
    "judge": "apportion.recipes.judged",
    "ruler_like": "apportion.recipes.judged",
    "ppo": "apportion.recipes.ppo",
    "turn_gae": "apportion.recipes.turn_gae",
    "vapo": "apportion.recipes.vapo",
    "remax": "apportion.recipes.remax",
    "rlvp": "apportion.recipes.rlvp",
    "rlvp_centred": "apportion.recipes.rlvp",
    "cbpo": "apportion.recipes.cbpo",
    "hdl": "apportion.recipes.hdl",
    "spo": "apportion.recipes.spo",
    "trace_tree": "apportion.recipes.trace_tree",
    "tree_grpo": "apportion.recipes.tree_grpo",
    "treerl": "apportion.recipes.treerl",
    "gigpo": "apportion.recipes.gigpo",
    "groundedprm": "apportion.recipes.groundedprm",
    "igpo": "apportion.recipes.igpo",
    "mt_grpo": "apportion.recipes.mt_grpo",
    "prime": "apportion.recipes.prime",
    "procredit": "apportion.recipes.procredit",
    "pure": "apportion.recipes.pure",
    "siop": "apportion.recipes.siop",
    "ui_s1": "apportion.recipes.ui_s1",
    "hca": "apportion.recipes.hca",
    "iapo": "apportion.recipes.iapo",
    "pbrs": "apportion.recipes.pbrs",
    "rudder": "apportion.recipes.rudder",
    "trace": "apportion.recipes.trace",
    "triage": "apportion.recipes.triage",
    "vineppo": "apportion.recipes.vineppo",
    "experimental/first_error": "apportion.recipes.experimental.first_error",
    "experimental/mutating_steps": "apportion.recipes.experimental.mutating_steps",
    "experimental/step_filter": "apportion.recipes.experimental.step_filter",
    "experimental/value_gate": "apportion.recipes.experimental.value_gate",
}


def names() -> list[str]:
    """Every recipe that loads by name, sorted.

    Example:
        >>> "grpo" in names(), "rlvp" in names()
        (True, True)
    """
    return sorted(_RECIPES)


def factory(name_or_file: str | Path) -> Factory:
    """The function that makes a recipe; its keyword-only parameters are the recipe's settings.

    Args:
        name_or_file: a name from `names()`, or the path of a Python file (ending in .py) that defines `recipe`.

    Raises:
        InvalidArgument: an unknown name (close ones are suggested), a file that is absent or defines no `recipe`.
    """
    text = str(name_or_file)
    if text in _RECIPES:
        made: Factory = getattr(importlib.import_module(_RECIPES[text]), text.rpartition("/")[2])
        return made
    if not text.endswith(".py"):
        raise InvalidArgument("recipe", text, f"a file ending in .py, or one of {', '.join(names())}")
    return _from_file(Path(text))


def load(name_or_file: str | Path, **parameters: Any) -> Recipe:
    """A recipe by name or from a file, made with the given settings.

    Raises:
        InvalidArgument: as `factory`, a setting that the recipe does not have (its own are listed) or one that it needs
            and was not given, and a file whose function returns something else than a recipe.

    Example:
        >>> load("grpo").aggregation
        'seq-mean-token-mean'
        >>> try:
        ...     load("grpo", temperature=1.0)
        ... except InvalidArgument as error:
        ...     print(error)
        parameters=['temperature']: expected settings of 'grpo': dialect, reward, truncated
    """
    make = factory(name_or_file)
    settings = inspect.signature(make).parameters
    unknown = sorted(set(parameters) - set(settings))
    if unknown:
        listed = ", ".join(sorted(settings)) or "it has none"
        raise InvalidArgument("parameters", unknown, f"settings of {str(name_or_file)!r}: {listed}")
    needed = [name for name, p in settings.items() if p.default is p.empty and p.kind is p.KEYWORD_ONLY]
    absent = [name for name in needed if name not in parameters]
    if absent:
        raise InvalidArgument("parameters", sorted(parameters), f"also {', '.join(absent)}, without a default")
    made = make(**parameters)
    if not isinstance(made, Recipe):
        raise InvalidArgument("recipe", made, f"a Recipe from the function in {str(name_or_file)!r}")
    if made.parameters:
        return made
    # A function that does not record its settings would leave runs that cannot be told apart.
    defaults = {name: p.default for name, p in settings.items() if p.default is not p.empty}
    return dataclasses.replace(made, parameters={**defaults, **parameters})


def _from_file(path: Path) -> Factory:
    found = defined_in(path, "recipe", argument="recipe")
    if isinstance(found, Recipe):
        ready = found
        return lambda: ready
    if callable(found):
        made: Factory = found
        return made
    raise InvalidArgument("recipe", str(path), "a file whose `recipe` is a Recipe or a function that returns one")
