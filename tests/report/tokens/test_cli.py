"""`apportion audit --tokens`: the page, the JSON, the options and the exit codes."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from apportion.cli._app import app
from apportion.integrations.files import write
from apportion.report.tokens.catalogue import CATALOGUE
from apportion.rollouts import Trajectory
from tests.report.tokens.building import CHATML, INSERTS, rollout, tokenizer

TALK = (("user", "?"), ("assistant", "hello"), ("user", "!"), ("assistant", "hello"))
EVIL = "\x1b[2J\x1b[31m[bold]\n\u202e"

Run = Callable[..., Result]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    def go(*arguments: object) -> Result:
        monkeypatch.setenv("COLUMNS", "100")
        return CliRunner().invoke(app, ["audit", *map(str, arguments)])

    return go


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "rollouts.jsonl"
    tok = tokenizer()
    write([rollout(tok, *TALK, id=f"r{i}", columns={"reward": i % 2}) for i in range(4)], path)
    return path


def saved(template: str, to: Path) -> Path:
    tokenizer(template).save_pretrained(to / "tokenizer")
    return to / "tokenizer"


def test_drift_is_on_the_page_with_its_places(run: Run, source: Path, tmp_path: Path) -> None:
    result = run(source, "--tokens", "--tokenizer", saved(INSERTS, tmp_path))
    assert result.exit_code == 0, result.output
    for words in (
        "4 with tokens; 4 rendered again",
        "0 of 8 replies change (0%)",
        "8 of 8 replies change (100%)",
        "template-empty-thinking",
        "r0, reply 0, token",
        "against",
        "trainer gap",
    ):
        assert words in result.stdout


def test_clean_rollouts_have_no_finding_about_tokens(run: Run, source: Path, tmp_path: Path) -> None:
    result = run(source, "--tokens", "--tokenizer", saved(CHATML, tmp_path), "--json", "--strict")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert found["tokens"]["replies"] == 8
    assert (found["tokens"]["round_trip_changed"], found["tokens"]["template_changed"]) == (0, 0)
    assert not {finding["code"] for finding in found["findings"]} & CATALOGUE.keys()


def test_strict_fails_on_a_mask_fault_without_a_tokenizer(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "padded.jsonl"
    write(
        [
            Trajectory(id=f"r{i}", group="q", prompt_ids=[1], response_ids=[5, 2, 2], columns={"reward": i})
            for i in range(2)
        ],
        path,
    )
    assert run(path, "--tokens", "--strict").exit_code == 0
    result = run(path, "--tokens", "--end-id", 2, "--strict", "--json")
    assert result.exit_code == 1
    (finding,) = [f for f in json.loads(result.stdout)["findings"] if f["code"] == "mask-behind-end"]
    assert finding["places"][0] == {"trajectory": "r0", "turn": 0, "index": 3, "recorded": "1 5 2 >2<", "instead": ""}


def test_what_a_rollout_wrote_cannot_reach_the_terminal(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "evil.jsonl"
    tok = tokenizer()
    talk = (("user", EVIL), ("assistant", EVIL), ("tool", EVIL), ("assistant", "ok"))
    row = rollout(tok, *talk, id=EVIL)
    write([rollout(tok, *talk, id=EVIL, policy=[1] * len(row.response_ids), behaviour_logps=None)], path)  # type: ignore[arg-type]
    result = run(path, "--tokens", "--tokenizer", saved(INSERTS, tmp_path))
    assert "mask-on-observation" in result.stdout
    assert "\x1b" not in result.output
    assert "\u202e" not in result.output


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--tokenizer", "somewhere"], "--tokens beside it"),
        (["--end-id", "3"], "--tokens beside it"),
        (["--tokens", "--template-arg", "a=1"], "--tokenizer beside it"),
        (["--tokens", "--tokenizer", "somebody/some-model"], "nothing is downloaded here"),
    ],
)
def test_options_that_cannot_work(run: Run, source: Path, options: list[str], expected: str) -> None:
    result = run(source, *options)
    assert result.exit_code == 2
    assert expected in " ".join(result.stderr.split())


def test_the_documentation_has_every_code() -> None:
    page = (Path(__file__).parents[3] / "docs" / "token_audit.md").read_text(encoding="utf-8")
    documented = {
        part.strip("| `") for line in page.splitlines() if line.startswith("| `") for part in line.split("|")[1:2]
    }
    assert documented == CATALOGUE.keys() | {"no-tokens"}
