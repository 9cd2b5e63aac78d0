"""What an error means for the shell: its exit code, and one clear message."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from enum import IntEnum

from apportion.errors import (
    ApportionError,
    BadRow,
    InvalidArgument,
    MissingExtra,
    MissingInput,
    ObserverFailing,
    RecipeRefused,
)

__all__ = ["BadRollouts", "Code", "Terminated", "about_the_rollouts", "described", "exit_code", "guest", "terminated"]


class Code(IntEnum):
    """Exit codes; 0 is success."""

    FOUND = 1
    USAGE = 2
    DATA = 3
    EXTRA = 4
    BUG = 70
    INTERRUPTED = 130


class BadRollouts(ApportionError):
    """What a recipe refused is in the file and not on the command line."""


_CODES: dict[type[BaseException], Code] = {
    MissingExtra: Code.EXTRA,
    BadRollouts: Code.DATA,
    BadRow: Code.DATA,
    MissingInput: Code.DATA,
    ObserverFailing: Code.DATA,
    RecipeRefused: Code.USAGE,
    InvalidArgument: Code.USAGE,
    ApportionError: Code.BUG,
    OSError: Code.USAGE,
}


@contextmanager
def about_the_rollouts() -> Iterator[None]:
    """The arguments that are refused inside come from a file."""
    try:
        yield
    except InvalidArgument as error:
        raise BadRollouts(str(error)) from error


class Terminated(SystemExit):
    """A signal asked the program to end; half-written files are removed on the way out."""


def terminated(number: int, frame: object) -> None:
    """A signal handler: the default one would leave the temporary files where they are."""
    raise Terminated(128 + number)


@contextmanager
def guest(*, as_json: bool) -> Iterator[None]:
    """Code of the user's runs inside: what it prints stays out of our JSON, and it cannot end the program quietly."""
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        try:
            yield
        except Terminated:
            raise
        except SystemExit as error:
            raise RuntimeError(f"the recipe file called sys.exit({error.code!r})") from error


def exit_code(error: ApportionError | OSError) -> Code:
    """The code of the most specific class that is listed."""
    return next(code for kind, code in _CODES.items() if isinstance(error, kind))


def described(error: ApportionError | OSError) -> str:
    """One message, with what the command line can do about it."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, ObserverFailing):
        return f"{error}; --failure-limit sets the limit"
    return str(error)
