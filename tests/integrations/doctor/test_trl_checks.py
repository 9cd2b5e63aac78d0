"""What a TRL configuration would do."""

from __future__ import annotations

from pathlib import Path

import pytest

from apportion.errors import InvalidArgument
from apportion.integrations.doctor import trl_checks
from apportion.integrations.doctor.finding import Finding


def check(**config: object) -> dict[str, list[Finding]]:
    found: dict[str, list[Finding]] = {"error": [], "warning": [], "fine": []}
    for finding in trl_checks.check_trl_config(config):
        found[finding.severity].append(finding)
    return found


def test_a_configuration_that_fits() -> None:
    found = check(recipe="grpo", loss_type="grpo", learning_rate=1e-6, bf16=True)
    assert found["error"] == found["warning"] == []
    assert any("TRL takes all 3 settings" in f.message for f in found["fine"])


def test_another_aggregation_is_rescaled_or_refused() -> None:
    (warning,) = check(recipe="grpo", loss_type="dapo")["warning"]
    assert "rescaled per token" in warning.message
    (error,) = check(recipe="grpo", loss_type="dapo", on_aggregation="refuse")["error"]
    assert "seq-mean-token-mean" in error.remedy
    assert check(recipe="grpo", loss_type="no_such_loss")["error"]


def test_settings_that_the_recipe_decides() -> None:
    found = check(recipe="grpo", loss_type="grpo", scale_rewards="none")
    assert any("scale_rewards" in f.message for f in found["warning"])


def test_what_trl_does_not_have() -> None:
    (error,) = check(recipe="ppo")["error"]
    assert "values of a critic" in error.message


@pytest.mark.parametrize("name", ["RLOOTrainer", "GMPOTrainer", "AsyncGRPOTrainer"])
def test_a_trainer_of_one_advantage_per_completion(name: str) -> None:
    (error,) = check(recipe="grpo", loss_type="grpo", trainer=name)["error"]
    assert name in error.about


def test_bad_recipes_and_settings() -> None:
    assert check(recipe="no_such_recipe")["error"]
    assert "penalty_typo" in check(recipe="rlvp", recipe_args={"penalty_typo": 1})["error"][0].message
    (error,) = check(recipe="grpo", loss_type="grpo", num_genrations=4)["error"]
    assert "num_genrations" in error.about


def test_files(tmp_path: Path) -> None:
    file = tmp_path / "grpo.yaml"
    file.write_text("recipe: rlvp\nrecipe_args: {penalty: 0.5}\n")
    assert trl_checks.read_trl_config(file) == {"recipe": "rlvp", "recipe_args": {"penalty": 0.5}}
    for text in ("a: [1", "- 1"):
        file.write_text(text)
        with pytest.raises(InvalidArgument, match="configuration"):
            trl_checks.read_trl_config(file)
