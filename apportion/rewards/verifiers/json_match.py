"""`json_match` and `schema_match`: whether a reply is the JSON that was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, get_args

from apportion.rewards import _arguments
from apportion.rewards.answers import Extract
from apportion.rewards.recorded import final_text
from apportion.rewards.schema import check_schema, problems
from apportion.rewards.verifiers.base import Need, TextVerifier, Verifier, no_answer, told
from apportion.rewards.verifiers.json_values import Arrays, NotJson, equal, filled, json_text, parse
from apportion.rollouts import Trajectory
from apportion.verdicts import Scored, Verdict

__all__ = ["JsonMatch", "SchemaMatch", "json_match", "schema_match"]


@dataclass(frozen=True)
class JsonMatch(TextVerifier):
    """See `json_match`."""

    schema: Mapping[str, Any] | None
    arrays: Arrays

    def gold_fault(self, gold: object) -> str | None:
        """A gold text must be JSON, and fit the schema."""
        try:
            value = _value(gold)
        except NotJson as reason:
            return str(reason)
        wrong = list(islice(problems(value, self.schema), 3)) if self.schema is not None else []
        return f"does not fit the schema: {', '.join(wrong)}" if wrong else None

    def compare(self, gold: object, found: str) -> Verdict:
        """Parsed, checked against the schema, defaults filled in on both sides, compared."""
        try:
            given = parse(found)
        except NotJson as reason:
            return Scored(0.0, f"answer_unparsable: {reason} in {_arguments.excerpt(found, 80)}")
        wanted = _value(gold)
        if self.schema is not None:
            wrong = list(islice(problems(given, self.schema), 3))
            if wrong:
                return Scored(0.0, f"schema_violated: {', '.join(wrong)}")
            wanted, given = filled(wanted, self.schema), filled(given, self.schema)
        return told(equal(wanted, given, arrays=self.arrays), given, wanted, _difference(wanted, given, self.arrays))


def json_match(
    schema: Mapping[str, Any] | None = None, *, arrays: Arrays = "ordered", answer: Extract = json_text
) -> JsonMatch:
    """For `outcome`: the reply is JSON with the value of the reference.

        1 when filled(answer) = filled(reference) as JSON values; else 0

    Nothing is repaired: a missing brace, a key that stands twice and NaN are no JSON. 1 equals 1.0, neither equals
    true, and the order of keys is nothing.

    Args:
        schema: a JSON schema that both sides must fit, and whose defaults stand for what is left out.
        arrays: whether the order of arrays matters, at every depth.
        answer: takes the JSON text out of the policy's final text; default: the last fenced block, else all of it.

    Returns:
        A verifier; the reference is a JSON text or a value. It gives 1, or 0 with `wrong_answer`, `schema_violated`,
        `answer_unparsable` or `no_answer_found`; `Failed` with `gold_unparsable` when the reference is no JSON or does
        not fit the schema.

    Raises:
        InvalidArgument: an unknown option, a schema with a keyword that is not checked.

    Example:
        >>> check = json_match({"properties": {"unit": {"default": "C"}}})
        >>> check.verify(gold={"t": 20, "unit": "C"}, answer='{"t": 20.0}').value
        1.0
        >>> check.verify(gold={"t": 20}, answer='{"t": 20, "t": 21}').evidence.split(" in ")[0]
        "answer_unparsable: the key 't' stands twice"
    """
    _arguments.choice("arrays", arrays, get_args(Arrays))
    if schema is not None:
        check_schema(schema, "schema")
    return JsonMatch(answer, schema, arrays)


@dataclass(frozen=True)
class SchemaMatch(Verifier):
    """See `schema_match`."""

    needs: ClassVar[tuple[Need, ...]] = ("text",)
    schema: Mapping[str, Any]
    extract: Extract

    def __call__(self, trajectory: Trajectory) -> Verdict:
        """The verdict on what the policy wrote last."""
        return self.verify(answer=final_text(trajectory))

    def verify(self, *, answer: str) -> Verdict:
        """The verdict on a text."""
        found = self.extract(answer)
        if found is None:
            return no_answer(self.extract)
        try:
            wrong = list(islice(problems(parse(found), self.schema), 5))
        except NotJson as reason:
            return Scored(0.0, f"answer_unparsable: {reason} in {_arguments.excerpt(found, 80)}")
        return Scored(0.0, f"schema_violated: {', '.join(wrong)}") if wrong else Scored(1.0, "fits the schema")


def schema_match(schema: Mapping[str, Any], *, answer: Extract = json_text) -> SchemaMatch:
    """For `outcome`: the reply is JSON that fits a schema; no reference is needed.

        1 when the answer has no problem under the schema; else 0

    Args:
        schema: a JSON schema; a required property that has a default may be left out.
        answer: takes the JSON text out of the policy's final text; default: the last fenced block, else all of it.

    Returns:
        A verifier that gives 1, or 0 with `schema_violated` and the first five problems, `answer_unparsable` or
        `no_answer_found`.

    Raises:
        InvalidArgument: a schema with a keyword that is not checked.

    Example:
        >>> check = schema_match({"type": "object", "required": ["city"]})
        >>> check.verify(answer='{"town": "Oslo"}')
        Scored(value=0.0, evidence='schema_violated: city is missing')
    """
    check_schema(schema, "schema")
    return SchemaMatch(schema, answer)


def _value(gold: object) -> Any:
    return parse(gold) if isinstance(gold, str) else gold


def _difference(gold: Any, given: Any, arrays: Arrays) -> str:
    """Which keys of two objects differ, so that evidence need not show all of both."""
    if not isinstance(gold, Mapping) or not isinstance(given, Mapping):
        return ""
    notes = [f"{key!r} is missing" for key in gold if key not in given]
    notes += [f"{_arguments.brief(repr(key), 40)} is too many" for key in given if key not in gold]
    notes += [f"{key!r} differs" for key in gold if key in given and not equal(gold[key], given[key], arrays=arrays)]
    return ", ".join(notes[:5])
