"""All that the doctor looks at, in one report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from apportion.errors import ApportionError, InvalidArgument, MissingExtra
from apportion.integrations.doctor.finding import Finding
from apportion.integrations.doctor.loading import check_entry_point, check_filter, check_probes
from apportion.integrations.doctor.probe import Probe, fresh_process, ray_worker, this_process
from apportion.integrations.doctor.versions import check_versions, installed

__all__ = ["Report", "examine"]


@dataclass(frozen=True, kw_only=True)
class Report:
    """What was found.

    Attributes:
        versions: of apportion and the packages that it works with; None for what is not installed.
        probes: the processes that were looked into.
        findings: in the order in which they were made.
    """

    versions: Mapping[str, str | None]
    probes: Sequence[Probe]
    findings: Sequence[Finding]

    @property
    def errors(self) -> list[Finding]:
        """What would make a run fail, or train something else than was asked."""
        return [finding for finding in self.findings if finding.severity == "error"]


def examine(
    *,
    verl_config: Path | None = None,
    overrides: Sequence[str] = (),
    trl_config: Path | None = None,
    ray: bool = False,
) -> Report:
    """Look at versions, at what veRL loads, and at configurations.

    Args:
        verl_config: a veRL configuration, see `apportion.integrations.doctor.verl_config`.
        overrides: veRL's, as on the command line of main_ppo.
        trl_config: a YAML file of TRL settings, see `apportion.integrations.doctor.trl_checks`.
        ray: look into a worker of Ray as well; starts a local one where RAY_ADDRESS names none.

    Example:
        In a launch script, before the run: `examine(overrides=sys.argv[1:]).errors`.
    """
    versions = installed()
    asks_verl = verl_config is not None or bool(overrides)
    wanted = (("verl",) if asks_verl else ()) + (("trl",) if trl_config is not None else ())
    findings = check_versions(wanted)
    probes: list[Probe] = []
    if versions["verl"] is not None:
        findings += [check_entry_point(), *check_filter()]
        here = this_process()
        probes = [*([here] if here.loaded or here.verl else []), fresh_process(), *([ray_worker()] if ray else [])]
        findings += check_probes(probes)
        if asks_verl:
            findings += _verl(verl_config, overrides)
    if trl_config is not None:
        findings += _trl(trl_config)
    if not wanted and versions["verl"] is None and versions["trl"] is None:
        message = "neither veRL nor TRL is installed: nothing to look at"
        remedy = "pip install 'apportion[trl]' or 'apportion[verl]'"
        findings.append(Finding(severity="warning", about="trainers", message=message, remedy=remedy))
    return Report(versions=versions, probes=probes, findings=findings)


def _verl(file: Path | None, overrides: Sequence[str]) -> list[Finding]:
    from apportion.integrations.doctor.verl_checks import check_verl_config
    from apportion.integrations.doctor.verl_config import compose, unknown_keys

    try:
        config = compose(file, overrides)
        # On the command line a new key has a plus, which says that it is meant.
        new = unknown_keys(config) if file is not None else []
        return [*check_verl_config(config), *map(_new, new)]
    except (InvalidArgument, MissingExtra) as error:
        return [_refused("veRL configuration", error)]


def _new(key: str) -> Finding:
    message = "veRL's own configuration does not have this key"
    return Finding(severity="warning", about=key, message=message, remedy="look for a misspelt name")


def _trl(file: Path) -> list[Finding]:
    from apportion.integrations.doctor.trl_checks import check_trl_config, read_trl_config

    try:
        return check_trl_config(read_trl_config(file))
    except (InvalidArgument, MissingExtra) as error:
        return [_refused("TRL configuration", error)]


def _refused(about: str, error: ApportionError) -> Finding:
    if isinstance(error, InvalidArgument):
        return Finding(severity="error", about=about, message=f"{error.value}", remedy=error.expected)
    return Finding(severity="error", about=about, message=str(error), remedy="install it")
