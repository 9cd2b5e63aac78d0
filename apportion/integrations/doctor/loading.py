"""Whether veRL loads apportion: entry points, the variables that filter them, and what the probes found."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points

from apportion.integrations.doctor.finding import Finding
from apportion.integrations.doctor.probe import GROUP, Probe

__all__ = ["FILTER", "MODULES", "check_entry_point", "check_filter", "check_probes"]

FILTER = "VERL_USE_EXTERNAL_PLUGINS"
MODULES = "VERL_USE_EXTERNAL_MODULES"
_OURS = "apportion.integrations.verl.entry_point"
_REMEDIES = {"verl": "a veRL that apportion does not know, see the versions: pip install 'apportion[verl]'"}


def check_entry_point() -> Finding:
    """The entry point by which `import verl` finds apportion."""
    points = [f"{p.name} = {p.value}" for p in entry_points(group=GROUP)]
    if any(point.endswith(f"= {_OURS}") for point in points):
        return Finding(severity="fine", about="entry point", message=f"{GROUP}: {', '.join(points)}")
    listed = f"; there: {', '.join(points)}" if points else ""
    return Finding(
        severity="error",
        about="entry point",
        message=f"not installed as a plugin: no entry point of apportion's in the group {GROUP}{listed}",
        remedy="install the package with pip in the environment of every node; a PYTHONPATH alone has no entry points",
    )


def check_filter(environment: Mapping[str, str] = os.environ, *, where: str = "the environment") -> list[Finding]:
    """The variable by which plugins are switched off.

    Args:
        environment: of the process, or what a configuration gives to Ray's workers.
        where: whose it is, for the message.

    Example:
        >>> check_filter({"VERL_USE_EXTERNAL_PLUGINS": "none"})[0].severity
        'error'
    """
    value = environment.get(FILTER)
    if value is None:
        return []
    kept = {name.strip() for name in value.strip().lower().split(",")}
    wider = ",".join([*sorted(kept - {"none", ""}), "apportion"])
    about = f"{FILTER}={value}"
    if kept & {"auto", "apportion"}:
        return [Finding(severity="fine", about=about, message=f"lets apportion through, in {where}")]
    return [
        Finding(
            severity="error",
            about=about,
            message=f"keeps apportion's plugin out, in {where}",
            remedy=f"unset it, or add apportion: {FILTER}={wider}",
        )
    ]


def check_probes(probes: Sequence[Probe]) -> list[Finding]:
    """What each process has, and what one has and another lacks."""
    found = [finding for probe in probes for finding in _one(probe)]
    having = [p for p in probes if p.names]
    lacking = [p for p in probes if not p.names and p.where != "this process"]
    if having and lacking:
        where = ", ".join(p.where for p in having)
        found += [
            Finding(
                severity="error",
                about=lack.where,
                message=f"estimators are registered in {where} only: a run says 'Unknown advantage estimator'",
                remedy="an import in the launch script does not reach Ray's workers: let the entry point do it, in the "
                "environment of every node",
            )
            for lack in lacking
        ]
    return found


def _one(probe: Probe) -> list[Finding]:
    if probe.error:
        return [
            Finding(
                severity="error",
                about=probe.where,
                message=f"cannot be asked: {_last(probe.error)}",
                remedy="see the traceback: apportion doctor --json",
                details=probe.error,
            )
        ]
    found = [
        Finding(
            severity="error",
            about=probe.where,
            message=f"plugin {name!r} raises, and veRL says nothing: {_last(text)}",
            remedy="correct it, or uninstall its package",
            details=text,
        )
        for name, text in probe.plugins.items()
    ]
    found += [
        Finding(
            severity="error",
            about=probe.where,
            message=f"{'estimators' if name == 'verl' else name} could not be registered: {_last(text)}",
            remedy=_REMEDIES.get(name, "another plugin took the name: uninstall it, or use adv_estimator=apportion"),
            details=text,
        )
        for name, text in probe.failures.items()
    ]
    if probe.names and not found:
        found.append(Finding(severity="fine", about=probe.where, message=f"{len(probe.names)} estimators registered"))
    if not probe.names and not found and probe.where != "this process":
        found.append(
            Finding(
                severity="error",
                about=probe.where,
                message="`import verl` did not load apportion's plugin",
                remedy=f"see the entry point and {FILTER}",
            )
        )
    return found


def _last(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "no message"
