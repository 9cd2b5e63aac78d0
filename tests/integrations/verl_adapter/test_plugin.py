"""What `import verl` leaves in a process."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points

import pytest

from apportion.integrations.verl import plugin
from apportion.integrations.verl.settings import estimator_name
from apportion.recipes import names
from tests.differential import needs

core = needs.trainer("verl.trainer.ppo.core_algos", extra="verl")


def test_every_recipe_is_fed_or_says_why_not() -> None:
    assert sorted([*plugin.RECIPES, *plugin.UNFED]) == names()
    assert list(plugin.RECIPES) == sorted(plugin.RECIPES)


def test_no_setting_of_ours_hides_a_parameter() -> None:
    import inspect

    from apportion.integrations.verl.settings import _OURS
    from apportion.recipes import factory

    for name in names():
        assert not {"recipe", *_OURS} & set(inspect.signature(factory(name)).parameters), name


def test_verl_loads_it() -> None:
    (point,) = [e for e in entry_points(group="verl.plugins") if e.name == "apportion"]
    assert point.value == "apportion.integrations.verl.entry_point"
    found = plugin.status()
    assert found.ran
    assert not found.failures
    assert set(found.registered) == {"apportion", *map(estimator_name, names())}
    assert set(found.registered) <= set(core.ADV_ESTIMATOR_REGISTRY)


def run(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return done.stdout


def test_it_imports_nothing_of_ours_but_itself() -> None:
    code = (
        "import sys, verl\n"
        "from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY as r\n"
        "print('apportion_rlvp' in r, sorted(m for m in sys.modules if m.startswith('apportion')))"
    )
    known, _, modules = run(code).strip().splitlines()[-1].partition(" ")
    assert known == "True"
    allowed = ["apportion", "apportion.errors", "apportion.integrations", "apportion.integrations.verl"]
    allowed += ["apportion.integrations.verl.entry_point", "apportion.integrations.verl.plugin"]
    allowed += ["apportion.integrations.verl.trainer_hook"]
    assert set(eval(modules)) <= set(allowed)


def test_a_taken_name_is_kept_and_the_others_come_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin, "_REGISTERED", [])
    monkeypatch.setattr(plugin, "_FAILURES", {})
    registry = {"apportion_grpo": lambda: None}
    monkeypatch.setattr(core, "ADV_ESTIMATOR_REGISTRY", registry)
    plugin.register()
    found = plugin.status()
    assert list(found.failures) == ["apportion_grpo"]
    assert "has already been registered" in found.failures["apportion_grpo"]
    assert "apportion_rloo" in found.registered
    assert "apportion_rloo" in registry


def test_a_verl_without_a_registry_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin, "_FAILURES", {})
    monkeypatch.delattr(core, "register_adv_est")
    plugin.register()
    assert "ImportError" in plugin.status().failures["verl"]
