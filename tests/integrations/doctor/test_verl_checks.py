"""What a veRL configuration would do, over veRL's own schema."""

from __future__ import annotations

from pathlib import Path

import pytest

from apportion.errors import InvalidArgument
from apportion.integrations.doctor.finding import Finding
from apportion.integrations.doctor.verl_checks import check_verl_config
from apportion.integrations.doctor.verl_config import compose, unknown_keys, value_of
from tests.differential import needs

needs.trainer("hydra", extra="verl")

TOKEN_SUM = "actor_rollout_ref.actor.loss_agg_mode=token-sum"
CREDIT = "apportion.integrations.verl.agent_loop.CreditToolLoop"


def loops(folder: Path, target: str) -> list[str]:
    file = folder / "loops.yaml"
    file.write_text(f"- name: mine\n  _target_: {target}\n")
    agent = "actor_rollout_ref.rollout.agent"
    return [f"{agent}.agent_loop_config_path={file}", f"{agent}.default_agent_loop=mine"]


def check(*overrides: str, estimator: str = "apportion_grpo") -> list[Finding]:
    group = "actor_rollout_ref.rollout.n=4"
    return check_verl_config(compose(overrides=[f"algorithm.adv_estimator={estimator}", group, *overrides]))


def said(findings: list[Finding], severity: str) -> dict[str, Finding]:
    return {finding.about: finding for finding in findings if finding.severity == severity}


def test_a_configuration_that_fits(tmp_path: Path) -> None:
    findings = check(TOKEN_SUM, *loops(tmp_path, CREDIT), estimator="apportion_rlvp")
    assert {finding.severity for finding in findings} == {"fine"}
    assert any("observes turns" in finding.message for finding in findings)


def test_an_estimator_that_does_not_exist() -> None:
    (found,) = check(estimator="apportion_rlpv")
    assert found.severity == "error"
    assert "apportion_rlvp" in found.remedy


def test_an_estimator_of_verls() -> None:
    (found,) = check(estimator="grpo")
    assert found.severity == "warning"


def test_a_parameter_that_does_not_exist_or_has_a_bad_value() -> None:
    (found,) = check("+algorithm.apportion.pennalty=1", estimator="apportion_rlvp")
    assert found.severity == "error"
    assert "pennalty" in found.about
    (found,) = check("+algorithm.apportion.on_aggregation=maybe")
    assert "on_aggregation" in found.about


@pytest.mark.parametrize(
    ("estimator", "what"),
    [("apportion_ppo", "token column 'values'"), ("apportion_prime", "rm_logps"), ("apportion_treerl", "parent")],
)
def test_a_column_that_configuration_alone_does_not_bring(estimator: str, what: str) -> None:
    (found,) = said(check(estimator=estimator), "error").values()
    assert what in found.message
    assert "apportion_sync" in found.remedy


def test_a_schedule_that_no_estimator_can_follow(tmp_path: Path) -> None:
    given = (TOKEN_SUM, "+algorithm.apportion.anneal_after=10", *loops(tmp_path, CREDIT))
    assert list(said(check(*given, estimator="apportion_rlvp"), "error")) == ["algorithm.apportion.anneal_after"]
    mode = "trainer.v1.trainer_mode=apportion_sync"
    assert not said(check(*given, mode, estimator="apportion_rlvp"), "error")


def test_turn_columns_with_an_ordinary_agent_loop() -> None:
    (found,) = said(check(TOKEN_SUM, estimator="apportion_rlvp"), "error").values()
    assert "turn columns 'violations' and 'fulfilments'" in found.message
    assert "CreditLoop" in found.remedy


def test_a_loop_of_the_users_is_told_what_it_must_bring(tmp_path: Path) -> None:
    findings = check(TOKEN_SUM, *loops(tmp_path, "my.Loop"), estimator="apportion_rlvp")
    assert any("my.Loop must have" in finding.message for finding in findings)


def test_a_loop_file_that_cannot_be_read(tmp_path: Path) -> None:
    given = loops(tmp_path, "my.Loop")
    (tmp_path / "loops.yaml").write_text("just text")
    assert said(check(TOKEN_SUM, *given, estimator="apportion_rlvp"), "error")


