"""The `apportion` program: one file per command.

    apportion demo                      a tiny model trained under several recipes, and what each taught it
    apportion audit ROLLOUTS            what is wrong with a file of rollouts before training on it
    apportion probe ROLLOUTS            which signals vary where the outcome does not
    apportion score ROLLOUTS -r RECIPE -o FILE      credit for every policy token, with its ledger
    apportion show CREDIT               why the turns of a rollout got their credit
    apportion recipes [NAME]            what there is, and what it needs
    apportion doctor [OVERRIDE]...      what is wrong between a trainer, its configuration and a recipe

Exit codes: 0 done; 1 `audit --strict` or `doctor` found an error, or `demo` did not come out as expected; 2 a bad
argument, or a file that cannot be opened or written; 3 rollouts that cannot be read or used; 4 a missing extra; 70 a
bug in apportion, or in a recipe file; 130 interrupted, 143 terminated.
"""

from __future__ import annotations

import io
import signal
import sys

from apportion._extras import require
from apportion.cli._errors import Code, terminated
from apportion.errors import MissingExtra

__all__ = ["main"]


def main() -> None:
    """Run the program on `sys.argv` and exit."""
    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        # Not where somebody decided already: nohup ignores the second one.
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, terminated)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal or pipe that has no bars and lines shows question marks in their place.
        sys.stdout.reconfigure(errors="replace")
    try:
        for package in ("typer", "rich"):
            require(package, extra="cli")
        from apportion.cli._app import app
    except MissingExtra as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(Code.EXTRA)
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted\n")
        sys.exit(Code.INTERRUPTED)
    app(prog_name="apportion")
