"""What the fuzzer found worth keeping, and a few more of its mutations, come to an end without an error."""

from __future__ import annotations

import json
import random
import time

import pytest

from tests.rewards.shell import fuzz

KEPT: list[str] = json.loads(fuzz.CORPUS.read_text(encoding="utf-8"))


def test_kept_inputs_are_replayed() -> None:
    assert len(KEPT) >= 100
    started = time.perf_counter()
    for text in KEPT:
        fuzz.run(text)
    assert time.perf_counter() - started < 60


@pytest.mark.parametrize("seed", range(4))
def test_fresh_mutations(seed: int) -> None:
    chance, pool = random.Random(seed), fuzz.seeds()
    for _ in range(50):
        text = fuzz.mutate(chance.choice(pool), pool, chance)
        once, again = fuzz.run(text)[0], fuzz.run(text)[0]
        assert once == again
