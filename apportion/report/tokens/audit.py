"""The audit of tokens: every check over every rollout, one pass, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from apportion.errors import InvalidArgument
from apportion.report.findings import SEVERITIES, Finding
from apportion.report.tokens.bos import check_bos
from apportion.report.tokens.boundary import boundaries
from apportion.report.tokens.catalogue import CATALOGUE
from apportion.report.tokens.edges import edges
from apportion.report.tokens.hits import Hit, Tally
from apportion.report.tokens.logps import Gap, LogProbs
from apportion.report.tokens.roles import roles
from apportion.report.tokens.roundtrip import round_trip
from apportion.report.tokens.template import template_drift
from apportion.report.tokens.tokenizer import ChatTokenizer, Scaffold, scaffold
from apportion.report.tokens.view import View
from apportion.rollouts import Trajectory

__all__ = ["TokenAudit", "TokenAuditor", "audit_tokens"]

_CHECKS = (round_trip, template_drift, boundaries, roles, edges)
# Half precision in one of the two engines costs about 0.02 nats per token; these are clearly more than that.
_GAP_MEAN, _GAP_FAR_SHARE = 0.05, 0.001
# Where hardly any other token has a log-prob of exactly 0, an end token that has it was written by hand.
_SELDOM, _MOSTLY = 0.02, 0.9


@dataclass(frozen=True, kw_only=True)
class TokenAudit:
    """What the tokens of a set of rollouts say.

    Attributes:
        rollouts: number of rollouts with tokens.
        text_only: number of rollouts without.
        rendered: rollouts whose messages could be rendered and compared.
        replies: uninterrupted stretches that the policy wrote.
        policy_tokens: tokens in them.
        round_trip_changed: replies that decoding and encoding changes.
        template_changed: replies that rendering changes; `None` where nothing was rendered.
        end_ids: the ids that were taken for ends of a reply.
        zero_logps: share of the sampler's log-probs that are exactly 0; None without any.
        gap: trainer against sampler; None without both.
        findings: the most severe first.
    """

    rollouts: int
    text_only: int
    rendered: int
    replies: int
    policy_tokens: int
    round_trip_changed: int | None
    template_changed: int | None
    end_ids: Sequence[int]
    zero_logps: float | None
    gap: Gap | None
    findings: Sequence[Finding]


class TokenAuditor:
    """Takes rollouts one at a time; `result` gives what was seen.

    Args:
        tokenizer: a `transformers` tokenizer, or None: then only ids, masks and log-probs are looked at.
        end_ids: ids that end a reply, besides the tokenizer's own and the one that the chat template writes.
        template_arguments: what else the chat template takes, such as {"enable_thinking": False}.

    Raises:
        InvalidArgument: arguments for a template without a tokenizer, or ids that are no whole numbers.
    """

    def __init__(
        self,
        *,
        tokenizer: ChatTokenizer | None = None,
        end_ids: Sequence[int] = (),
        template_arguments: Mapping[str, Any] | None = None,
    ) -> None:
        if template_arguments and tokenizer is None:
            raise InvalidArgument("template_arguments", dict(template_arguments), "a tokenizer beside them")
        self._tokenizer = tokenizer
        self._arguments = dict(template_arguments or {})
        ends = [int(one) for one in end_ids]
        self._scaffold = (
            Scaffold(end_ids=frozenset(ends))
            if tokenizer is None
            else scaffold(tokenizer, end_ids=ends, arguments=self._arguments)
        )
        self._vocabulary = None if tokenizer is None else len(tokenizer)
        self._logps = LogProbs()
        self._tallies: dict[str, Tally] = {}
        self._rollouts = self._text_only = self._rendered = self._replies = self._policy_tokens = 0
        self._replies_ended = 0
        self._changed = {"roundtrip": 0, "template": 0}

    def watch(self, trajectories: Iterable[Trajectory]) -> Iterator[Trajectory]:
        """The same rollouts, each looked at as it passes."""
        for trajectory in trajectories:
            self.add(trajectory)
            yield trajectory

    def add(self, trajectory: Trajectory) -> None:
        """Look at one rollout; it is not kept."""
        if not trajectory.has_tokens:
            self._text_only += 1
            return
        view = View(trajectory, tokenizer=self._tokenizer, scaffold=self._scaffold, arguments=self._arguments)
        row = self._rollouts
        self._rollouts += 1
        self._replies += len(view.replies)
        self._policy_tokens += int(view.policy.sum())
        ends = self._scaffold.end_ids
        self._replies_ended += sum(int(view.ids[reply.stop - 1]) in ends for reply in view.replies)
        changed: dict[str, set[int]] = {"roundtrip": set(), "template": set()}
        for hit in self._hits(view):
            self._tallies.setdefault(hit.code, Tally()).add(row, trajectory.id, hit)
            family = hit.code.partition("-")[0]
            if family in changed and hit.turn is not None:
                changed[family].add(hit.turn)
        for family, turns in changed.items():
            self._changed[family] += len(turns)
        self._rendered += isinstance(view.rendering, np.ndarray)

    def _hits(self, view: View) -> Iterator[Hit]:
        unknown = np.flatnonzero((view.ids < 0) | (view.ids >= (self._vocabulary or np.inf)))
        if self._tokenizer is not None and unknown.size:
            # Everything else would be about another tokenizer's ids.
            yield Hit(
                code="unknown-ids", index=int(unknown[0]), recorded=str(view.ids[unknown[0]]), tokens=unknown.size
            )
            return
        yield from chain(_begins(view), *(check(view) for check in _CHECKS), self._logps.check(view))

    def result(self) -> TokenAudit:
        """Everything seen so far."""
        have = self._tokenizer is not None
        return TokenAudit(
            rollouts=self._rollouts,
            text_only=self._text_only,
            rendered=self._rendered,
            replies=self._replies,
            policy_tokens=self._policy_tokens,
            round_trip_changed=self._changed["roundtrip"] if have and self._replies else None,
            template_changed=self._changed["template"] if self._rendered else None,
            end_ids=sorted(self._scaffold.end_ids),
            zero_logps=self._logps.zeros / self._logps.own if self._logps.own else None,
            gap=self._logps.gap(),
            findings=tuple(sorted(self._findings(), key=lambda finding: SEVERITIES.index(finding.severity))),
        )

    def _findings(self) -> Iterator[Finding]:
        if not self._rollouts:
            yield Finding(
                code="no-tokens",
                severity="info",
                message=f"no rollout has token ids ({self._text_only} are text only)",
                count=self._text_only,
                advice="record prompt_ids and response_ids as the sampler returned them",
            )
        for code, entry in CATALOGUE.items():
            tally = self._tallies.get(code)
            if tally is not None and self._holds(code):
                severity = entry.severity
                if code == "end-appended" and tally.replies >= _MOSTLY * self._logps.ends:
                    severity = "error"
                yield Finding(
                    code=code,
                    severity=severity,
                    message=f"{entry.what}: {self._counts(tally)}",
                    count=tally.replies or tally.rollouts,
                    advice=entry.advice,
                    places=tuple(tally.places),
                )
        gap = self._logps.gap()
        if gap is not None and (gap.mean > _GAP_MEAN or gap.above["1"] > _GAP_FAR_SHARE):
            entry = CATALOGUE["trainer-gap"]
            yield Finding(
                code="trainer-gap",
                severity=entry.severity,
                message=f"{entry.what} by {gap.mean:.3g} nats per token on average, by {gap.worst:.3g} at worst",
                count=gap.tokens,
                advice=entry.advice,
                places=tuple(gap.places),
            )

    def _holds(self, code: str) -> bool:
        """Whether a hit that means nothing alone means something in this set of rollouts."""
        if code == "end-appended":
            return self._logps.zeros_elsewhere <= _SELDOM
        if code == "end-not-trained":
            return not self._replies_ended
        return True

    def _counts(self, tally: Tally) -> str:
        parts = [] if not tally.replies else [_of(tally.replies, self._replies, "replies")]
        parts.append(_of(tally.rollouts, self._rollouts, "rollouts"))
        tokens = [f"{tally.tokens} tokens"] if tally.tokens > tally.replies else []
        return ", ".join(parts + tokens)


def audit_tokens(
    trajectories: Iterable[Trajectory],
    *,
    tokenizer: ChatTokenizer | None = None,
    end_ids: Sequence[int] = (),
    template_arguments: Mapping[str, Any] | None = None,
) -> TokenAudit:
    """What `apportion audit --tokens` shows: where the tokens of rollouts are not what a trainer takes them for.

    The recorded ids are compared with a second rendering of the messages and a second encoding of every reply, the
    mask with the messages, the template and the end tokens, the log-probs with each other. Nothing is corrected, and
    nothing of it belongs in a training loop: there, recorded ids are used as they are.

    Args:
        trajectories: read once and not kept. Those without tokens are counted.
        tokenizer: a `transformers` tokenizer, or anything with its `encode`, `decode` and `apply_chat_template`.
            Without one only ids, masks and log-probs are looked at.
        end_ids: ids that end a reply, besides the tokenizer's own and the one that the chat template writes.
        template_arguments: what else the chat template takes, such as {"enable_thinking": False}. A trajectory's column
            "tools" is handed to the template too.

    Returns:
        Counts, the gap between trainer and sampler (from `token_columns["trainer_logps"]`, or a column of that name
        with one number per response token), and findings; docs/token_audit.md explains each of them.

    Raises:
        InvalidArgument: arguments for a template without a tokenizer.

    Example:
        >>> padded = Trajectory(id="r", group="q", prompt_ids=[7], response_ids=[5, 2, 2, 2])
        >>> [finding.code for finding in audit_tokens([padded], end_ids=[2]).findings]
        ['mask-behind-end']
    """
    auditor = TokenAuditor(tokenizer=tokenizer, end_ids=end_ids, template_arguments=template_arguments)
    for trajectory in trajectories:
        auditor.add(trajectory)
    return auditor.result()


def _begins(view: View) -> Iterator[Hit]:
    bos = view.scaffold.bos_id
    if view.tokenizer is None or bos is None or not view.prompt:
        return
    pad = view.tokenizer.pad_token_id
    first = int((view.ids != pad).argmax()) if pad is not None and pad != bos else 0
    state = check_bos(view.ids[first:], bos_id=bos)
    if state != "ok":
        yield Hit(code=f"bos-{state}", index=first, recorded=view.around(first))


def _of(part: int, whole: int, unit: str) -> str:
    return f"{part:,} of {whole:,} {unit} ({part / max(whole, 1):.1%})"
