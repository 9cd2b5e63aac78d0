"""What cannot work is refused before anything is loaded, and every message says what to do instead."""

from __future__ import annotations

import logging
import pickle
from pathlib import Path
from typing import Any

import pytest
import trl

from apportion.errors import InvalidArgument
from apportion.integrations.trl import CreditGRPOTrainer, CreditMixin, as_reward_func, compatibility
from apportion.recipes import load
from apportion.rewards import exact, outcome
from tests.integrations.trl_adapter.tiny import trainer

pytestmark = pytest.mark.filterwarnings("ignore:You are using 'rollout_func'")


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("RLOOTrainer", "recipe='rloo'"),
        ("GMPOTrainer", "importance_sampling_level='sequence'"),
        ("AsyncGRPOTrainer", "GRPOTrainer; this one stamps one float on every row"),
        ("SDPOTrainer", "GRPOTrainer; this one mixes losses"),
        ("DPOTrainer", r"a subclass of trl.GRPOTrainer: class Mine\(CreditMixin, Yours\)"),
    ],
)
def test_trainers_that_cannot_take_credit_per_token_are_refused(name: str, instead: str) -> None:
    """By class, since the result of one advantage per token would be a wrong broadcast and no error."""
    base = getattr(trl, name, None) or type(name, (), {})
    kind: Any = type("Mine" if name != "DPOTrainer" else name, (CreditMixin, base), {})
    with pytest.raises(InvalidArgument, match=instead):
        kind(recipe="grpo")


def test_the_mixin_alone_is_no_trainer() -> None:
    with pytest.raises(InvalidArgument, match="a subclass of"):
        CreditMixin(recipe="grpo")


def test_the_mixin_comes_first() -> None:
    """The other way round TRL's own methods would win and its scalar would be trained on without a word."""
    with pytest.raises(InvalidArgument, match=r"class Mine\(CreditMixin, \.\.\.\)"):
        type("Mine", (trl.GRPOTrainer, CreditMixin), {})


def test_settings_are_checked_before_anything_is_loaded() -> None:
    with pytest.raises(InvalidArgument, match="recipe"):
        CreditGRPOTrainer(recipe="no_such_recipe")
    with pytest.raises(InvalidArgument, match="recipe_args"):
        CreditGRPOTrainer(recipe=load("grpo"), recipe_args={"dialect": "trl"})
    with pytest.raises(InvalidArgument, match="one of rescale, trainer, refuse"):
        CreditGRPOTrainer(on_aggregation="maybe")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("recipe", "loss_type", "remedy"),
    [
        ("rlvp", "dapo", "on_aggregation='rescale', since no loss_type does"),
        ("grpo", "dapo", "one of grpo, sapo"),
        ("dr_grpo", "grpo", "one of dr_grpo"),
    ],
)
def test_a_mismatch_is_refused_when_asked(tmp_path: Path, recipe: str, loss_type: str, remedy: str) -> None:
    with pytest.raises(InvalidArgument, match=remedy):
        trainer(tmp_path, recipe=recipe, on_aggregation="refuse", loss_type=loss_type)


def test_a_match_is_not_refused(tmp_path: Path) -> None:
    trainer(tmp_path, recipe="grpo", on_aggregation="refuse", loss_type="grpo")


def test_an_unknown_loss_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"loss_type='sum': expected one of grpo"):
        trainer(tmp_path, recipe="grpo", loss_type="sum")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"scale_rewards": "none"}, "scale_rewards='none' has no effect: the recipe decides; see recipe='dr_grpo'"),
        ({"multi_objective_aggregation": "normalize_then_sum"}, "see recipe='gdpo'"),
        ({"off_policy_mask_threshold": 0.1}, "off_policy_mask_threshold looks at the sign of the advantage"),
        ({"loss_type": "sapo"}, "sapo looks at the sign"),
        ({"loss_type": "grpo"}, "recipe 'rlvp' assumes token-sum, loss_type='grpo' computes seq-mean-token-mean"),
    ],
)
def test_what_works_otherwise_than_expected_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, settings: dict[str, Any], said: str
) -> None:
    with caplog.at_level(logging.WARNING, logger="apportion"):
        trainer(tmp_path, recipe="rlvp", **settings)
    assert said in caplog.text


@pytest.mark.parametrize(
    ("installed", "said"),
    [
        ("1.16.0", ""),
        ("1.15.0", "use 1.14.2 or 1.16.0"),
        ("1.99.0", "was not tested with apportion; tested: 1.10.0"),
    ],
)
def test_versions_that_were_not_tested_are_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, installed: str, said: str
) -> None:
    monkeypatch.setattr(compatibility, "version", lambda _: installed)
    compatibility.check_version()
    assert said in caplog.text
    assert bool(said) == bool(caplog.text)


def test_a_version_that_cannot_work_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compatibility, "version", lambda _: "1.9.2")
    with pytest.raises(InvalidArgument, match=r"trl='1\.9\.2': expected 1\.10\.0 or newer .*pip install -U trl"):
        compatibility.check_version()


def test_a_reward_function_of_ours_goes_to_another_process() -> None:
    """Where a trainer starts workers, its reward functions are pickled."""
    right = pickle.loads(pickle.dumps(as_reward_func(outcome(exact()))))
    assert right.__name__ == "outcome"
    assert right(prompts=["q"], completions=["4"], completion_ids=[[1]], reference=["4"]) == [1.0]
