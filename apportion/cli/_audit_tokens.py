"""`apportion audit --tokens`: the tokens' part of the page, and what its options mean."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from apportion.cli import _console as c
from apportion.errors import InvalidArgument
from apportion.report.tokens import Gap, TokenAudit

__all__ = ["counts", "template_arguments"]


def template_arguments(pairs: Sequence[str]) -> dict[str, Any]:
    """NAME=VALUE, with VALUE as JSON or else as text.

    Example:
        >>> template_arguments(["enable_thinking=false", "date=today"])
        {'enable_thinking': False, 'date': 'today'}
        >>> template_arguments(["enable_thinking"])
        Traceback (most recent call last):
            ...
        apportion.errors.InvalidArgument: --template-arg='enable_thinking': expected NAME=VALUE
    """
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name.isidentifier():
            raise InvalidArgument("--template-arg", pair, "NAME=VALUE")
        if name in ("tokenize", "add_generation_prompt", "conversation"):
            raise InvalidArgument("--template-arg", pair, "an argument of the template itself")
        try:
            found[name] = json.loads(text)
        except ValueError:
            found[name] = text
    return found


def counts(seen: TokenAudit) -> Any:
    """What was looked at, and how much of it changes."""
    none = f", {c.count(seen.text_only)} of text only" if seen.text_only else ""
    rows: list[list[c.Cell]] = [
        ["rollouts", f"{c.count(seen.rollouts)} with tokens{none}; {c.count(seen.rendered)} rendered again"],
        ["replies", f"{c.count(seen.replies)} with {c.count(seen.policy_tokens)} policy tokens in all"],
        ["text and back", _changed(seen.round_trip_changed, seen.replies, "no tokenizer")],
        ["rendered again", _changed(seen.template_changed, seen.replies, "no tokenizer or no messages")],
        ["end ids", ", ".join(map(str, seen.end_ids)) or "none known: name them with --end-id"],
        ["log-probs", "none" if seen.zero_logps is None else f"{c.share(seen.zero_logps)} exactly 0"],
        ["trainer gap", _gap(seen.gap)],
    ]
    return c.table(["tokens", ""], rows, flexible=(1,))


def _changed(changed: int | None, replies: int, why_not: str) -> str:
    if changed is None:
        return f"not compared: {why_not}"
    return f"{c.count(changed)} of {c.count(replies)} replies change ({c.share(changed / max(replies, 1))})"


def _gap(gap: Gap | None) -> str:
    if gap is None:
        return "no rollout has log-probs of both"
    above = ", ".join(f"{c.share(share)} above {limit}" for limit, share in gap.above.items())
    return (
        f"{c.number(gap.mean, 3)} nats per token ({c.number(gap.signed, 3, signed=True)} signed) over "
        f"{c.count(gap.tokens)}; {above}; worst {c.number(gap.worst, 3)}"
    )
