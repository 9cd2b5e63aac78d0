"""Every exception apportion raises on purpose.

    ApportionError
     ├── InvalidArgument (ValueError)    a bad argument: names it, shows it, says what would be right
     ├── BadRow (ValueError)             a row of a file that is not a rollout: file, line, field, remedy
     ├── MissingInput (ValueError)       a recipe needs a column, level or signal that the rollouts lack
     ├── MissingExtra (ImportError)      an optional dependency is absent: prints the exact install line
     ├── ObserverFailing (RuntimeError)  a reward fails on more rollouts than its limit allows: shows the first failure
     ├── RecipeRefused (ValueError)      a recipe that would train the wrong thing (e.g. penalties only)
     └── LedgerMismatch (ArithmeticError) named terms do not sum to the value they explain: a bug, never data

What the *policy* did wrong is never an exception: it is a verdict. What the infrastructure did wrong while a
trajectory was observed is `apportion.verdicts.Failed`, which is data too.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from typing import Any

__all__ = [
    "ApportionError",
    "BadRow",
    "InvalidArgument",
    "LedgerMismatch",
    "MissingExtra",
    "MissingInput",
    "ObserverFailing",
    "RecipeRefused",
]

_SHOWN = 160
_NAME = 80


def shorten(value: object, limit: int = _SHOWN) -> str:
    """`repr(value)` cut to `limit` characters, so that a hostile value cannot flood a log."""
    text = repr(value)
    return text if len(text) <= limit else f"{text[: limit - 1]}… ({len(text)} characters)"


class _Shown:
    """What is left of a value that cannot be sent to another process: how it looks."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _portable(value: object) -> object:
    # An error that cannot be pickled reaches the parent process as a PicklingError, its message lost.
    try:
        pickle.dumps(value)
    except Exception:  # noqa: BLE001 - pickling runs the value's own code
        return _Shown(shorten(value))
    return value


class ApportionError(Exception):
    """Base of every exception raised by apportion itself."""


class InvalidArgument(ApportionError, ValueError):
    """An argument that cannot be used.

    Example:
        >>> str(InvalidArgument("ddof", 3, "0 (population) or 1 (sample)"))
        'ddof=3: expected 0 (population) or 1 (sample)'
    """

    def __init__(self, argument: str, value: object, expected: str) -> None:
        self.argument = argument
        self.value = value
        self.expected = expected
        super().__init__(f"{argument}={shorten(value)}: expected {expected}")

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.argument, _portable(self.value), self.expected))


class BadRow(ApportionError, ValueError):
    """A row that is not a rollout. Raised by readers, or collected when they are told to skip."""

    def __init__(self, path: str, line: int, field: str, problem: str, remedy: str) -> None:
        self.path = path
        self.line = line
        self.field = field
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"{path}:{line}: field {field!r}: {problem}; {remedy}")

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.path, self.line, self.field, self.problem, self.remedy))


class MissingInput(ApportionError, ValueError):
    """The rollouts lack something that the recipe or estimator needs; says how to provide it."""

    def __init__(self, needed_by: str, missing: str, how: str, offenders: Iterable[str] = ()) -> None:
        self.needed_by = needed_by
        self.missing = missing
        self.how = how
        self.offenders = tuple(offenders)
        listed = ", ".join(one if len(one) <= _NAME else f"{one[:_NAME]}…" for one in self.offenders[:10])
        more = f" (and {len(self.offenders) - 10} more)" if len(self.offenders) > 10 else ""
        where = f" in {listed}{more}" if self.offenders else ""
        super().__init__(f"{needed_by} needs {missing}, which is absent{where}; {how}")

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.needed_by, self.missing, self.how, self.offenders))


class MissingExtra(ApportionError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        self.package = package
        self.extra = extra
        super().__init__(f"{package} is not installed; run: pip install 'apportion[{extra}]'")

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.package, self.extra))


class ObserverFailing(ApportionError, RuntimeError):
    """A reward fails on so many rollouts that going on would train on what is left over."""

    def __init__(self, reward: str, failed: int, total: int, limit: float, first: str) -> None:
        self.reward = reward
        self.failed = failed
        self.total = total
        self.limit = limit
        self.first = first
        super().__init__(
            f"reward {reward!r} failed on {failed} of {total} ({failed / total:.0%}; the limit is {limit:.0%}); "
            f"first failure: {first}"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.reward, self.failed, self.total, self.limit, self.first))


class RecipeRefused(ApportionError, ValueError):
    """A recipe that is known to train the wrong behaviour unless it is forced by name."""


class LedgerMismatch(ApportionError, ArithmeticError):
    """The named terms of a signal do not sum to its values within the declared tolerance."""
