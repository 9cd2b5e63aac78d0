"""What both vLLM backends send and read; the real engine and server are asked by tests/vllm."""

import json
from types import SimpleNamespace

import httpx
import numpy as np
import pytest

from apportion.errors import InvalidArgument
from apportion.judges.scoring import LogProbs, VllmRescorer, VllmServerRescorer, Vocabulary, at_boundaries, continuation
from apportion.judges.scoring.prompt_logps import target_log_probs
from apportion.verdicts import Abstained, Failed

WORDS = Vocabulary("words", 20)
REQUEST = at_boundaries([10, 11, 12], [1, 3], [4, 5], lead=[7])


def entries(prompt: list[int], *, server: bool) -> list[object]:
    """Prompt token i at position i has the log-prob -i, next to a likelier token; the first entry is empty."""
    key = str if server else int
    return [
        {key(19): {"logprob": -0.01}, key(token): {"logprob": -float(index)}} if index else None
        for index, token in enumerate(prompt)
    ]


def serve(answer: object = None, *, models: object = None) -> tuple[httpx.Client, list[dict[str, object]]]:
    seen: list[dict[str, object]] = []

    def handle(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/models":
            return httpx.Response(200, json=models or {"data": [{"id": "tiny", "max_model_len": 9}]})
        body = json.loads(request.content)
        seen.append(body)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, httpx.Response):
            return answer
        choice = {"prompt_logprobs": entries(body["prompt"], server=True)} if answer is None else answer
        return httpx.Response(200, json={"choices": [choice]})

    return httpx.Client(transport=httpx.MockTransport(handle)), seen


def server(answer: object = None, **settings: object) -> VllmServerRescorer:
    return VllmServerRescorer(
        "http://localhost:1", **{"model": "tiny", "vocabulary": WORDS, "client": serve(answer)[0], **settings}
    )


def test_the_server_is_asked_for_each_boundary_and_read_by_token() -> None:
    client, seen = serve()
    ((first, second),) = server(client=client, concurrency=1).score([REQUEST])
    assert isinstance(first, LogProbs)
    assert isinstance(second, LogProbs)
    assert first.values.tolist() == [-2.0, -3.0]
    assert second.values.tolist() == [-4.0, -5.0]
    assert [one["prompt"] for one in seen] == [[10, 7, 4, 5], [10, 11, 12, 7, 4, 5]]
    assert seen[0] == {
        "model": "tiny",
        "prompt": [10, 7, 4, 5],
        "max_tokens": 1,
        "temperature": 0.0,
        "prompt_logprobs": 0,
    }


def test_the_length_that_the_server_reports_is_the_limit() -> None:
    rescorer = server()
    (short,), (long,) = rescorer.score([continuation(range(7), [4]), continuation(range(8), [4])])
    assert isinstance(short, LogProbs)
    assert long == Abstained("8 context and 1 target tokens exceed the limit of 8")


def test_a_server_without_the_model_lists_what_it_has() -> None:
    with pytest.raises(InvalidArgument, match="model='other': expected one that the server has: 'tiny'"):
        server(model="other").score([REQUEST])


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (httpx.ConnectError("refused"), "ConnectError: 'refused'"),
        (httpx.Response(503, text="busy" * 1000), "the server answered 503: 'busybusy"),
        (httpx.Response(200, text="<html>"), "has no prompt log-probs"),
        (httpx.Response(200, text="[" * 100_000), "has no prompt log-probs"),
        (httpx.Response(200, json=[]), "has no prompt log-probs"),
        ({"prompt_logprobs": None}, "prompt_logprobs has None entries for 4 prompt tokens"),
        ({"prompt_logprobs": [None] * 3}, "prompt_logprobs has 3 entries for 4 prompt tokens"),
        ({"prompt_logprobs": [None] * 4}, "has no number for token 4"),
        ({"prompt_logprobs": [{"4": {"logprob": "-1"}}] * 4}, "has no number for token 4"),
        ({"prompt_logprobs": [{"4": {"logprob": True}}] * 4}, "has no number for token 4"),
        ({"prompt_logprobs": [{"4": {"logprob": -9999.0}}] * 4}, "a filler for minus infinity"),
        ({"prompt_logprobs": [{"4": {"logprob": 1.0}, "5": {"logprob": -1.0}}] * 4}, "expected a finite one <= 0"),
    ],
)
def test_what_the_server_cannot_say_is_a_failure(answer: object, error: str) -> None:
    rescorer = server(answer, max_length=100)
    ((failed,),) = rescorer.score([continuation([10, 7], [4, 5])])
    assert isinstance(failed, Failed)
    assert error in failed.error
    assert len(failed.error) < 500


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": ""}, "model="),
        ({"vocabulary": 20}, "vocabulary=20"),
        ({"concurrency": 0}, "concurrency=0"),
        ({"max_length": 0}, "max_length=0"),
    ],
)
def test_wrong_settings_of_the_server(settings: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        server(**settings)


def test_ids_of_another_vocabulary_are_not_sent() -> None:
    client, seen = serve()
    with pytest.raises(InvalidArgument, match="request 0 has 20"):
        server(client=client).score([continuation([1], [20])])
    assert seen == []


def engine(*, caching: bool = False, mode: str = "raw_logprobs", width: int = 20) -> SimpleNamespace:
    config = SimpleNamespace(
        cache_config=SimpleNamespace(enable_prefix_caching=caching),
        model_config=SimpleNamespace(logprobs_mode=mode, max_model_len=10, get_vocab_size=lambda: width),
    )
    return SimpleNamespace(llm_engine=SimpleNamespace(vllm_config=config))


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (engine(caching=True), "enable_prefix_caching=False to score prompts"),
        (engine(mode="processed_logprobs"), "logprobs_mode='raw_logprobs'"),
        (engine(width=24), "'words' has 20 tokens, 'tiny' 24 outputs"),
    ],
)
def test_engines_that_would_score_something_else_are_refused(made: object, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        VllmRescorer(made, name="tiny", vocabulary=WORDS)


@pytest.mark.parametrize("rescorer", [server(), VllmRescorer(engine(), name="tiny")])
def test_another_temperature_is_refused_since_vllm_ignores_it(rescorer: VllmRescorer) -> None:
    with pytest.raises(InvalidArgument, match=r"temperature=2.0: expected 1, since vLLM does not apply it"):
        rescorer.score([REQUEST], temperature=2.0)


def test_entries_of_the_engine_are_read_by_token_and_position() -> None:
    objects = [None, *({token: SimpleNamespace(logprob=-float(token))} for token in (11, 12))]
    answer = target_log_probs(objects, [10, 11, 12], np.array([11, 12]))
    assert isinstance(answer, LogProbs)
    assert answer.values.tolist() == [-11.0, -12.0]
    assert isinstance(target_log_probs(objects, [10, 11, 12], np.array([12, 11])), Failed)
