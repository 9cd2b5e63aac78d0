"""A model that vLLM holds in this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from apportion._extras import require
from apportion.errors import InvalidArgument
from apportion.judges.exchange import Finish, Request, Response, TransportError
from apportion.judges.transport.batched import Batched

__all__ = ["VllmOffline"]

_FINISH: dict[str, Finish] = {"stop": "stop", "length": "length"}


class VllmOffline(Batched):
    """Asks `vllm.LLM` in batches, with the chat template of its tokenizer, schemas and choices.

    Args:
        llm: `vllm.LLM(...)`.
        name: which weights; stored answers are kept under it. Requests name no other model.
        batch: the most requests that the engine is given at once.

    Raises:
        InvalidArgument: an empty name.
        MissingExtra: vLLM is not installed.
    """

    def __init__(self, llm: Any, *, name: str, batch: int = 256) -> None:
        if not isinstance(name, str) or not name:
            raise InvalidArgument("name", name, "a non-empty string: which weights")
        self._vllm = require("vllm", extra="vllm")
        self._forms = require("vllm.sampling_params", extra="vllm")
        self._llm = llm
        self._name = name
        self._longest = int(llm.llm_engine.vllm_config.model_config.max_model_len)
        super().__init__(self._answers, identity=f"vllm {name}", batch=batch)

    def _settings(self, request: Request) -> Any:
        form = None
        if request.schema is not None:
            form = self._forms.StructuredOutputsParams(json=dict(request.schema))
        elif request.choices is not None:
            form = self._forms.StructuredOutputsParams(choice=list(request.choices))
        return self._vllm.SamplingParams(
            temperature=request.temperature,
            max_tokens=request.max_tokens,
            seed=request.seed,
            structured_outputs=form,
        )

    def _answers(self, requests: Sequence[Request]) -> list[Response | TransportError]:
        tokenizer = self._llm.get_tokenizer()
        outcomes: list[Response | TransportError | None] = []
        prompts: list[list[int]] = []
        for request in requests:
            chat = [{"role": one.role, "content": one.content} for one in request.messages]
            text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
            ids = tokenizer.encode(text, add_special_tokens=False)
            # The engine would refuse the whole batch for it.
            fits = len(ids) + request.max_tokens <= self._longest
            why = f"{len(ids)} tokens and {request.max_tokens} of answer; the model takes {self._longest}"
            outcomes.append(None if fits else TransportError("refused", why))
            if fits:
                prompts.append(ids)
        settings = [self._settings(one) for one, end in zip(requests, outcomes, strict=True) if end is None]
        found = iter(
            self._llm.generate([{"prompt_token_ids": ids} for ids in prompts], settings, use_tqdm=False)
            if prompts
            else ()
        )
        return [self._response(next(found)) if end is None else end for end in outcomes]

    def _response(self, output: Any) -> Response:
        said = output.outputs[0]
        return Response(
            said.text,
            finish=_FINISH.get(said.finish_reason, "other"),
            input_tokens=len(output.prompt_token_ids),
            output_tokens=len(said.token_ids),
            model=self._name,
        )
