"""The `apportion` program: one file per command.

    apportion demo                      a tiny model trained under several recipes, and what each taught it
    apportion audit ROLLOUTS            what is wrong with a file of rollouts before training on it
    apportion score ROLLOUTS -r RECIPE -o FILE      credit for every policy token, with its ledger
    apportion recipes [NAME]            what there is, and what it needs

Exit codes: 0 done; 1 `audit --strict` found an error, or `demo` did not come out as expected; 2 a bad argument, or a
file that cannot be opened or written; 3 rollouts that cannot be read or used; 4 a missing extra; 70 a bug in apportion;
130 interrupted.
"""

from __future__ import annotations

import sys

from apportion._extras import require
from apportion.errors import MissingExtra

__all__ = ["main"]


def main() -> None:
    """Run the program on `sys.argv` and exit."""
    try:
        for package in ("typer", "rich"):
            require(package, extra="cli")
    except MissingExtra as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(4)
    from apportion.cli._app import app

    app(prog_name="apportion")
