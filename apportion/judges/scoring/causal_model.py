"""A causal language model of transformers behind three calls: hidden states, hidden states on a cache, log-probs."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from apportion._extras import require
from apportion.errors import InvalidArgument
from apportion.judges.scoring.packing import Branch, Reads

# Attention implementations that take a mask with one row per query.
_MASKED = ("eager", "sdpa")
# Position encodings whose angles depend on the length of the whole input: a prefix scored alone has other ones.
_BY_LENGTH = ("dynamic", "longrope")
_HEAD_ELEMENTS = 2**23


class CausalModel:
    """What the re-scorer needs of `model`, whatever the version of transformers calls it.

    Attributes:
        model: with `get_decoder()` (hidden states) and `get_output_embeddings()` (the head).
        width: number of outputs of the head, padding included.
    """

    def __init__(self, model: Any) -> None:
        decoder = model.get_decoder() if hasattr(model, "get_decoder") else None
        # Where a family does not name its decoder, transformers before 5 answers with nothing or the model itself.
        decoder = getattr(model, "base_model", None) if decoder is None or decoder is model else decoder
        head = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
        if decoder is None or decoder is model or head is None or getattr(model.config, "is_encoder_decoder", False):
            raise InvalidArgument("model", type(model).__name__, "a decoder-only language model of transformers")
        self.model, self.decoder, self.head = model, decoder, head
        self.width = int(head.weight.shape[0])
        self.device: torch.device = model.get_input_embeddings().weight.device
        self.dtype: torch.dtype = head.weight.dtype
        self._cache_name = "cache" if "cache" in inspect.signature(decoder.forward).parameters else "past_key_values"

    @property
    def config(self) -> Any:
        """Of the text model, where there are several."""
        config = self.model.config
        return config.get_text_config() if hasattr(config, "get_text_config") else config

    def cannot_pack(self) -> str | None:
        """Why branches cannot be packed behind a cache of this model, or None."""
        config = self.config
        attention = getattr(config, "_attn_implementation", None) or "eager"
        if attention not in _MASKED:
            return f"attention {attention!r} takes no mask per query (use one of {', '.join(map(repr, _MASKED))})"
        kinds = set(getattr(config, "layer_types", None) or ()) - {"full_attention"}
        if kinds:
            return f"its layers are not all full attention ({', '.join(sorted(map(str, kinds)))})"
        windowed = getattr(config, "sliding_window", None) and getattr(config, "use_sliding_window", True)
        if windowed and not getattr(config, "layer_types", None):
            return f"its attention looks back {config.sliding_window} tokens only"
        rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
        kind = rope.get("rope_type", rope.get("type")) if isinstance(rope, dict) else None
        if kind in _BY_LENGTH:
            return f"its position encoding {kind!r} depends on the length of the input"
        return None

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """No dropout, no gradient; every module's mode is as before afterwards."""
        training = [module for module in self.model.modules() if module.training]
        self.model.eval()
        try:
            with torch.no_grad():
                yield
        finally:
            for module in training:
                module.training = True

    def new_cache(self) -> Any:
        """A cache that keeps every key of every layer."""
        return require("transformers", extra="demo").DynamicCache()

    def read(self, ids: Tensor, *, cache: Any = None) -> Tensor:
        """Hidden states [B, T, H] of int64[B, T] ids under plain causal attention; fills `cache`."""
        given: dict[str, Any] = {self._cache_name: cache} if cache is not None else {}
        hidden: Tensor = self.decoder(input_ids=ids, use_cache=cache is not None, **given).last_hidden_state
        return hidden

    def read_branches(self, portion: Sequence[Sequence[Branch]], *, cache: Any, length: int) -> Tensor:
        """Hidden states [B, E, H] of each row's branches behind `cache`, which is left as it was."""
        ids, at, owner = (self._padded(portion, which) for which in ("ids", "at", "owner"))
        order = torch.arange(ids.shape[1], device=self.device)
        # A branch's position counts from its boundary on; a query sees the cache before it and its own branch.
        first = torch.cat((torch.ones_like(owner[:, :1], dtype=torch.bool), owner[:, 1:] != owner[:, :-1]), dim=1)
        begin = torch.where(first, order, 0).cummax(dim=1).values
        seen = torch.arange(length, device=self.device) < at[:, :, None]
        own = (owner[:, :, None] == owner[:, None, :]) & (order[:, None] >= order)
        mask = torch.zeros(ids.shape[0], 1, ids.shape[1], length + ids.shape[1], device=self.device, dtype=self.dtype)
        mask.masked_fill_(~torch.cat((seen, own), dim=2)[:, None], torch.finfo(self.dtype).min)
        hidden: Tensor = self.decoder(
            input_ids=ids,
            attention_mask=mask,
            position_ids=at + order - begin,
            use_cache=True,
            **{self._cache_name: cache},
        ).last_hidden_state
        self.shorten(cache, ids.shape[1])
        return hidden

    @staticmethod
    def shorten(cache: Any, tokens: int) -> None:
        """Forgets the last `tokens` tokens."""
        if tokens:
            cache.crop(-tokens)

    def _padded(self, portion: Sequence[Sequence[Branch]], which: str) -> Tensor:
        # Padding is a branch of its own (owner -1) at boundary 0 that only padding sees.
        filler = -1 if which == "owner" else 0
        rows = []
        for branches in portion:
            parts = {
                "ids": [branch.ids for branch in branches],
                "at": [np.full(branch.ids.size, branch.at) for branch in branches],
                "owner": [np.full(branch.ids.size, number) for number, branch in enumerate(branches)],
            }[which]
            rows.append(np.concatenate(parts) if parts else np.empty(0, np.int64))
        return self.padded(rows, filler=filler)

    def padded(self, rows: Sequence[Any], *, filler: int = 0) -> Tensor:
        """int64[B, T] on the model's device, padded on the right: causal attention never sees what follows."""
        block = np.full((len(rows), max(row.size for row in rows)), filler, np.int64)
        for number, row in enumerate(rows):
            block[number, : row.size] = row
        return torch.from_numpy(block).to(self.device)

    def log_probs(self, hidden: Tensor, reads: Reads, *, temperature: float, vocabulary: int) -> Any:
        """float64[n]: the log-probability of each read, logits only where needed and a block of rows at a time.

        log p = z_y / T - logsumexp_v (z_v / T),  v < vocabulary,  in float32
        """
        flat = hidden.reshape(-1, hidden.shape[-1])
        chosen = flat[torch.from_numpy(reads.positions).to(flat.device)].to(self.head.weight.device)
        tokens = torch.from_numpy(reads.tokens).to(chosen.device)
        block = max(1, _HEAD_ELEMENTS // self.width)
        parts = [
            self._selected(
                self.head(chosen[start : start + block]), tokens[start : start + block], temperature, vocabulary
            )
            for start in range(0, chosen.shape[0], block)
        ]
        return torch.cat(parts).double().cpu().numpy() if parts else np.empty(0)

    def plain_log_probs(self, row: Any, reads: Reads, *, temperature: float, vocabulary: int) -> Any:
        """The same through the model's own forward, one sequence at a time, whose last n positions are read."""
        count = reads.tokens.size
        parameters = inspect.signature(self.model.forward).parameters
        fewer: dict[str, Any] = {"logits_to_keep": count} if "logits_to_keep" in parameters else {}
        logits = self.model(input_ids=self.padded([row]), use_cache=False, **fewer).logits[0, -count:]
        tokens = torch.from_numpy(reads.tokens).to(logits.device)
        return self._selected(logits, tokens, temperature, vocabulary).double().cpu().numpy()

    @staticmethod
    def _selected(logits: Tensor, tokens: Tensor, temperature: float, vocabulary: int) -> Tensor:
        scaled = logits[:, :vocabulary].float()
        scaled = scaled if temperature == 1 else scaled / temperature
        return scaled.gather(1, tokens[:, None])[:, 0] - scaled.logsumexp(dim=1)
