"""Facts of turns on their way into dense scores."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
import torch

from apportion.errors import InvalidArgument, MissingInput, ObserverFailing
from apportion.integrations.verl.encoding import ABSENT, FAILED
from apportion.recipes import load
from apportion.rollouts import Trajectory, Turn
from tests.integrations.verl_adapter.playing import Loop, algorithm, computed, output, played

COUNTS = [{"violations": 1, "fulfilments": 0}, {"violations": 0, "fulfilments": 2}]
TWO = ([70, 71, 80, 72], [1, 1, 0, 1])


def rollout(name: str, outcome: float | None, counts: list[dict[str, int]] = COUNTS, **fields: Any) -> Trajectory:
    columns = {} if outcome is None else {"reward": outcome}
    spans = [(0, 3), (3, 4)]
    turns = [Turn(span=span, columns=one) for span, one in zip(spans, counts, strict=True)]
    return Trajectory(
        id=name, group="q", response_ids=TWO[0], policy=TWO[1], turns=tuple(turns), columns=columns, **fields
    )


def offline(rollouts: list[Trajectory], recipe: str, **parameters: Any) -> torch.Tensor:
    return load(recipe, **parameters).score(rollouts)[0].padded(width=4)


@pytest.mark.parametrize("kl", [False, True])
def test_counts_of_turns_reach_the_estimator(kl: bool) -> None:
    config = algorithm("apportion_rlvp", kl=kl)
    clean = [{"violations": 0, "fulfilments": 0}] * 2
    fields = [
        played(output(*TWO, turn_columns=COUNTS), config, score=1.0),
        played(output(*TWO, turn_columns=clean), config, score=0.0),
    ]
    made, mask = computed(fields, ["q", "q"], config)
    assert torch.allclose(made[:, :4], offline([rollout("a", 1.0), rollout("b", 0.0, clean)], "rlvp"), atol=1e-7)
    assert not mask[:, 4:].any()
    assert not made[:, 4:].any()
    assert [float(one["rm_scores"].sum()) for one in fields] == [1.0, pytest.approx(0.0, abs=1e-20)]
    lengths = {len(one["responses"]) for one in fields} | {len(one["rollout_log_probs"]) for one in fields}
    assert lengths == {len(mask[0])}


def test_no_tokens_are_added_where_the_response_has_enough() -> None:
    ids, mask = [70, 71, 80, 81, 82, 83, 84, 85, 72], [1, 1, 0, 0, 0, 0, 0, 0, 1]
    for kl in (False, True):
        made = played(output(ids, mask, turn_columns=COUNTS), algorithm("apportion_rlvp", kl=kl), score=1.0)
        assert made["responses"].tolist() == ids


@pytest.mark.parametrize("marker", [ABSENT, FAILED])
def test_a_missing_score_leaves_its_group(marker: float) -> None:
    config = algorithm("apportion_rlvp", kl=True, failure_limit=1.0)
    given = output(*TWO, turn_columns=COUNTS)
    fields = [played(given, config, score=s) for s in (1.0, marker, 0.0)]
    made, _ = computed(fields, ["q"] * 3, config)
    rollouts = [rollout("a", 1.0), rollout("b", None), rollout("c", 0.0)]
    assert torch.allclose(made[:, :4], offline(rollouts, "rlvp"), atol=1e-7)
    assert float(fields[1]["rm_scores"].sum()) == pytest.approx(0.0, abs=1e-20)


def test_recipes_of_the_outcome_take_responses_of_one_token() -> None:
    config = algorithm("apportion_rloo", kl=True)
    fields = [played(output([70], [1]), config, score=s) for s in (1.0, 0.0, FAILED)]
    made, _ = computed(fields, ["q"] * 3, config)
    assert made[:, 0].tolist() == [1.0, -1.0, 0.0]


def test_how_a_rollout_ended_reaches_the_outcome() -> None:
    config = algorithm("apportion_rloo", truncated="exclude")
    fields = [
        played(output(*TWO, rollout_status="truncated"), config, score=1.0),
        played(output(*TWO, rollout_status="aborted", rollout_error="node lost"), config, score=1.0),
        played(output(*TWO), config, score=1.0),
        played(output(*TWO), config, score=0.0),
    ]
    made, _ = computed(fields, ["q"] * 4, config)
    assert made[:, 0].tolist() == [0.0, 0.0, 1.0, -1.0]
    zero = algorithm("apportion_rloo", truncated="zero")
    assert float(played(output(*TWO, rollout_status="truncated"), zero, score=1.0)["rm_scores"].sum()) < 1e-20


def test_components_of_the_reward_feed_gdpo() -> None:
    config = algorithm("apportion_gdpo", rewards="right,brief")
    infos = [{"right": 1.0, "brief": 0.0}, {"right": 0.0, "brief": 1.0}, {"right": 1.0, "brief": 1.0}]
    fields = [played(output(*TWO), config, score=sum(info.values()), info=info) for info in infos]
    made, _ = computed(fields, ["q"] * 3, config)
    rollouts = [
        Trajectory(id=str(i), group="q", response_ids=TWO[0], policy=TWO[1], columns=info)
        for i, info in enumerate(infos)
    ]
    assert torch.allclose(made[:, :4], offline(rollouts, "gdpo", rewards="right,brief"), atol=1e-6)
    assert [float(one["rm_scores"].sum()) for one in fields] == [1.0, 1.0, 2.0]


def test_rules_over_what_the_policy_wrote(tmp_path: Path) -> None:
    rules = tmp_path / "rules.py"
    rules.write_text(
        "from apportion.rewards import Rule, called\n"
        "rules = [Rule(name='quiet', violates=called('shout'), fulfils=called('whisper'))]\n"
    )
    config = algorithm("apportion_rlvp", rules=str(rules))
    words = Loop(None, config).tokenizer
    shout = words.encode('<tool_call>{"name": "shout", "arguments": {}}</tool_call>')
    whisper = words.encode('<tool_call>{"name": "whisper", "arguments": {}}</tool_call>')
    fields = [played(output([*one, 80], [1] * len(one) + [0]), config, score=0.0) for one in (shout, whisper)]
    made, _ = computed(fields, ["q", "q"], config)
    assert float(made[0, 0]) < 0 < float(made[1, 0])


def test_an_observer_that_raises_fails_and_is_heard(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from apportion.recipe import Recipe\n"
        "from apportion.rewards import outcome, reward\n"
        "from apportion.rollouts import Level\n"
        "@reward(level=Level.TURN)\n"
        "def note(trajectory):\n"
        "    raise RuntimeError('no route to the judge')\n"
        "def assign(batch, signals, *, step, state):\n"
        "    return signals['outcome'] + signals['note'].neutral()\n"
        "recipe = Recipe(name='mine', observers=[outcome(), note], assign_signals=assign, aggregation='token-mean')\n"
    )
    config = algorithm("apportion", recipe=str(file))
    with caplog.at_level(logging.WARNING, logger="apportion"):
        fields = [played(output(*TWO), config, score=1.0)]
    assert "observer 'note' failed: RuntimeError: no route to the judge" in caplog.text
    with pytest.raises(ObserverFailing, match="'note' failed on 2 of 2"):
        computed(fields, ["q"], config)
    made, _ = computed(fields, ["q"], algorithm("apportion", recipe=str(file), failure_limit=1.0))
    assert made[0, :4].tolist() == [1.0, 1.0, 0.0, 1.0]


def test_large_values_travel_in_pieces() -> None:
    config = algorithm("apportion_mt_grpo", turns="each")
    paid = [[1e9, 0.5], [1e9 + 1, 0.25], [1e9 + 3, 2.0**30 + 0.125]]
    fields = [played(output(*TWO, turn_rewards=row), config, score=float(i)) for i, row in enumerate(paid)]
    made, _ = computed(fields, ["q"] * 3, config)
    rollouts = [
        Trajectory(
            id=str(i),
            group="q",
            response_ids=TWO[0],
            policy=TWO[1],
            turns=[Turn(span=span, reward=r) for span, r in zip([(0, 3), (3, 4)], row, strict=True)],
            columns={"reward": float(i)},
        )
        for i, row in enumerate(paid)
    ]
    assert torch.allclose(made[:, :4], offline(rollouts, "mt_grpo", turns="each"), atol=1e-6)


def test_facts_are_one_per_turn() -> None:
    with pytest.raises(InvalidArgument, match=r"extra_fields\['turn_columns'\]=1: expected 2 entries"):
        played(output(*TWO, turn_columns=COUNTS[:1]), algorithm("apportion_rlvp"), score=1.0)


def test_a_column_that_no_rollout_has_is_a_wrong_name() -> None:
    config = algorithm("apportion_rlvp", violations="broken")
    fields = [played(output(*TWO, turn_columns=COUNTS), config, score=1.0)]
    with pytest.raises(MissingInput, match="a column 'broken'"):
        computed(fields, ["q"], config)


def test_a_rollout_without_the_columns_of_others_abstains() -> None:
    config = algorithm("apportion_rlvp")
    fields = [
        played(output(*TWO, turn_columns=COUNTS), config, score=1.0),
        played(output(*TWO), config, score=0.0),
    ]
    made, _ = computed(fields, ["q", "q"], config)
    assert torch.allclose(made[:, :4], offline([rollout("a", 1.0), rollout("b", 0.0, [{}, {}])], "rlvp"), atol=1e-7)


def test_a_turn_without_facts_abstains() -> None:
    config = algorithm("apportion_rlvp")
    fields = [played(output(*TWO, turn_columns=[COUNTS[0], None]), config, score=float(s)) for s in (1, 0)]
    made, _ = computed(fields, ["q", "q"], config)
    rollouts = [rollout(name, float(s), [COUNTS[0], {}]) for name, s in (("a", 1), ("b", 0))]
    assert torch.allclose(made[:, :4], offline(rollouts, "rlvp"), atol=1e-7)


def test_a_response_in_which_the_policy_wrote_nothing_travels() -> None:
    config = algorithm("apportion_rlvp", kl=True)
    empty = played(output([], []), config, score=1.0)
    assert len(empty["responses"]) == len(empty["rm_scores"]) > 0
    assert not empty["response_mask"].any()
    others = [played(output(*TWO, turn_columns=COUNTS), config, score=s) for s in (1.0, 0.0)]
    made, _ = computed([empty, *others], ["q"] * 3, config)
    assert not made[0].any()
    assert torch.allclose(made[1:, :4], offline([rollout("a", 1.0), rollout("b", 0.0)], "rlvp"), atol=1e-7)


def test_fields_that_a_loop_fills_in_later_stay() -> None:
    from tests.integrations.verl_adapter import playing

    given = playing.loops.AgentLoopOutput(
        prompt_ids=[5], response_ids=TWO[0], response_mask=TWO[1], metrics=playing.loops.AgentLoopMetrics()
    )
    given.extra_fields.update(turn_columns=COUNTS, min_global_steps=3)
    made = played(given, algorithm("apportion_rlvp"), score=1.0)
    assert made["extra_fields"]["min_global_steps"] == 3
    assert len(made["extra_fields"]["apportion_turns"]) == 2


def test_several_outputs_per_session_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="one AgentLoopOutput per session"):
        asyncio.run(Loop([output(*TWO)], algorithm("apportion_rloo")).run({}))


def test_an_observer_that_takes_too_long_fails(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "import asyncio\n"
        "from apportion.recipe import Recipe\n"
        "from apportion.rewards import outcome, reward\n"
        "from apportion.rollouts import Level\n"
        "@reward(level=Level.TURN)\n"
        "async def note(trajectory):\n"
        "    await asyncio.sleep(60)\n"
        "def assign(batch, signals, *, step, state):\n"
        "    return signals['outcome'] + signals['note'].neutral()\n"
        "recipe = Recipe(name='mine', observers=[outcome(), note], assign_signals=assign, aggregation='token-mean')\n"
    )
    config = algorithm("apportion", recipe=str(file), timeout=0.05)
    fields = [played(output(*TWO), config, score=1.0)]
    with pytest.raises(ObserverFailing, match="'note' failed on 2 of 2"):
        computed(fields, ["q"], config)


def test_other_estimators_see_the_loop_as_it_is() -> None:
    given = output(*TWO, turn_columns=COUNTS)
    made = asyncio.run(Loop(given, algorithm("grpo")).run({}))
    assert made is given


def test_the_loops_own_kind_of_output_stays() -> None:
    from tests.integrations.verl_adapter import playing

    class Own(playing.loops.AgentLoopOutput):  # type: ignore[misc,name-defined]
        def as_dict(self) -> dict[str, Any]:
            return {**super().as_dict(), "extra": 1}

    given = output(*TWO)
    given = Own(**{name: getattr(given, name) for name in given.model_fields_set})
    made = played(given, algorithm("apportion_rloo"), score=1.0)
    assert made["extra"] == 1
    assert float(made["rm_scores"][3]) == 1.0
