"""Real vLLM against transformers on the same weights: the engine here, the server with its prefix cache on."""

from typing import Any

import numpy as np
import pytest

from apportion.judges.scoring import (
    LogProbs,
    TransformersRescorer,
    VllmRescorer,
    VllmServerRescorer,
    Vocabulary,
    at_boundaries,
    check_alignment,
    continuation,
    own_tokens,
)
from apportion.verdicts import Abstained, Failed
from tests.vllm.conftest import LONGEST, SERVED, WIDTH

# The kernels differ; a shift by one token differs by more than 1.
TOLERANCE = 1e-4


def requests() -> list[Any]:
    rng = np.random.default_rng(0)
    ids = rng.integers(2, WIDTH, 90)
    made = [
        at_boundaries(ids, [3, 40, 64, 90], rng.integers(2, WIDTH, 6), lead=rng.integers(2, WIDTH, index))
        for index in range(3)
    ]
    return [*made, own_tokens(ids), continuation(ids[:50], ids[60:70])]


@pytest.fixture(scope="module")
def local(local_model: Any) -> TransformersRescorer:
    return TransformersRescorer(local_model, name=SERVED)


@pytest.fixture(scope="module")
def remote(server: str, local: TransformersRescorer) -> VllmServerRescorer:
    return VllmServerRescorer(server, model=SERVED, vocabulary=local.vocabulary)


def test_the_server_equals_transformers_also_when_its_cache_is_warm(
    remote: VllmServerRescorer, local: TransformersRescorer
) -> None:
    backwards = requests()[::-1]
    for asked in (requests(), backwards, requests()):
        report = check_alignment(remote, local, asked, tolerance=TOLERANCE)
        assert (report.tokens, report.missing) == (3 * 4 * 6 + 89 + 10, 0)


def test_the_server_reports_its_limit_and_one_token_more_abstains(remote: VllmServerRescorer) -> None:
    ids = np.arange(2, 2 + LONGEST) % WIDTH
    (fits,), (long,) = remote.score([continuation(ids[: LONGEST - 2], [5]), continuation(ids[: LONGEST - 1], [5])])
    assert isinstance(fits, LogProbs)
    assert isinstance(long, Abstained)


def test_what_the_server_refuses_is_a_failure_with_its_words(server: str, local: TransformersRescorer) -> None:
    careless = VllmServerRescorer(server, model=SERVED, vocabulary=local.vocabulary, max_length=10 * LONGEST)
    ((failed,),) = careless.score([own_tokens(np.full(2 * LONGEST, 5))])
    assert isinstance(failed, Failed)
    assert "the server answered 400" in failed.error


def test_the_engine_equals_transformers(engine: Any, local: TransformersRescorer) -> None:
    rescorer = VllmRescorer(engine, name=SERVED)
    assert rescorer.vocabulary == Vocabulary(SERVED, WIDTH)
    report = check_alignment(rescorer, local, requests(), tolerance=TOLERANCE)
    assert (report.tokens, report.missing) == (3 * 4 * 6 + 89 + 10, 0)


def test_the_engine_abstains_beyond_its_limit(engine: Any) -> None:
    ids = np.arange(2, 2 + LONGEST) % WIDTH
    rescorer = VllmRescorer(engine, name=SERVED)
    (fits,), (long,) = rescorer.score([continuation(ids[: LONGEST - 2], [5]), continuation(ids[: LONGEST - 1], [5])])
    assert isinstance(fits, LogProbs)
    assert isinstance(long, Abstained)
