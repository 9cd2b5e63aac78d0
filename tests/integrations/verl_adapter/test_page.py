"""docs/verl.md names what there is."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from apportion.integrations.verl import plugin
from apportion.integrations.verl.encoding import ABSENT, FAILED
from apportion.integrations.verl.settings import Settings

PAGE = (Path(__file__).parents[3] / "docs" / "verl.md").read_text(encoding="utf-8")


def test_every_setting_is_on_the_page() -> None:
    ours = {field.name for field in fields(Settings)} - {"recipe", "kl_in_reward"}
    assert not [name for name in ours if f"+algorithm.apportion.{name}=" not in PAGE]


@pytest.mark.parametrize("recipe", plugin.UNFED)
def test_every_recipe_that_is_not_fed_is_on_the_page(recipe: str) -> None:
    assert f"`{recipe}`" in PAGE.partition("## What does not reach an estimator")[2].partition("\n## ")[0]


def test_the_markers_are_the_pages() -> None:
    assert ABSENT == 2.0**-126 * 1.125
    assert FAILED == 2.0**-126 * 1.25
    assert "| 2^-126 × 1.125 | after it, or alone as a score | abstained" in PAGE
    assert "| 2^-126 × 1.25 | after it, or alone as a score | failed" in PAGE
