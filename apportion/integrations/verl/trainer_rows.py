"""What veRL stored of every rollout, as trajectories: tokens, text and facts of turns, numbers per token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from apportion.errors import InvalidArgument
from apportion.integrations.verl.encoding import Carried
from apportion.rollouts import Trajectory

__all__ = ["FIELDS", "NEEDED", "Row", "read_rows", "rollout_of"]

NEEDED = ("uid", "prompts", "responses", "response_mask", "rm_scores")
# Fetched where they are: veRL leaves out what nothing has stored.
FIELDS = (
    *NEEDED,
    "rollout_log_probs",
    "old_log_probs",
    "ref_log_prob",
    "values",
    "teacher_logprobs",
    "extra_fields",
    "extra_info",
    "reward_model",
)
# veRL's name, and what the recipes call it.
_COLUMNS = {"values": "values", "old_log_probs": "old_logps", "ref_log_prob": "ref_logps"}


@dataclass(frozen=True, kw_only=True)
class Row:
    """One rollout as it is stored.

    Attributes:
        key: `<uid>_<session>_<output>`.
        uid: of the prompt.
        prompt: int[P].
        response: int[T].
        mask: bool[T] the policy wrote the token, before any rejection.
        scores: float[T] the dense scores, before any KL.
        tokens: numbers per response token, by the recipes' names; `behaviour_logps` among them.
        facts: what the agent loop put into `extra_fields`.
        dataset: `extra_info` and `reward_model` of the data set's row.
    """

    key: str
    uid: str
    prompt: npt.NDArray[np.int64]
    response: npt.NDArray[np.int64]
    mask: npt.NDArray[np.bool_]
    scores: Tensor
    tokens: Mapping[str, npt.NDArray[np.float64]]
    facts: Mapping[str, Any]
    dataset: Mapping[str, Any]


def read_rows(data: Any, keys: Sequence[str]) -> list[Row]:
    """The rows of what `transfer_queue.kv_batch_get` returned.

    Args:
        data: with the fields of `FIELDS`, ragged ones nested.
        keys: of the rows.

    Raises:
        InvalidArgument: fields are missing (all are listed), or a column is not one number per response token.
    """
    stored = set(data.keys())
    missing = [name for name in NEEDED if name not in stored]
    if missing:
        raise InvalidArgument("fields of the rollouts", missing, "what veRL 0.9.1 stores; see apportion doctor")
    found = {name: _items(data, name, len(keys)) for name in FIELDS if name in stored}
    return [_row(key, {name: items[i] for name, items in found.items()}) for i, key in enumerate(keys)]


def _items(data: Any, name: str, rows: int) -> list[Any]:
    """One entry per row: nested tensors unbind, objects come as a list of their own kind, or as one for all."""
    found = data.get(name)
    items = list(found.unbind(0)) if isinstance(found, Tensor) else list(found)
    if len(items) != rows:
        raise InvalidArgument(name, len(items), f"{rows} entries, one per row")
    return [getattr(item, "data", item) if not isinstance(item, Tensor) else item for item in items]


def _row(key: str, found: Mapping[str, Any]) -> Row:
    prompt, response = _whole(found["prompts"]), _whole(found["responses"])
    facts = found.get("extra_fields")
    facts = dict(facts) if isinstance(facts, Mapping) else {}
    columns = {ours: found[theirs] for theirs, ours in _COLUMNS.items() if theirs in found}
    if "rollout_log_probs" in found:
        columns["behaviour_logps"] = found["rollout_log_probs"]
    if "teacher_logprobs" in found and found["teacher_logprobs"].shape[-1] == 1:
        # Position t scores token t + 1 of prompt and response.
        columns["teacher_logps"] = found["teacher_logprobs"].flatten()[prompt.size - 1 :][: response.size]
    columns.update(facts.get("token_columns") or {})
    tokens = {name: _numbers(column) for name, column in columns.items()}
    wrong = [f"{name}: {column.size}" for name, column in tokens.items() if column.size != response.size]
    if wrong:
        raise InvalidArgument("token_columns", wrong, f"{response.size} numbers, one per response token, in row {key}")
    return Row(
        key=key,
        uid=str(found["uid"]),
        prompt=prompt,
        response=response,
        mask=_whole(found["response_mask"]) != 0,
        scores=found["rm_scores"].to(torch.float32),
        tokens=tokens,
        facts=facts,
        dataset={name: found[name] for name in ("extra_info", "reward_model") if name in found},
    )


def _numbers(column: Any) -> npt.NDArray[np.float64]:
    # A critic's values may be of a precision that NumPy does not have.
    return torch.as_tensor(column).detach().cpu().to(torch.float64).flatten().numpy()


def _whole(tensor: Tensor) -> npt.NDArray[np.int64]:
    return np.asarray(tensor.cpu().numpy(), np.int64)


def rollout_of(row: Row, own: npt.NDArray[np.bool_], carried: Carried, score: float, tokenizer: Any) -> Trajectory:
    """The trajectory of a row, for observers that are asked here.

    Args:
        row: as stored.
        own: bool[T] the tokens that rejection has left in the loss.
        carried: what its scores carried, see `encoding.decode`; a missing verdict is the outcome.
        score: its score, KL included where it was subtracted.
        tokenizer: for the text of turns.
    """
    from apportion.integrations.verl.agent_loop import _rollout

    output = SimpleNamespace(
        prompt_ids=row.prompt, response_ids=row.response, response_mask=row.mask, extra_fields=row.facts
    )
    made = _rollout(output, {**row.dataset, "uid": row.uid}, tokenizer)
    reward: Any = score if carried is None or isinstance(carried, list) else carried
    info = row.facts.get("reward_extra_info")
    given = {name: column for name, column in row.tokens.items() if name != "behaviour_logps"}
    return replace(
        made,
        id=row.key,
        own=None if bool((own == row.mask).all()) else own,
        behaviour_logps=row.tokens.get("behaviour_logps"),
        token_columns=given,
        columns={**made.columns, **(info if isinstance(info, Mapping) else {}), "reward": reward},
    )
