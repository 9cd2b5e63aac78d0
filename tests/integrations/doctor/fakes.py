"""A veRL of a few lines, as a folder to put before the real one: it loads plugins as veRL 0.9.1 does."""

from __future__ import annotations

from pathlib import Path

LOADER = """
import os
from importlib.metadata import entry_points
policy = os.environ.get("VERL_USE_EXTERNAL_PLUGINS", "auto")
for point in entry_points(group="verl.plugins") if policy != "none" else ():
    try:
        point.load()
    except Exception:
        pass
"""
REGISTRY = """
ADV_ESTIMATOR_REGISTRY = {}
def register_adv_est(name):
    def put(function):
        ADV_ESTIMATOR_REGISTRY[name] = function
        return function
    return put
"""


def verl(folder: Path, *, registry: str = REGISTRY) -> None:
    """The package, without metadata."""
    core = folder / "verl" / "trainer" / "ppo"
    core.mkdir(parents=True)
    (folder / "verl" / "__init__.py").write_text(LOADER)
    (folder / "verl" / "trainer" / "__init__.py").write_text("")
    (core / "__init__.py").write_text("")
    (core / "core_algos.py").write_text(registry)


def metadata(folder: Path, name: str, version: str, *, plugin: str = "", requires: str = "") -> None:
    """What importlib finds of a package; it hides another one of this name further down the path."""
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir()
    needs = f"Requires-Dist: {requires}\n" if requires else ""
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}")
    if plugin:
        (info / "entry_points.txt").write_text(f"[verl.plugins]\n{name} = {plugin}\n")
