"""The examples for trainers, as far as a machine without a GPU gets: they parse, resolve, and run with a tiny model."""

from __future__ import annotations

import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from apportion.integrations.actions import parse_actions
from apportion.integrations.doctor.trl_checks import check_trl_config, read_trl_config
from apportion.integrations.doctor.verl_checks import check_verl_config
from apportion.integrations.doctor.verl_config import compose, unknown_keys
from apportion.recipes import load
from apportion.rollouts import Trajectory, Turn
from tests.differential import needs

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"
RECIPES = ("rlvp", "trace", "procredit")

needs.trainer("hydra", extra="verl")


def rollout(name: str, *calls: tuple[str, str], reward: float = 1.0) -> Trajectory:
    turns = [
        Turn(
            text=text,
            observation=answer,
            actions=parse_actions(text),
        )
        for text, answer in calls
    ]
    return Trajectory(id=name, group="q", turns=turns, columns={"reward": reward, "facts": ["Grace", "639"]})


def call(name: str, who: str) -> str:
    return f'<tool_call>{{"name": "{name}", "arguments": {{"name": "{who}"}}}}</tool_call>'


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_doctor_has_nothing_to_say_about_verls(recipe: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PWD", str(ROOT))
    config = compose(EXAMPLES / "verl" / f"{recipe}.yaml")
    findings = check_verl_config(config)
    assert [f for f in findings if f.severity != "fine"] == []
    assert any(f"recipe {recipe!r}" in f.message for f in findings)
    assert unknown_keys(config) == []
    assert set(yaml.safe_load((EXAMPLES / "verl" / f"{recipe}.yaml").read_text())["defaults"]) == {
        "qwen3_4b",
        "_self_",
    }


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_doctor_finds_no_error_in_trls(recipe: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    findings = check_trl_config(read_trl_config(EXAMPLES / "trl" / f"{recipe}.yaml"))
    assert [f for f in findings if f.severity == "error"] == []
    assert any("TRL takes all" in f.message for f in findings)


def test_the_recipes_of_the_task() -> None:
    solved = rollout("a", (call("manager_of", "Ada"), "Grace"), (call("extension_of", "Grace"), "639"), ("639", ""))
    guess = rollout("b", (call("extension_of", "Grace"), "639"), ("639", ""))
    (states, guessed) = (
        load("trace", potential=str(EXAMPLES / "directory" / "potential.py")).observers[2].observe([solved, guess])
    )  # type: ignore[misc]
    assert [v.value for v in states] == [0.5, 1.0, 1.0]
    assert [v.value for v in guessed] == [0.5, 0.5]
    checks = load("procredit", potential=str(EXAMPLES / "directory" / "checks.py")).observers[2]
    assert [v.value for v in checks.observe([solved])[0]] == [0.5, 1.0, 1.0]  # type: ignore[index,union-attr]
    credit, _ = load("rlvp", rules=str(EXAMPLES / "directory" / "rules.py")).score([solved, guess])
    assert credit.rewards["violations"].values.tolist() == [0, 0, 0, 1, 0]


def test_the_data_and_the_tools_of_verl(tmp_path: Path) -> None:
    parquet = needs.trainer("pyarrow.parquet", extra="verl")
    subprocess.run([sys.executable, EXAMPLES / "verl" / "data.py", tmp_path / "data"], check=True, timeout=120)
    (row,) = parquet.read_table(tmp_path / "data" / "test.parquet").slice(0, 1).to_pylist()
    assert row["reward_model"]["ground_truth"] == "639"
    assert row["extra_info"]["facts"] == ["Grace", "639"]
    tools = needs.trainer("verl.tools.function_tool", extra="verl")
    made = tools.load_function_tools_from_path(str(EXAMPLES / "verl" / "tools.py"))
    assert sorted(tool.name for tool in made) == ["extension_of", "manager_of"]
    assert made[0].fn("Ada") in ("Grace", "118")


def test_two_steps_of_trl_with_a_tiny_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.integrations.trl_adapter import tiny

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    words = tiny.tokenizer(learn=True)
    tiny.model(len(words)).save_pretrained(tmp_path / "model")
    words.save_pretrained(tmp_path / "model")
    settings = yaml.safe_load((EXAMPLES / "trl" / "procredit.yaml").read_text())
    small = {"use_vllm": False, "bf16": False, "max_completion_length": 24, "num_generations": 4, "max_steps": 2}
    small |= {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 1, "report_to": "none"}
    small |= {"gradient_checkpointing": False}
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(settings | small))
    monkeypatch.setattr(sys, "argv", ["train.py", str(tmp_path / "small.yaml"), str(tmp_path / "model")])
    trainer = runpy.run_path(str(tmp_path / "examples" / "trl" / "train.py"), run_name="__main__")["trainer"]
    assert trainer.state.global_step == 2
    assert trainer.recipe.name == "procredit"
    assert trainer.state.log_history[0]["apportion/rewards/checks/missing_share"] == 0.0
