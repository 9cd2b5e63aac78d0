"""`maths`: whether an answer is mathematically equal to the gold answer."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, TypeAlias, get_args

from apportion._extras import require
from apportion.rewards import _arguments
from apportion.rewards.answers import Extract, parse_number
from apportion.rewards.verifiers.answer import final_answer
from apportion.rewards.verifiers.base import TextVerifier, told
from apportion.rewards.verifiers.maths_same import Inequalities, Percent
from apportion.rewards.verifiers.pool import WorkerError, WorkerTimeout, shared_workers
from apportion.rollouts import Trajectory
from apportion.verdicts import Failed, Scored, Verdict

__all__ = ["Maths", "maths"]

Undecided: TypeAlias = Literal["fail", "zero"]

_LONGEST = 2_000


@dataclass(frozen=True)
class Maths(TextVerifier):
    """See `maths`."""

    percent: Percent
    inequalities: Inequalities
    decimals: int
    timeout: float
    undecided: Undecided

    def require(self, trajectories: Sequence[Trajectory]) -> None:
        """Raises `MissingExtra` without math-verify, `MissingInput` without text or references."""
        super().require(trajectories)
        _installed()

    def gold_fault(self, gold: object) -> str | None:
        """Golds are texts, numbers, or several of these."""
        values = _values(gold)
        if not values or not all(value.strip() for value in values):
            return f"{_arguments.excerpt(gold, 80)} is no text, number or list of these"
        too_long = any(len(value) > _LONGEST for value in values)
        # A worker reads the gold answer again in `compare`; without an answer nothing else would.
        return f"longer than {_LONGEST} characters" if too_long else None

    def verify(self, *, gold: object, answer: str) -> Verdict:
        """See `TextVerifier.verify`; a gold answer that cannot be read is `Failed` also where there is no answer."""
        verdict = super().verify(gold=gold, answer=answer)
        if isinstance(verdict, Scored) and verdict.evidence.startswith("no_answer_found"):
            fault = self.compare(gold, "0")
            return fault if isinstance(fault, Failed) else verdict
        return verdict

    def compare(self, gold: object, found: str) -> Verdict:
        """Plain numbers are compared here, everything else in a worker."""
        _installed()
        values = _values(gold)
        if len(found) > _LONGEST:
            return Scored(0.0, f"wrong_answer: longer than {_LONGEST} characters")
        if len(values) == 1 and _plain(values[0]) and _plain(found):
            return told(parse_number(found) == parse_number(values[0]), found, values[0])
        request = {
            "gold": values[0] if len(values) == 1 else values,
            "answer": found,
            "percent": self.percent,
            "inequalities": self.inequalities,
            "decimals": self.decimals,
        }
        try:
            result = shared_workers().ask(request, timeout=self.timeout)
        except WorkerTimeout:
            return self._unknown(f"timeout: no result within {self.timeout:g} s", found)
        except WorkerError as error:
            return self._unknown(f"verifier_error: {error}", found)
        status, note = result["status"], result["note"]
        if status == "gold_unparsable":
            return Failed(f"gold_unparsable: {note} in {_arguments.excerpt(gold, 80)}")
        if status == "answer_unparsable":
            return Scored(0.0, f"answer_unparsable: {note} in {_arguments.excerpt(found, 80)}")
        if status == "error":
            return self._unknown(f"verifier_error: {note}", found)
        return told(status == "right", found, values[0] if len(values) == 1 else values)

    def _unknown(self, reason: str, found: str) -> Verdict:
        words = f"{reason} on {_arguments.excerpt(found, 80)}"
        return Failed(words) if self.undecided == "fail" else Scored(0.0, words)


def maths(
    *,
    answer: Extract = final_answer,
    percent: Percent = "strict",
    inequalities: Inequalities = "refuse",
    decimals: int = 6,
    timeout: float = 5.0,
    undecided: Undecided = "fail",
) -> Maths:
    r"""For `outcome`: the answer is mathematically equal to the reference (math-verify underneath).

        1 when answer = reference as a value; else 0

    The whole extracted answer is read, never a piece of it: "2 2/3" is 8/3 and not 2, "4 10/3" is nothing. Numbers are
    compared exactly. Several values (12 and 19; a list as reference) are equal as sets, (1, 2) in order, intervals and
    their unions as sets of reals, numerals with a base (101_2) as numbers. Commas between groups of three digits
    separate thousands, unless brackets stand around them. A unit or currency may be left out; another one is wrong.
    Words are no value: `text_equal` compares those.

    The work is done in worker processes that are killed when time runs out, so the limit also holds in threads. At
    most four of them run; waiting for one takes nothing from the limit.

    Args:
        answer: takes the answer out of the policy's final text. The default leaves thinking out and reads the last box,
            else an "Answer:" line, else the last bold text, else the last line; `marked_answer` insists on a mark.
        percent: for a reference in percent: "strict" takes 28 % for 0.28 only; "bare" also accepts 28.
        inequalities: for a reference that is an interval: "refuse" or "accept" an inequality such as 0 < x < 9, which
            may only repeat the question. An interval always answers an inequality.
        decimals: a decimal fraction equals a value that has no finite one (1/3, sqrt 2) when it is at most half a unit
            of this decimal place away.
        timeout: seconds for one comparison.
        undecided: what a comparison is that ran out of time or broke: "fail" (nobody knows) or "zero". Choose "zero"
            where a policy might learn to write what cannot be compared.

    Returns:
        A verifier that gives 1, or 0 with `wrong_answer`, `answer_unparsable` or `no_answer_found`; `Failed` with
        `gold_unparsable` (a fault of the data), `timeout` or `verifier_error`.

    Raises:
        InvalidArgument: an unknown option, a limit that is no positive number.
        MissingExtra: when it is used, math-verify is not installed.

    Example:
        >>> check = maths()
        >>> check.verify(gold="8/3", answer=r"So \boxed{2 2/3}.")
        Scored(value=1.0, evidence="right_answer: '2 2/3'")
        >>> check.verify(gold=2, answer=r"I thought of 2 \boxed{2 2/3}").value
        0.0
    """
    _arguments.choice("percent", percent, get_args(Percent))
    _arguments.choice("inequalities", inequalities, get_args(Inequalities))
    _arguments.choice("undecided", undecided, get_args(Undecided))
    _arguments.whole("decimals", decimals, at_least=1)
    _arguments.number("timeout", timeout, at_least=0.01)
    return Maths(answer, percent, inequalities, decimals, float(timeout), undecided)


def _installed() -> None:
    if importlib.util.find_spec("math_verify") is None:
        require("math_verify", extra="math")


def _values(gold: object) -> list[str]:
    if isinstance(gold, bool) or gold is None:
        return []
    if isinstance(gold, (str, int, float, Fraction)):
        return [str(gold)]
    if isinstance(gold, Iterable) and not isinstance(gold, (bytes, dict)):
        items = list(gold)
        known = all(isinstance(item, (str, int, float, Fraction)) and not isinstance(item, bool) for item in items)
        return [str(item) for item in items] if known else []
    return []


def _plain(text: str) -> bool:
    """A number without any mark that needs a rule."""
    return not set(text) & set("%$€£_ \\") and parse_number(text) is not None
