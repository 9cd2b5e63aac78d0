"""What is installed, and what apportion and the trainers ask of each other's versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, requires, version

from apportion.integrations.doctor.finding import Finding

__all__ = ["PACKAGES", "check_versions", "installed"]

PACKAGES = ("apportion", "verl", "trl", "transformers", "torch", "ray")
# What apportion's own runs were made with. Others may work: what they lack is an error at start-up.
TESTED: Mapping[str, tuple[str, ...]] = {
    "verl": ("0.9.1",),
    "trl": ("1.10.0", "1.11.0", "1.12.0", "1.13.0", "1.14.2", "1.16.0"),
}
# A veRL whose actor imports `trl.AutoModelForCausalLMWithValueHead`, and the first TRL without that class.
_APART = ("0.9.1", "1.0.0")


def installed() -> dict[str, str | None]:
    """The versions of `PACKAGES`; None for what is not installed.

    Example:
        >>> sorted(installed())
        ['apportion', 'ray', 'torch', 'transformers', 'trl', 'verl']
    """
    return {name: _version(name) for name in PACKAGES}


def check_versions(wanted: tuple[str, ...] = ()) -> list[Finding]:
    """Installed trainers against what apportion asks of them and what they ask of others.

    Args:
        wanted: trainers that are needed, whether or not they are installed: "verl", "trl".
    """
    found = []
    for trainer, tested in TESTED.items():
        have = _version(trainer)
        if have is None:
            severity = (
                [
                    Finding(
                        severity="error",
                        about=trainer,
                        message="not installed",
                        remedy=f"pip install 'apportion[{trainer}]'",
                    )
                ]
                if trainer in wanted
                else []
            )
            found += severity
            continue
        broken = [*_unmet("apportion", extra=trainer), *_unmet(trainer)]
        found += [
            Finding(
                severity="error",
                about=name,
                message=f"{owner} asks for {need}, " + (f"{has} is installed" if has else "which is not installed"),
                remedy=f"pip install -U 'apportion[{trainer}]'",
            )
            for owner, name, need, has in broken
        ]
        if have not in tested and not any(name == trainer for _, name, _, _ in broken):
            found.append(
                Finding(
                    severity="warning",
                    about=trainer,
                    message=f"{have} was not tested with apportion; tested: {', '.join(tested)}",
                    remedy="run a few steps first and compare the logged advantages",
                )
            )
        elif not broken:
            found.append(Finding(severity="fine", about=trainer, message=f"{have} is supported"))
    return [*found, *_apart()]


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _unmet(owner: str, *, extra: str = "") -> Iterator[tuple[str, str, str, str | None]]:
    """(owner, package, what is asked of it, what is installed) for every requirement that is not met."""
    from packaging.requirements import Requirement

    for line in requires(owner) or ():
        need = Requirement(line)
        if need.marker is not None and not need.marker.evaluate({"extra": extra}):
            continue
        have = _version(need.name)
        if have is None or not need.specifier.contains(have, prereleases=True):
            yield owner, need.name, str(need), have


def _apart() -> list[Finding]:
    verl, trl = _version("verl"), _version("trl")
    if verl is None or trl is None:
        return []
    from packaging.version import Version

    if Version(verl) > Version(_APART[0]) or Version(trl) < Version(_APART[1]):
        return []
    return [
        Finding(
            severity="warning",
            about="verl and trl",
            message=f"beside TRL {trl} an actor of veRL {verl} cannot be built: it imports a class that TRL removed",
            remedy="one environment for each trainer",
        )
    ]
