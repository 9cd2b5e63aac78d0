"""What an error means for the shell: its exit code, and one clear message."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
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

__all__ = ["BadRollouts", "Code", "about_the_rollouts", "described", "exit_code"]


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
