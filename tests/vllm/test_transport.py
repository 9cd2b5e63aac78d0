"""Asking real vLLM as a judge: its engine here, and its server through the OpenAI format."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from apportion.judges.exchange import Message, Request, Response
from apportion.judges.transport import LocalTransport, OpenAITransport, VllmOffline, ask_all, connect
from tests.vllm.conftest import LONGEST, SERVED

Outcome = Any


def ask(text: str, **fields: Any) -> Request:
    return Request((Message("user", text),), model=SERVED, **{"max_tokens": 8, **fields})


TEXTS = ("w3 w4 w5", "w9", "w30 w2 w2 w2")


@pytest.fixture(scope="module")
def expected(local_model: Any, tiny_model: Path) -> list[Response]:
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny_model)
    return asyncio.run(ask_all(LocalTransport(local_model, tokenizer, name=SERVED), map(ask, TEXTS)))


async def through(address: str, requests: list[Request]) -> list[Outcome]:
    async with connect(OpenAITransport(f"{address}/v1", structured="vllm"), attempts=1) as connection:
        return await ask_all(connection, requests)


def said(outcomes: list[Outcome]) -> list[Outcome]:
    # vLLM keeps the space between the question and its answer.
    return [replace(one, text=one.text.strip()) for one in outcomes]


def test_the_engine_says_what_transformers_says(engine: Any, expected: list[Response]) -> None:
    found = asyncio.run(ask_all(VllmOffline(engine, name=SERVED), map(ask, TEXTS)))
    assert said(found) == expected


def test_the_server_says_what_transformers_says(server: str, expected: list[Response]) -> None:
    assert said(asyncio.run(through(server, [ask(text) for text in TEXTS]))) == expected


@pytest.mark.parametrize("where", ["engine", "server"])
def test_choices_are_kept(where: str, engine: Any, server: str) -> None:
    requests = [
        ask("w3 w4", choices=("w7", "w8"), temperature=1.0, seed=seed, tag=f"sample {seed}") for seed in range(6)
    ]
    asked = through(server, requests) if where == "server" else ask_all(VllmOffline(engine, name=SERVED), requests)
    found = asyncio.run(asked)
    assert {type(one) for one in found} == {Response}, found
    assert {one.text.strip() for one in found} <= {"w7", "w8"}


@pytest.mark.parametrize("where", ["engine", "server"])
def test_samples_differ_by_seed_and_repeat_with_it(where: str, engine: Any, server: str) -> None:
    requests = [ask("w3 w4", temperature=1.5, seed=seed, tag=str(n)) for n, seed in enumerate((1, 1, 2, 3))]
    asked = through(server, requests) if where == "server" else ask_all(VllmOffline(engine, name=SERVED), requests)
    texts = [one.text for one in asyncio.run(asked)]
    assert texts[0] == texts[1]
    assert len(set(texts)) > 1


@pytest.mark.parametrize("where", ["engine", "server"])
def test_what_is_too_long_is_refused_and_the_others_are_answered(where: str, engine: Any, server: str) -> None:
    requests = [ask("w3 " * LONGEST), ask("w3")]
    asked = through(server, requests) if where == "server" else ask_all(VllmOffline(engine, name=SERVED), requests)
    long, short = asyncio.run(asked)
    assert getattr(long, "kind", None) == "refused"
    assert isinstance(short, Response)
