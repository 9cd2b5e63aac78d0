"""What is wrong between apportion and a trainer, before a run says it late or not at all.

    versions     what is installed, and what apportion and the trainers ask of each other
    probe        what `import verl` leaves in a fresh process, or in a worker of Ray
    loading      entry points, the variables that filter them, and what the probes found
    verl_config  a veRL configuration, composed over veRL's own schema
    verl_checks  what it would do with the recipe
    trl_checks   the same for a TRL configuration
    report       all of it

`apportion doctor` shows it. In a launch script of yours, `examine()` also looks into the process that calls it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.integrations.doctor.finding import Finding, Severity

if TYPE_CHECKING:
    from apportion.integrations.doctor.report import Report as Report
    from apportion.integrations.doctor.report import examine as examine

__all__ = ["Finding", "Report", "Severity", "examine"]


def __getattr__(name: str) -> object:
    import importlib

    if name not in ("Report", "examine"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.report"), name)
