"""Re-scoring with a local model of transformers: all boundaries of a trajectory in two forward passes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from apportion.errors import ApportionError, InvalidArgument, shorten
from apportion.judges.scoring.causal_model import CausalModel
from apportion.judges.scoring.packing import Reads, Row, batches, layout, passes, rows
from apportion.judges.scoring.request import Answer, LogProbs, Request, answered, at_boundaries
from apportion.judges.scoring.rescorer import Answers, Vocabulary, checked, excuses
from apportion.verdicts import Failed

__all__ = ["How", "TransformersRescorer"]

How: TypeAlias = Literal["auto", "packed", "naive"]

# A longer branch is a sequence of its own, and no packed pass of one sequence is longer.
_BRANCH_TOKENS = 512
_MASK_ELEMENTS = 2**26


class TransformersRescorer:
    """Log-probabilities under a causal language model that is loaded here.

    Packed, K boundaries of a sequence of L tokens cost one causal forward pass over it and packed passes over
    K (a - 1) tokens on its cache, instead of K passes over the prefixes; only the target tokens get logits.
    Hidden states and logits have the model's dtype, softmax is taken in float32. The model is put into evaluation mode
    while it scores and then restored; no gradient is kept.

    Attributes:
        name: which weights.
        vocabulary: which token every id stands for; outputs beyond it are cut before the softmax.
        how: "packed" or "naive", as it was decided.
        why: why it is naive; "" otherwise.
        dtype: of the model's logits, e.g. "float32".

    Args:
        model: decoder-only, of transformers 4.56 or newer, e.g. from `AutoModelForCausalLM.from_pretrained`.
        name: which weights; recordings are kept under it.
        vocabulary: default: all outputs of the model's head.
        how: "packed"; "naive" (one forward pass per boundary); "auto": packed where the model's attention and cache
            allow it and where a small example, scored both ways here, agrees.
        max_length: the most tokens of context and target; default: what the model's configuration says. Longer ones
            abstain.
        tokens_per_pass: padded tokens of one batch, which bounds the cache and the activations; a longer sequence is
            alone.

    Raises:
        InvalidArgument: not a decoder-only model, a vocabulary wider than its head (both widths are named), an unknown
            `how`, or "packed" for a model that cannot.

    Example:
        >>> import torch, transformers
        >>> from apportion.judges.scoring import at_boundaries
        >>> config = transformers.Qwen3Config(vocab_size=20, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
        ...     num_attention_heads=2, num_key_value_heads=1, head_dim=8)
        >>> frozen = TransformersRescorer(transformers.Qwen3ForCausalLM(config), name="random")
        >>> answers = frozen.score([at_boundaries([1, 2, 3, 4], [2, 4], [5, 6])])
        >>> [answer.values.shape for answer in answers[0]], frozen.how
        ([(2,), (2,)], 'packed')
    """

    def __init__(
        self,
        model: Any,
        *,
        name: str,
        vocabulary: Vocabulary | None = None,
        how: How = "auto",
        max_length: int | None = None,
        tokens_per_pass: int = 16384,
    ) -> None:
        if not isinstance(name, str) or not name:
            raise InvalidArgument("name", name, "a non-empty string: which weights")
        if how not in get_args(How):
            raise InvalidArgument("how", how, f"one of {', '.join(map(repr, get_args(How)))}")
        self.name = name
        self._model = CausalModel(model)
        self.vocabulary = vocabulary or Vocabulary(name, self._model.width)
        if self.vocabulary.size > self._model.width:
            wider = f"{self.vocabulary.name!r} has {self.vocabulary.size} tokens, {name!r} {self._model.width} outputs"
            raise InvalidArgument("vocabulary", self.vocabulary.size, f"at most {self._model.width} tokens: {wider}")
        configured = getattr(self._model.config, "max_position_embeddings", None)
        self._longest = configured if max_length is None else max_length
        for argument, value in (("max_length", self._longest), ("tokens_per_pass", tokens_per_pass)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise InvalidArgument(argument, value, "a whole number of tokens >= 1")
        self._tokens = tokens_per_pass
        self.why = "" if how == "naive" else self._objection() or ""
        if how == "packed" and self.why:
            raise InvalidArgument("how", how, f"'naive' or 'auto' for {name!r}: {self.why}")
        self.how: Literal["packed", "naive"] = "naive" if how == "naive" or self.why else "packed"

    @property
    def dtype(self) -> str:
        """Of the logits, before they become float32."""
        return str(self._model.dtype).removeprefix("torch.")

    def score(self, requests: Sequence[Request], *, temperature: float = 1.0) -> Answers:
        """As `Rescorer.score`; an error of the model is `Failed` for the boundaries of its batch only."""
        checked(requests, self.vocabulary, temperature)
        return self._score(requests, temperature, self.how, self._longest)

    def _score(self, requests: Sequence[Request], temperature: float, how: str, longest: int | None) -> Answers:
        spans = layout(requests)
        flat = np.full(max((stop for row in spans for _, stop in row), default=0), np.nan)
        excused = [excuses(request, longest=longest) for request in requests]
        failed: dict[tuple[int, int], Failed] = {}
        made = rows(requests, excused, longest_branch=_BRANCH_TOKENS if how == "packed" else -1)
        groups = batches(made, tokens=self._tokens) if how == "packed" else ([row] for row in made)
        with self._model.evaluating():
            for batch in groups:
                try:
                    for reads, values in self._batch(batch, temperature, how):
                        flat[reads.slots] = values
                except ApportionError:
                    raise
                except Exception as error:  # noqa: BLE001 - a model runs foreign code; what it raises is kept as text
                    text = f"{type(error).__name__}: {shorten(str(error), 300)} while scoring under {self.name!r}"
                    failed.update({owner: Failed(text) for row in batch for owner in row.owners})

        def answer(i: int, k: int) -> Answer:
            return excused[i][k] or failed.get((i, k)) or answered(flat[slice(*spans[i][k])])

        return [[answer(i, k) for k in range(len(row))] for i, row in enumerate(spans)]

    def _batch(self, batch: Sequence[Row], temperature: float, how: str) -> list[tuple[Reads, Any]]:
        size = self.vocabulary.size
        model = self._model
        if how == "naive":
            (row,) = batch
            return [(row.reads, model.plain_log_probs(row.ids, row.reads, temperature=temperature, vocabulary=size))]
        ids = model.padded([row.ids for row in batch])
        length = ids.shape[1]
        branching = any(row.branches for row in batch)
        cache = model.new_cache() if branching else None
        hidden = model.read(ids, cache=cache)
        reads = Reads.join([row.reads for row in batch], [number * length for number in range(len(batch))])
        found = [(reads, model.log_probs(hidden, reads, temperature=temperature, vocabulary=size))]
        del hidden
        if not branching:
            return found
        room = min(_BRANCH_TOKENS, _MASK_ELEMENTS // (len(batch) * (length + _BRANCH_TOKENS)))
        for portion in passes(batch, room=room):
            reach = max(branch.at for row in portion for branch in row)
            model.shorten(cache, length - reach)
            length = reach
            hidden = model.read_branches(portion, cache=cache, length=length)
            parts = [
                (branch.reads, number, start) for number, row in enumerate(portion) for branch, start in _starts(row)
            ]
            offsets = [number * hidden.shape[1] + start for _, number, start in parts]
            reads = Reads.join([part for part, _, _ in parts], offsets)
            found.append((reads, model.log_probs(hidden, reads, temperature=temperature, vocabulary=size)))
        return found

    def _objection(self) -> str | None:
        """Why this model is not scored packed: what its configuration says, or a small example that comes out wrong."""
        reason = self._model.cannot_pack()
        if reason is not None:
            return reason
        top = self.vocabulary.size - 1
        ids = np.random.default_rng(0).integers(0, top + 1, 8)
        example = [at_boundaries(ids[:4], [1, 3, 4], ids[4:7], lead=ids[7:])]
        (packed,), (naive,) = (self._score(example, 1.0, how, None) for how in ("packed", "naive"))
        tolerance = 1e-4 if self.dtype in ("float32", "float64") else 0.1
        for one, other in zip(packed, naive, strict=True):
            if not isinstance(other, LogProbs):
                raise InvalidArgument("model", self.name, f"a model that scores {ids.size} tokens, got {other}")
            if not isinstance(one, LogProbs):
                return f"a small example could not be scored packed: {one}"
            gap = float(np.abs(one.values - other.values).max())
            if gap > tolerance:
                return f"packed and naive scores of a small example differ by {gap:.2g}"
        return None


def _starts(branches: Sequence[Any]) -> list[tuple[Any, int]]:
    stops = np.cumsum([branch.ids.size for branch in branches])
    return [(branch, int(stop - branch.ids.size)) for branch, stop in zip(branches, stops, strict=True)]
