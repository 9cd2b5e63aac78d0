"""Editor tools, code tools and patches do what a shell command with the same effect does."""

from __future__ import annotations

import pytest

from apportion.rewards.shell import deletes, writes
from apportion.rollouts import Action
from tests.rewards.builders import call
from tests.rewards.shell.judging import said

CHANGES = [
    call("str_replace_based_edit_tool", command="create", path="/workspace/T", file_text="x"),
    call("str_replace_editor", command="str_replace", path="T", old_str="a", new_str="b"),
    call("str_replace_editor", command="insert", path="src/../T", insert_line=1, new_str="b"),
    call("write_file", path="T", content="x"),
    call("Edit", file_path="/workspace/T", old_string="a", new_string="b"),
    call("Write", file_path="T", content="x"),
    call("create_file", filename="T"),
    call("delete_file", target_file="T"),
    call("move_file", source="a", destination="T"),
    call("rename", source="T", destination="a"),
    call("apply_patch", input="*** Begin Patch\n*** Update File: T\n@@\n-a\n+b\n*** End Patch"),
    call("apply_patch", patch="--- a/T\n+++ b/T\n@@ -1 +1 @@\n-a\n+b\n"),
    call("python", code="open('T', 'w')"),
    call("execute_ipython_cell", code="!echo x > T"),
    call("jupyter", code="%%bash\necho x > T\n"),
    call("execute_bash", command="echo x > T"),
    call("terminal", cmd="echo x > T"),
    call("shell", command=["bash", "-lc", "echo x > T"]),
    call("whatever", command="echo x > T"),
    Action("bash", {"command": "echo x > T"}, syntax="shell"),
]
NO_CHANGES = [
    call("str_replace_editor", command="view", path="T"),
    call("read_file", path="T"),
    call("open_file", path="T"),
    call("write_file", path="other", content="T"),
    call("search", query="rm T", path="T"),
    call("run_tests", path="T"),
    call("move_file", source="a", destination="b"),
    call("get_weather", city="T"),
    call("update_reservation", reservation_id="T"),
    call("python", code="print(open('T').read())"),
    call("think", thought="rm T"),
]


@pytest.mark.parametrize("action", CHANGES, ids=str)
def test_changes(action: Action) -> None:
    assert said(writes("T"), action) is True


@pytest.mark.parametrize("action", NO_CHANGES, ids=str)
def test_no_changes(action: Action) -> None:
    assert said(writes("T"), action) is False


def test_a_tool_can_be_declared() -> None:
    assert said(writes("T"), call("store", path="T")) is False
    assert said(writes("T", tools={"store": "write"}), call("store", path="T")) is True
    assert said(writes("T", tools={"write_note": "none"}), call("write_note", path="T")) is False


def test_a_script_written_by_a_tool_is_read_when_it_runs() -> None:
    create = call("create", path="/workspace/s.sh", file_text="#!/bin/sh\nrm -rf out\n")
    assert said(deletes(), create) is False
    assert said(deletes(), create, "./s.sh") is True
    edit = call("str_replace", path="s.sh", old_str="out", new_str="$X")
    assert said(deletes(), create, edit, "sh s.sh") is None


def test_a_patch_that_is_not_known_is_unknown() -> None:
    assert said(writes("T"), call("apply_patch")) is None
