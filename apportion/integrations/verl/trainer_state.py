"""The recipe's state beside veRL's checkpoints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from apportion.errors import InvalidArgument
from apportion.recipe import State

__all__ = ["STATE_FILE", "folder_to_resume", "read_state", "write_state"]

STATE_FILE = "apportion_state.json"


def write_state(folder: Path, recipe: str, state: State) -> None:
    """One JSON file in the folder of a step, made where it is not there.

    Raises:
        InvalidArgument: a state that JSON does not carry as it is.
    """
    record = {"recipe": recipe, "state": dict(state)}
    try:
        text = json.dumps(record, allow_nan=False)
        same = json.loads(text) == record
    except (TypeError, ValueError):
        same = False
    if not same:
        expected = "numbers, texts, lists and objects with text keys: it is saved as JSON"
        raise InvalidArgument("state", dict(state), expected)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / STATE_FILE).write_text(text)


def read_state(folder: Path, recipe: str) -> dict[str, Any]:
    """What `write_state` wrote.

    Raises:
        InvalidArgument: the checkpoint has none, or another recipe's.
    """
    path = folder / STATE_FILE
    if not path.is_file():
        expected = f"a checkpoint with {STATE_FILE}; to go on from another trainer's weights, give them as the model"
        raise InvalidArgument("trainer.resume_mode", str(folder), expected)
    record = json.loads(path.read_text())
    if record["recipe"] != recipe:
        raise InvalidArgument("recipe", recipe, f"{record['recipe']!r}, as in {path}")
    return dict(record["state"])


def folder_to_resume(trainer: Any, steps: int) -> Path | None:
    """The folder that veRL has just loaded, by its settings (`config.trainer`); None when it started anew."""
    if trainer.resume_mode == "disable" or steps == 0:
        return None
    if trainer.resume_mode == "resume_path":
        return Path(trainer.resume_from_path)
    return Path(trainer.default_local_dir) / f"global_step_{steps}"
