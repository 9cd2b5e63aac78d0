"""Re-scoring with vLLM's offline engine, through the log-probs of prompt tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from apportion._extras import require
from apportion.errors import InvalidArgument, shorten
from apportion.judges.scoring.prompt_logps import prompt_of, target_log_probs
from apportion.judges.scoring.request import Answer, Request
from apportion.judges.scoring.rescorer import Answers, Vocabulary, checked, excuses, only_temperature_one
from apportion.verdicts import Failed

__all__ = ["VllmRescorer"]


class VllmRescorer:
    """Log-probabilities under a model that vLLM holds in this process.

    Each boundary is a prompt of its own: an engine computes prompt log-probs only while it reads a prompt in full, so
    its prefix cache cannot help (and gave stale values in some releases). K boundaries cost what K prefixes cost; for
    many boundaries of long trajectories `TransformersRescorer` is cheaper.

    Attributes:
        name: which weights.
        vocabulary: all outputs of the model.

    Args:
        llm: `vllm.LLM(..., enable_prefix_caching=False, logprobs_mode="raw_logprobs")`; the second is vLLM's default.
        name: which weights; recordings are kept under it.
        vocabulary: of the tokenizer, to be compared with other models'. Its size must be the model's: the engine takes
            the softmax over all its outputs. Default: the model's size.

    Raises:
        InvalidArgument: an engine with prefix caching or with log-probs after temperature and filters, a vocabulary of
            another width (both are named); when scoring, a temperature other than 1, which vLLM does not apply to
            prompt tokens.
        MissingExtra: vLLM is not installed.
    """

    def __init__(self, llm: Any, *, name: str, vocabulary: Vocabulary | None = None) -> None:
        if not isinstance(name, str) or not name:
            raise InvalidArgument("name", name, "a non-empty string: which weights")
        self.name = name
        self._llm = llm
        config = llm.llm_engine.vllm_config
        if config.cache_config.enable_prefix_caching:
            raise InvalidArgument("llm", "enable_prefix_caching=True", "enable_prefix_caching=False to score prompts")
        mode = getattr(config.model_config, "logprobs_mode", "raw_logprobs")
        if str(getattr(mode, "value", mode)) != "raw_logprobs":
            raise InvalidArgument(
                "llm", f"logprobs_mode={mode}", "logprobs_mode='raw_logprobs': log-softmax of the logits"
            )
        self._longest = int(config.model_config.max_model_len)
        width = int(config.model_config.get_vocab_size())
        self.vocabulary = vocabulary or Vocabulary(name, width)
        if self.vocabulary.size != width:
            both = f"{self.vocabulary.name!r} has {self.vocabulary.size} tokens, {name!r} {width} outputs"
            raise InvalidArgument(
                "vocabulary", self.vocabulary.size, f"{width} tokens, since vLLM cuts no padding: {both}"
            )

    def score(self, requests: Sequence[Request], *, temperature: float = 1.0) -> Answers:
        """As `Rescorer.score`; an error of the engine is `Failed` for all boundaries of the call."""
        checked(requests, self.vocabulary, temperature)
        only_temperature_one(temperature, "vLLM")
        vllm = require("vllm", extra="vllm")
        # One new token is the least that the engine generates, so the last prompt token must leave room for it.
        excused = [excuses(request, longest=self._longest - 1) for request in requests]
        wanted = [(i, k) for i, row in enumerate(excused) for k, excuse in enumerate(row) if excuse is None]
        prompts = [prompt_of(requests[i], k) for i, k in wanted]
        settings = vllm.SamplingParams(max_tokens=1, temperature=0.0, prompt_logprobs=0, detokenize=False)
        found: dict[tuple[int, int], Answer] = {}
        try:
            outputs = self._llm.generate([{"prompt_token_ids": ids} for ids in prompts], settings, use_tqdm=False)
            for (i, k), ids, output in zip(wanted, prompts, outputs, strict=True):
                found[i, k] = target_log_probs(output.prompt_logprobs, ids, requests[i].targets[k])
        except Exception as error:  # noqa: BLE001 - an engine runs foreign code; what it raises is kept as text
            text = f"{type(error).__name__}: {shorten(str(error), 300)} while scoring under {self.name!r}"
            found = dict.fromkeys(wanted, Failed(text))
        return [[excuse or found[i, k] for k, excuse in enumerate(row)] for i, row in enumerate(excused)]
