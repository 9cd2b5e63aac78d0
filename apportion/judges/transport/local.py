"""A small model of transformers, loaded here: to try things out, and for judges of a few hundred million weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from apportion.errors import InvalidArgument
from apportion.judges.exchange import Request, Response, TransportError
from apportion.judges.transport.batched import Batched

__all__ = ["LocalTransport"]


class LocalTransport(Batched):
    """Asks a causal language model one request at a time, with the chat template of its tokenizer.

    Schemas and choices are left to the prompt. A request without a seed is sampled from seed 0: the same request has
    the same answer, and the tags of k samples do not enter, so give each its seed.

    Args:
        model: from `AutoModelForCausalLM.from_pretrained`; put into evaluation mode.
        tokenizer: with a chat template.
        name: which weights; stored answers are kept under it.

    Raises:
        InvalidArgument: an empty name, a tokenizer without a chat template.
    """

    def __init__(self, model: Any, tokenizer: Any, *, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise InvalidArgument("name", name, "a non-empty string: which weights")
        if not getattr(tokenizer, "chat_template", None):
            raise InvalidArgument("tokenizer", type(tokenizer).__name__, "a tokenizer with a chat template")
        self._model = model.eval()
        self._tokenizer = tokenizer
        self._name = name
        super().__init__(self._answers, identity=f"transformers {name}", batch=1, gather_s=0.0)

    def _answers(self, requests: Sequence[Request]) -> list[Response | TransportError]:
        return [self._answer(request) for request in requests]

    def _answer(self, request: Request) -> Response | TransportError:
        import torch  # seconds, which a judge behind a server does not need

        chat = [{"role": one.role, "content": one.content} for one in request.messages]
        text = self._tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
        ids = torch.tensor([self._tokenizer.encode(text, add_special_tokens=False)], device=self._model.device)
        longest = getattr(self._model.config, "max_position_embeddings", None)
        if longest is not None and ids.shape[1] + request.max_tokens > longest:
            why = f"{ids.shape[1]} tokens and {request.max_tokens} of answer; the model takes {longest}"
            return TransportError("refused", why)
        ends = self._model.generation_config.eos_token_id
        ends = self._tokenizer.eos_token_id if ends is None else ends
        # The model's own defaults for sampling (top_k = 50) are not the request's.
        greedy: dict[str, Any] = {"do_sample": False, "temperature": None, "top_p": None, "top_k": None}
        sampled = {"do_sample": True, "temperature": request.temperature, "top_p": 1.0, "top_k": 0}
        devices = [self._model.device] if self._model.device.type == "cuda" else []
        with torch.random.fork_rng(devices), torch.no_grad():
            torch.manual_seed(request.seed or 0)
            out = self._model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=request.max_tokens,
                eos_token_id=ends,
                pad_token_id=ends[0] if isinstance(ends, list) else ends,
                **(sampled if request.temperature > 0 else greedy),
            )
        said = out[0, ids.shape[1] :].tolist()
        ended = bool(said) and said[-1] in (ends if isinstance(ends, list) else [ends])
        return Response(
            self._tokenizer.decode(said, skip_special_tokens=True),
            finish="stop" if ended else "length",
            input_tokens=ids.shape[1],
            output_tokens=len(said),
            model=self._name,
        )
