"""Recipes whose reward is a judge's opinion, with scripted models."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from apportion import advantages as adv
from apportion import recipes
from apportion.batch import Batch
from apportion.errors import InvalidArgument
from apportion.judges.exchange import Request
from apportion.judges.judge import judge as ask_judge
from apportion.judges.prompts import Server
from apportion.recipes.judged import grm, judge, ruler_like
from apportion.rewards import observe
from apportion.rollouts import Level
from apportion.signal import Signal
from apportion.verdicts import Scored
from tests.judges.scripted import Scripted, group_of, prompt_of, verdict

GROUP = ["worth 1", "worth 9", "worth 5"]


def by_worth(request: Request) -> str:
    found = re.findall(r"<<<BEGIN candidate (\w+), [^\n]*\n\| worth (\d+)", prompt_of(request))
    if len(found) == 1:
        return verdict(request, f"score={found[0][1]}")
    return verdict(request, "; ".join(f"{label}.score={worth}" for label, worth in found))


@pytest.mark.parametrize("name", ["judge", "ruler_like", "grm"])
def test_the_scores_are_normalised_in_their_group(name: str) -> None:
    model = Scripted(by_worth)
    made = {
        "judge": lambda: judge(judge=ask_judge(model, server=Server("judge"))),
        "ruler_like": lambda: ruler_like(transport=model),
        "grm": lambda: grm(transport=model, samples=4),
    }[name]()
    group = group_of(GROUP)
    seen = observe(made.observers, group)
    credit, _ = made.assign(Batch.pack(group), seen, step=0)
    assert credit.advantages.spread(Level.TURN).values.tolist() == pytest.approx([-1.0, 1.0, 0.0])
    assert len(model.asked) == {"judge": 3, "ruler_like": 1, "grm": 4}[name]
    if name == "grm":
        assert [v.value for v in seen["judge"]] == [4.0, 36.0, 20.0]
        assert "derive from the task" in model.asked[0].messages[0].content


@pytest.mark.parametrize("name", ["judge", "ruler_like", "grm"])
def test_a_recorded_column_is_grpo(name: str) -> None:
    made = recipes.load(name)
    batch = Batch.of(groups=["q"] * 3, turns=[1] * 3)
    rewards = [1.0, 0.0, 4.0]
    signal = Signal.of(batch, Level.TRAJECTORY, rewards, name="judge")
    credit, _ = made.assign(batch, {"judge": [Scored(v) for v in rewards]}, step=0)
    torch.testing.assert_close(credit.advantages.values, adv.grpo(signal).spread(credit.advantages.level).values)
    assert any("judge_score" in need for need in made.needs)


def test_a_group_whose_answer_lacks_a_score_gets_nothing() -> None:
    model = Scripted(lambda r: verdict(r, "A.score=5; B.score=5"))
    made = ruler_like(transport=model, shows="answer")
    group = group_of(GROUP)
    credit, _ = made.assign(Batch.pack(group), observe(made.observers, group, failure_limit=1), step=0)
    assert not credit.advantages.values.any()
    assert len(model.asked) == 2


def test_what_is_no_judge_is_refused() -> None:
    with pytest.raises(InvalidArgument):
        judge(judge=lambda t: 1.0)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument):
        grm(transport=Scripted(by_worth), samples=0)


def test_a_file_may_define_the_transport(tmp_path: Path) -> None:
    file = tmp_path / "asks.py"
    file.write_text("from tests.recipes.test_judged import by_worth, Scripted\ntransport = Scripted(by_worth)\n")
    for made in (grm(transport=str(file), samples=1), ruler_like(transport=str(file))):
        found = observe(made.observers, group_of(GROUP))["judge"]
        assert [v.value for v in found] == [1.0, 9.0, 5.0]
        assert made.parameters["transport"] == str(file)
