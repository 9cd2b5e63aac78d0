"""A trainer that keeps what reached the loss."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from apportion.integrations.trl import CreditGRPOTrainer
from tests.integrations.trl_adapter.tiny import trainer


class Watching(CreditGRPOTrainer):
    """Keeps what went into the loss, the loss, and the gradient on the per-token log-probabilities."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.seen: list[dict[str, Any]] = []

    def _compute_loss(self, model: Any, inputs: Any) -> Any:
        kept: dict[str, Any] = {}
        compute = self._get_per_token_logps_and_entropies

        def watched(*args: Any, **kwargs: Any) -> Any:
            logps, *rest = compute(*args, **kwargs)
            if logps.requires_grad:
                logps.retain_grad()
            kept["logps"] = logps
            return (logps, *rest)

        self._get_per_token_logps_and_entropies = watched
        try:
            loss = super()._compute_loss(model, inputs)
        finally:
            self._get_per_token_logps_and_entropies = compute
        mask = inputs["completion_mask"] * inputs.get("tool_mask", 1)
        self.seen.append({"loss": loss, "advantages": inputs["advantages"], "mask": mask, **kept})
        return loss


def watched_step(folder: Path, **settings: Any) -> tuple[Watching, dict[str, Any]]:
    """A trained trainer and what its first loss saw."""
    made = trainer(folder, **{"kind": Watching, **settings})
    made.train()
    return made, made.seen[0]  # type: ignore[attr-defined,return-value]
