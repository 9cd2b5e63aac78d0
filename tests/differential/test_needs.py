"""A missing trainer is loud, unless somebody said that it may be missing."""

from __future__ import annotations

import pytest

from tests.differential import needs


def test_a_missing_trainer_fails_and_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(needs.SWITCH, raising=False)
    with pytest.raises(pytest.fail.Exception, match=r"pip install 'apportion\[trl\]'.*APPORTION_WITHOUT_TRAINERS=1"):
        needs.trainer("no_such_trainer", extra="trl")


def test_a_missing_trainer_is_skipped_only_when_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(needs.SWITCH, "1")
    with pytest.raises(pytest.skip.Exception, match="no_such_trainer is not installed"):
        needs.trainer("no_such_trainer", extra="trl")
