"""Models in this process: batches, a tiny model of transformers, and a stand-in with the interface of vLLM."""

import asyncio
import sys
import threading
from collections.abc import Sequence
from types import ModuleType, SimpleNamespace

import pytest
import tokenizers
import torch
import transformers

from apportion import InvalidArgument
from apportion.judges.exchange import Request, Response, TransportError
from apportion.judges.transport import Batched, LocalTransport, VllmOffline, ask_all
from tests.judges.scoring.tiny import qwen3
from tests.judges.transport.said import ask


def test_batches_are_bounded_and_run_one_at_a_time() -> None:
    sizes: list[int] = []
    running = threading.Semaphore(1)

    def generate(requests: Sequence[Request]) -> list[Response]:
        assert running.acquire(blocking=False)
        sizes.append(len(requests))
        running.release()
        return [Response(request.tag) for request in requests]

    model = Batched(generate, identity="mine", batch=4)
    outcomes = asyncio.run(ask_all(model, [ask(str(index)) for index in range(10)]))
    assert [one.text for one in outcomes if isinstance(one, Response)] == [str(index) for index in range(10)]
    assert sizes == [4, 4, 2]


def test_an_engine_that_raises_or_miscounts_fails_its_batch() -> None:
    def generate(requests: Sequence[Request]) -> list[Response]:
        if len(requests) == 1:
            raise MemoryError("out of memory")
        return [Response("7")]

    model = Batched(generate, identity="mine")
    (alone,) = asyncio.run(ask_all(model, [ask()]))
    assert str(alone) == "unavailable: MemoryError: 'out of memory'"
    assert [str(one) for one in asyncio.run(ask_all(model, [ask(), ask()]))] == [
        "bad-reply: 1 answers to 2 requests"
    ] * 2


def test_outcomes_are_per_request() -> None:
    model = Batched(lambda asked: [TransportError("refused", "long"), Response("7")], identity="mine")
    first, second = asyncio.run(ask_all(model, [ask(), ask()]))
    assert (str(first), second) == ("refused: long", Response("7"))


def test_closing_ends_what_waits() -> None:
    release = threading.Event()

    def generate(requests: Sequence[Request]) -> list[Response]:
        release.wait(5)
        return [Response("7")] * len(requests)

    async def run() -> list[object]:
        model = Batched(generate, identity="mine", batch=1, gather_s=0)
        asked = [asyncio.create_task(model.ask(ask(str(index)))) for index in range(3)]
        await asyncio.sleep(0.02)
        await model.aclose()
        release.set()
        return await asyncio.gather(*asked, return_exceptions=True)

    assert [str(one) for one in asyncio.run(run())] == ["unavailable: the transport was closed"] * 3


def test_one_answer_per_request() -> None:
    with pytest.raises(InvalidArgument, match="n=2"):
        asyncio.run(Batched(lambda asked: [], identity="mine").ask(ask(n=2)))


@pytest.fixture(scope="module")
def tokenizer() -> transformers.PreTrainedTokenizerFast:
    words = ["<|end|>", "<|unknown|>", *(f"w{index}" for index in range(59))]
    table = tokenizers.models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="<|unknown|>")
    made = tokenizers.Tokenizer(table)
    made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    found = transformers.PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|end|>", unk_token="<|unknown|>")
    found.chat_template = "{% for m in messages %}{{ m['content'] }} {% endfor %}"
    return found


def greedily(model: torch.nn.Module, ids: list[int], tokens: int) -> list[int]:
    said: list[int] = []
    with torch.no_grad():
        while len(said) < tokens and 0 not in said:
            said.append(int(model(torch.tensor([ids + said])).logits[0, -1].argmax()))
    return said


def test_a_local_model_says_what_its_logits_say(tokenizer: transformers.PreTrainedTokenizerFast) -> None:
    model = qwen3()
    local = LocalTransport(model, tokenizer, name="tiny")
    for text in ("w3 w4 w5", "w9", "w30 w2 w2 w2"):
        (response,) = asyncio.run(ask_all(local, [ask(text=text, max_tokens=8)]))
        ids = tokenizer.encode(text, add_special_tokens=False)
        said = greedily(model, ids, 8)
        assert response == Response(
            tokenizer.decode(said, skip_special_tokens=True),
            "stop" if said[-1] == 0 else "length",
            len(ids),
            len(said),
            "tiny",
        )
    assert local.identity == "transformers tiny"


def test_a_local_model_samples_by_seed_and_leaves_the_callers_randomness(
    tokenizer: transformers.PreTrainedTokenizerFast,
) -> None:
    local = LocalTransport(qwen3(), tokenizer, name="tiny")
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    requests = [ask(text="w3", max_tokens=8, temperature=2.0, seed=seed) for seed in (1, 1, 2, 3)]
    texts = [one.text for one in asyncio.run(ask_all(local, requests)) if isinstance(one, Response)]
    assert texts[0] == texts[1]
    assert len(set(texts)) > 1
    assert torch.equal(torch.rand(3), expected)


def test_a_local_model_refuses_what_it_cannot_take(tokenizer: transformers.PreTrainedTokenizerFast) -> None:
    local = LocalTransport(qwen3(), tokenizer, name="tiny")
    (refused,) = asyncio.run(ask_all(local, [ask(text="w3 " * 250, max_tokens=8)]))
    assert str(refused) == "refused: 250 tokens and 8 of answer; the model takes 256"


def test_a_local_model_needs_a_chat_template() -> None:
    with pytest.raises(InvalidArgument, match="tokenizer"):
        LocalTransport(qwen3(), SimpleNamespace(chat_template=None), name="tiny")


class Llm:
    """Says how it was asked."""

    def __init__(self, tokenizer: object, longest: int) -> None:
        self._tokenizer = tokenizer
        config = SimpleNamespace(model_config=SimpleNamespace(max_model_len=longest))
        self.llm_engine = SimpleNamespace(vllm_config=config)

    def get_tokenizer(self) -> object:
        return self._tokenizer

    def generate(self, prompts: list[dict[str, list[int]]], settings: list[object], *, use_tqdm: bool) -> list[object]:
        return [
            SimpleNamespace(
                prompt_token_ids=prompt["prompt_token_ids"],
                outputs=[SimpleNamespace(text=repr(setting), token_ids=[1, 2], finish_reason="stop")],
            )
            for prompt, setting in zip(prompts, settings, strict=True)
        ]


def test_vllm_offline(tokenizer: transformers.PreTrainedTokenizerFast, monkeypatch: pytest.MonkeyPatch) -> None:
    vllm, params = ModuleType("vllm"), ModuleType("vllm.sampling_params")
    vllm.SamplingParams = lambda **settings: settings  # type: ignore[attr-defined]
    params.StructuredOutputsParams = lambda **form: form  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vllm", vllm)
    monkeypatch.setitem(sys.modules, "vllm.sampling_params", params)
    model = VllmOffline(Llm(tokenizer, 16), name="tiny")
    requests = [
        ask(text="w3 w4", choices=("yes", "no"), temperature=0.5, seed=3),
        ask(text="w3 " * 7),
        ask(text="w3", schema={"type": "integer"}),
    ]
    first, long, last = asyncio.run(ask_all(model, requests))
    settings = {
        "temperature": 0.5,
        "max_tokens": 10,
        "seed": 3,
        "structured_outputs": {"choice": ["yes", "no"]},
    }
    assert first == Response(repr(settings), "stop", 2, 2, "tiny")
    assert str(long) == "refused: 7 tokens and 10 of answer; the model takes 16"
    assert isinstance(last, Response)
    assert "{'json': {'type': 'integer'}}" in last.text