def test_the_critic_that_apportions_trainer_needs() -> None:
    mode = "trainer.v1.trainer_mode=apportion_sync"
    assert list(said(check(mode, estimator="apportion_ppo"), "error")) == ["critic.enable"]
    assert not said(check(mode, "critic.enable=True", estimator="apportion_ppo"), "error")


def test_aggregation() -> None:
    key = "actor_rollout_ref.actor.loss_agg_mode"
    told = "+algorithm.apportion.loss_agg_mode=${actor_rollout_ref.actor.loss_agg_mode}"
    rescale, whole = "+algorithm.apportion.on_aggregation=rescale", "actor_rollout_ref.actor.ppo_mini_batch_size=1024"
    assert key in said(check(), "warning")
    assert key in said(check("+algorithm.apportion.on_aggregation=refuse", told), "error")
    assert key in said(check(rescale), "error")
    assert "here are 256 of 1024" in said(check(rescale, told), "warning")[key].message
    assert "are rescaled" in said(check(rescale, told, whole), "fine")[key].message
    wrong = "+algorithm.apportion.loss_agg_mode=token-sum"
    assert "algorithm.apportion.loss_agg_mode=token-sum" in said(check(wrong), "error")


def test_kl_in_the_reward(tmp_path: Path) -> None:
    kl = "algorithm.use_kl_in_reward=True"
    assert "algorithm.use_kl_in_reward=True" in said(check(kl), "error")
    assert not said(check(kl, "+algorithm.apportion.unmarked=scored"), "error")
    assert not said(check(kl, *loops(tmp_path, CREDIT)), "error")


def test_settings_without_effect_and_traps(tmp_path: Path) -> None:
    findings = check("algorithm.norm_adv_by_std_in_grpo=False", "algorithm.gamma=0.9", "algorithm.use_pf_ppo=True")
    assert {"algorithm.norm_adv_by_std_in_grpo=False", "algorithm.gamma=0.9"} <= set(said(findings, "warning"))
    assert "algorithm.use_pf_ppo=True" in said(findings, "error")
    rejection = "algorithm.rollout_correction.rollout_rs=token_k1"
    assert rejection in said(check(TOKEN_SUM, rejection, *loops(tmp_path, CREDIT), estimator="apportion_rlvp"), "error")
    assert "actor_rollout_ref.rollout.n=1" in said(check("actor_rollout_ref.rollout.n=1"), "warning")
    assert "trainer.use_v1=False" in said(check("trainer.use_v1=False"), "warning")


def test_a_filter_in_the_environment_of_the_workers() -> None:
    given = "+ray_kwargs.ray_init.runtime_env.env_vars.VERL_USE_EXTERNAL_PLUGINS=none"
    assert "VERL_USE_EXTERNAL_PLUGINS=none" in said(check(given), "error")


def test_the_reward_is_made(tmp_path: Path) -> None:
    path = "reward.custom_reward_function.path=pkg://apportion.integrations.verl"
    name = "+reward.custom_reward_function.reward_kwargs.reward"
    assert not said(check(path, f"{name}=exact"), "error")
    (found,) = said(check(path, f"{name}={tmp_path}/none.py"), "error").values()
    assert "none.py" in found.about


def test_files_over_the_schema(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(
        "defaults: [ppo_trainer, _self_]\nalgorithm: {adv_estimator: apportion_rlvp, apportion: {penalty: 0.5}}\n"
    )
    made = compose(tmp_path / "mine.yaml", ["trainer.nnodes=2"])
    assert value_of(made, "algorithm.apportion.penalty") == 0.5
    assert value_of(made, "trainer.nnodes") == 2
    assert unknown_keys(made) == []
    (tmp_path / "plain.yaml").write_text("algorithm: {adv_estimator: apportion_grpo}\n")
    assert value_of(compose(tmp_path / "plain.yaml"), "algorithm.adv_estimator") == "apportion_grpo"
    (tmp_path / "plain.yaml").write_text("trainer: {nnodse: 2}\nmine: 1\n")
    assert unknown_keys(compose(tmp_path / "plain.yaml")) == ["trainer.nnodse", "mine"]


def test_what_hydra_refuses_is_told_in_its_words(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="Could not override 'algorithm"):
        compose(overrides=["algorithm.apportion.penalty=1"])
    (tmp_path / "bad.yaml").write_text("a: [1")
    with pytest.raises(InvalidArgument, match=r"bad\.yaml"):
        compose(tmp_path / "bad.yaml")
