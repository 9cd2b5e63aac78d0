"""Re-scoring with a vLLM server over its OpenAI-compatible protocol, through the log-probs of prompt tokens."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from apportion._extras import require
from apportion.errors import InvalidArgument, shorten
from apportion.judges.scoring.prompt_logps import prompt_of, target_log_probs
from apportion.judges.scoring.request import Answer, Request
from apportion.judges.scoring.rescorer import Answers, Vocabulary, checked, excuses, only_temperature_one
from apportion.verdicts import Failed

__all__ = ["VllmServerRescorer"]


class VllmServerRescorer:
    """Log-probabilities under a model behind `vllm serve`.

    Each boundary is one `POST /v1/completions` with token ids as prompt and `prompt_logprobs`; nothing is decoded or
    encoded on the way. A server does not say how it was started: start it with `--no-enable-prefix-caching` (some
    releases gave stale prompt log-probs with it) and its default `--logprobs-mode raw_logprobs`, and run
    `check_alignment` against the same weights once.

    Attributes:
        name: the model's name on the server.
        vocabulary: of its tokenizer.

    Args:
        url: of the server, up to and without `/v1`.
        model: the name under which it serves the model.
        vocabulary: its size must be the model's number of outputs: the server takes the softmax over all of them.
        max_length: the most tokens of context and target; default: what the server reports as `max_model_len`, less the
            one token that it always generates.
        concurrency: how many requests may be under way.
        client: an `httpx.Client` with your own headers, time limits and transport; default: one with 60 seconds per
            request and 2 new attempts when no connection could be made. It is not closed here.

    Raises:
        InvalidArgument: when scoring, a temperature other than 1, which vLLM does not apply to prompt tokens; a server
            that has no such model (its models are listed).
        MissingExtra: httpx is not installed.
    """

    def __init__(
        self,
        url: str,
        *,
        model: str,
        vocabulary: Vocabulary,
        max_length: int | None = None,
        concurrency: int = 8,
        client: Any = None,
    ) -> None:
        for argument, value in (("url", url), ("model", model)):
            if not isinstance(value, str) or not value:
                raise InvalidArgument(argument, value, "a non-empty string")
        for argument, count in (("concurrency", concurrency), ("max_length", max_length)):
            if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 1):
                raise InvalidArgument(argument, count, "a whole number >= 1")
        if not isinstance(vocabulary, Vocabulary):
            raise InvalidArgument("vocabulary", vocabulary, "a Vocabulary, since a server does not tell its tokens")
        httpx = require("httpx", extra="judges")
        self.name = model
        self.vocabulary = vocabulary
        self._url = url.rstrip("/")
        self._longest = max_length
        self._concurrency = concurrency
        self._client = client or httpx.Client(timeout=60.0, transport=httpx.HTTPTransport(retries=2))

    def score(self, requests: Sequence[Request], *, temperature: float = 1.0) -> Answers:
        """As `Rescorer.score`; what goes wrong with one HTTP request is `Failed` for its boundary."""
        checked(requests, self.vocabulary, temperature)
        only_temperature_one(temperature, "vLLM")
        if self._longest is None:
            self._longest = self._reported_length()
        excused = [excuses(request, longest=self._longest) for request in requests]
        wanted = [(i, k) for i, row in enumerate(excused) for k, excuse in enumerate(row) if excuse is None]
        with ThreadPoolExecutor(self._concurrency, thread_name_prefix="apportion-rescore") as pool:
            answers = pool.map(lambda owner: self._ask(requests[owner[0]], owner[1]), wanted)
            found = dict(zip(wanted, answers, strict=True))
        return [[excuse or found[i, k] for k, excuse in enumerate(row)] for i, row in enumerate(excused)]

    def _ask(self, request: Request, k: int) -> Answer:
        prompt = prompt_of(request, k)
        body = {"model": self.name, "prompt": prompt, "max_tokens": 1, "temperature": 0.0, "prompt_logprobs": 0}
        httpx = require("httpx", extra="judges")
        try:
            response = self._client.post(f"{self._url}/v1/completions", json=body)
            if response.status_code != 200:
                return Failed(f"the server answered {response.status_code}: {shorten(response.text[:1000], 300)}")
            (choice,) = response.json()["choices"]
            return target_log_probs(choice["prompt_logprobs"], prompt, request.targets[k])
        except httpx.HTTPError as error:
            return Failed(f"{type(error).__name__}: {shorten(str(error), 300)}")
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            return Failed(f"the server's answer has no prompt log-probs ({type(error).__name__})")

    def _reported_length(self) -> int | None:
        response = self._client.get(f"{self._url}/v1/models")
        response.raise_for_status()
        models = {one["id"]: one.get("max_model_len") for one in response.json()["data"]}
        if self.name not in models:
            raise InvalidArgument("model", self.name, f"one that the server has: {', '.join(map(repr, models))}")
        length = models[self.name]
        return None if length is None else int(length) - 1
