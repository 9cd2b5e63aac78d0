"""What `import verl` leaves in a process: run in a fresh one, or in a worker of Ray."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import entry_points
from typing import Any

__all__ = ["Probe", "fresh_process", "look", "ray_worker", "this_process"]

GROUP = "verl.plugins"
_PLUGIN = "apportion.integrations.verl.plugin"
_MARK = "apportion-doctor:"
_LIMIT = 300.0


@dataclass(frozen=True, kw_only=True)
class Probe:
    """What a process has.

    Attributes:
        where: which process it is, in words.
        verl: False where veRL was not imported there.
        error: the traceback of `import verl`, or of reaching the process; "" when there was none.
        loaded: whether apportion's plugin ran there.
        names: apportion's estimators in veRL's registry.
        failures: what could not be registered, by name, as a traceback.
        plugins: tracebacks of plugins that raise, by name of the entry point; veRL swallows them.
        python: the interpreter.
    """

    where: str
    verl: bool = False
    error: str = ""
    loaded: bool = False
    names: tuple[str, ...] = ()
    failures: Mapping[str, str] = field(default_factory=dict)
    plugins: Mapping[str, str] = field(default_factory=dict)
    python: str = ""


def look(where: str, *, importing: bool = True) -> Probe:
    """What this process has.

    Args:
        where: for the result.
        importing: import veRL first; otherwise only what is there already counts, and nothing is loaded.
    """
    if importing:
        try:
            __import__("verl")
        except Exception:  # noqa: BLE001 - it is what the probe is to tell
            return Probe(where=where, error=traceback.format_exc(), python=sys.executable)
    plugin: Any = sys.modules.get(_PLUGIN)
    status = None if plugin is None else plugin.status()
    core: Any = sys.modules.get("verl.trainer.ppo.core_algos")
    registry = getattr(core, "ADV_ESTIMATOR_REGISTRY", {})
    return Probe(
        where=where,
        verl="verl" in sys.modules,
        loaded=status is not None and status.ran,
        names=tuple(sorted(n for n in registry if isinstance(n, str) and n.startswith("apportion"))),
        failures={} if status is None else dict(status.failures),
        plugins=_raising() if importing else {},
        python=sys.executable,
    )


def _raising() -> dict[str, str]:
    """The plugins that raise; those that loaded do nothing the second time."""
    found = {}
    for point in entry_points(group=GROUP):
        try:
            point.load()
        except Exception:  # noqa: BLE001 - as veRL does, but kept
            found[point.name] = traceback.format_exc()
    return found


def this_process() -> Probe:
    """What the calling process has, without loading anything."""
    return look("this process", importing=False)


def fresh_process() -> Probe:
    """What `import verl` leaves in a new process with this interpreter and environment."""
    code = f"from {__name__} import _tell; _tell()"
    try:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=_LIMIT, check=False
        )
    except subprocess.TimeoutExpired:
        return Probe(where="a new process", error=f"`import verl` took longer than {_LIMIT:.0f} s")
    lines = [line for line in done.stdout.splitlines() if line.startswith(_MARK)]
    if not lines:
        return Probe(where="a new process", error=done.stderr or f"exit code {done.returncode}")
    return _read(json.loads(lines[-1].removeprefix(_MARK)))


def _tell() -> None:
    sys.stdout.write(f"\n{_MARK}{json.dumps(asdict(look('a new process')))}\n")


def _read(raw: dict[str, Any]) -> Probe:
    return Probe(**{**raw, "names": tuple(raw["names"])})


def ray_worker() -> Probe:
    """What `import verl` leaves in a worker of Ray: of the cluster that RAY_ADDRESS names, else of a local one.

    Raises:
        MissingExtra: Ray is not installed.
    """
    from apportion._extras import require

    ray: Any = require("ray", extra="ray")
    mine = not ray.is_initialized()
    where = "a Ray worker"
    try:
        if mine:
            address = os.environ.get("RAY_ADDRESS")
            local = {} if address else {"num_cpus": 1, "include_dashboard": False}
            ray.init(address=address, log_to_driver=False, logging_level="ERROR", **local)
        raw = ray.get(ray.remote(_remote).options(num_cpus=1).remote(where), timeout=_LIMIT)
    except Exception:  # noqa: BLE001 - a worker that cannot be reached is a finding
        return Probe(where=where, error=traceback.format_exc())
    finally:
        if mine:
            ray.shutdown()
    return _read(raw)


def _remote(where: str) -> dict[str, Any]:
    return asdict(look(where))
