"""What is shipped: the wheel's files, the extras, and the line that a missing extra prints."""

import ast
import re
import tomllib
import zipfile
from pathlib import Path

import pytest
from hatchling.build import build_wheel

from apportion import MissingExtra
from apportion._extras import require

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def distribution(requirement: str) -> str:
    """The bare name of a requirement: `math-verify[antlr]>=0.8` -> `math-verify`."""
    return re.split(r"[\[<>=!~; ]", requirement, maxsplit=1)[0]


def table(heading: str) -> list[list[str]]:
    """The rows of the table below a heading of the README, without its header."""
    section = README.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("|")]
    return rows[2:]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    out = tmp_path_factory.mktemp("wheel")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        return zipfile.ZipFile(out / build_wheel(str(out)))


def test_wheel_holds_the_package_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    shipped = {name for name in wheel.namelist() if ".dist-info/" not in name}
    sources = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "apportion").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert shipped == sources
    assert "apportion/py.typed" in shipped


def test_wheel_carries_licence_and_program(wheel: zipfile.ZipFile) -> None:
    info = {name.partition(".dist-info/")[2]: name for name in wheel.namelist() if ".dist-info/" in name}
    assert wheel.read(info["licenses/LICENSE"]) == (ROOT / "LICENSE").read_bytes()
    assert b"apportion = apportion.cli:main" in wheel.read(info["entry_points.txt"])
    assert b"License-Expression: Apache-2.0" in wheel.read(info["METADATA"])


def test_readme_lists_the_extras() -> None:
    documented = {row[0].strip("`"): sorted(row[1].split(", ")) for row in table("Extras")}
    assert documented == {extra: sorted(map(distribution, needs)) for extra, needs in EXTRAS.items()}


def test_readme_environment_a_is_what_the_constraints_pin() -> None:
    lines = (ROOT / "constraints" / "cpu.txt").read_text(encoding="utf-8").splitlines()
    pinned = {line for line in lines if line and not line.startswith("#")}
    (row,) = [row for row in table("Tested environments") if row[0] == "A"]
    documented = {"==".join(entry.split()) for entry in row[1].split(", ")}
    assert documented
    assert documented <= pinned


@pytest.mark.parametrize("extra", EXTRAS)
def test_missing_extra_prints_the_install_line(extra: str) -> None:
    with pytest.raises(MissingExtra, match="absent_package is not installed") as caught:
        require("absent_package.part", extra=extra)
    assert str(caught.value).endswith(f"pip install 'apportion[{extra}]'")


def test_broken_dependency_is_not_reported_as_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_dependency.py").write_text("import absent_package\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="absent_package") as caught:
        require("broken_dependency", extra="parquet")
    assert not isinstance(caught.value, MissingExtra)


def test_the_package_asks_only_for_extras_that_exist() -> None:
    asked = {
        (path.name, keyword.value.value)
        for path in (ROOT / "apportion").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "require"
        for keyword in node.keywords
        if keyword.arg == "extra" and isinstance(keyword.value, ast.Constant)
    }
    assert {(name, extra) for name, extra in asked if extra not in EXTRAS} == set()
