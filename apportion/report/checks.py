"""The findings of an audit: one small function per question, each from the table of facts to a few `Finding`s.

Severity: "error" when training on the rollouts as they are learns something wrong, "warning" when it probably does or
wastes most of them, "info" when a person should know.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import numpy as np

from apportion.report.findings import SEVERITIES, Finding
from apportion.report.groups import CONSTANT_TOL, Groups, constant, within_group_correlation
from apportion.report.identity import identity_findings
from apportion.report.reasons import most_common
from apportion.report.steps import failed_steps
from apportion.report.table import STATUSES, Bools, Table

__all__ = ["findings"]

# A constant over fewer samples than this is no evidence of a broken verifier.
_ALARM_SAMPLES, _ALARM_GROUPS = 32, 4
_ABORTED_LIMIT = 0.2
# One reply to half of all prompts is worth a look; short answers do repeat.
_COLLAPSED, _COLLAPSED_BADLY = 0.5, 0.95


def findings(table: Table, groups: Groups, *, pass_mark: float | None) -> tuple[Finding, ...]:
    """Every check, the most severe findings first."""
    found = chain(
        _no_rollouts(table),
        _missing(table, groups),
        _constant_reward(table, groups, pass_mark),
        _components(table, groups),
        _pass_mark(table, pass_mark),
        _aborted(table),
        _truncated(table, pass_mark),
        failed_steps(table, pass_mark=pass_mark),
        identity_findings(table),
        _empty(table),
        _collapsed(table, pass_mark),
        _dead(groups),
        _length(table),
    )
    return tuple(sorted(found, key=lambda finding: SEVERITIES.index(finding.severity)))


def _no_rollouts(table: Table) -> Iterator[Finding]:
    if not len(table):
        yield Finding(
            code="no-rollouts",
            severity="error",
            message="there are no rollouts",
            count=0,
            advice="check the path and the filter that wrote the file",
        )


def _missing(table: Table, groups: Groups) -> Iterator[Finding]:
    missing = ~table.known & (table.status != STATUSES.index("aborted"))
    count = int(missing.sum())
    if not count:
        return
    reasons = most_common(table.why_missing)
    if not table.known.any():
        numeric = [name for name in table.columns if name != table.reward_field][:12]
        yield Finding(
            code="no-rewards",
            severity="error",
            message=f"no rollout has a reward: {reasons}",
            count=count,
            examples=table.examples(missing),
            advice=f"name the column with --reward-field; the rollouts have: {', '.join(numeric) or 'no columns'}",
        )
        return
    yield Finding(
        code="missing-verdicts",
        severity="warning",
        message=f"rollouts without a verdict: {_of(count, len(table))}; {reasons}",
        count=count,
        examples=table.examples(missing),
        advice="they leave their group before the baseline, never as 0; find out why the verifier gave none",
    )
    thinned = (groups.known < 2) & (groups.size > 1)
    if thinned.any():
        yield Finding(
            code="effective-n",
            severity="warning",
            message=f"larger groups with fewer than 2 known rewards: {_of(int(thinned.sum()), thinned.size)}",
            count=int(thinned.sum()),
            examples=table.group_names(thinned),
            advice="they get no credit; observe their missing rollouts again",
        )


def _constant_reward(table: Table, groups: Groups, pass_mark: float | None) -> Iterator[Finding]:
    rewards, several = table.reward[table.known], int((groups.known > 0).sum())
    if rewards.size and several > 1 and constant(rewards):
        # Below 1 a constant is more likely a judge's placeholder than a solved set of prompts.
        if pass_mark is not None and rewards.min() >= max(pass_mark, 1.0 - CONSTANT_TOL):
            yield Finding(
                code="all-solved",
                severity="warning",
                message=f"every rollout passes: all {rewards.size} of {several} groups have the reward {rewards[0]:g}",
                count=int(rewards.size),
                examples=table.examples(table.known),
                advice="comparing them teaches nothing: take harder prompts, or reward the path as well; "
                "if that surprises you, see whether the verifier fails a known bad solution",
            )
            return
        alarm = rewards.size >= _ALARM_SAMPLES and several >= _ALARM_GROUPS
        yield Finding(
            code="constant-reward",
            severity="error" if alarm else "warning",
            message=f"the reward is {rewards[0]:g} in all {rewards.size} rollouts of {several} groups",
            count=int(rewards.size),
            examples=table.examples(table.known),
            advice="the verifier may be a stub or broken: it must score a known good solution above a known bad one",
        )


def _components(table: Table, groups: Groups) -> Iterator[Finding]:
    for name, (values, known) in table.components.items():
        seen = values[known]
        if not seen.size:
            yield Finding(
                code="component-without-data",
                severity="warning",
                message=f"the reward component {name!r} has no value in any rollout",
                count=len(table),
                advice="remove it, or find out why it is never computed",
            )
        elif seen.size >= _ALARM_SAMPLES and constant(seen):
            yield Finding(
                code="constant-component",
                severity="warning",
                message=f"the reward component {name!r} is {seen[0]:g} in all {seen.size} rollouts that have it",
                count=int(seen.size),
                examples=table.examples(known),
                advice="it teaches nothing; look for a parser that never matches, like a dot that stops at line ends",
            )
    dead = (groups.known > 1) & ~groups.are("mixed")
    alive = dead & _varies(table)
    if alive.any():
        yield Finding(
            code="dead-in-sum-only",
            severity="info",
            message=f"groups with a constant reward whose components differ: {_of(int(alive.sum()), int(dead.sum()))}",
            count=int(alive.sum()),
            examples=table.group_names(alive),
            advice="do not filter them out before an estimator that looks at each component (gdpo)",
        )


def _varies(table: Table) -> Bools:
    """Which groups have a component that is not constant in them."""
    result = np.zeros(len(table.groups), np.bool_)
    for values, known in table.components.values():
        low, high = np.full(result.size, np.inf), np.full(result.size, -np.inf)
        np.minimum.at(low, table.group[known], values[known])
        np.maximum.at(high, table.group[known], values[known])
        result |= high - low > CONSTANT_TOL
    return result


def _pass_mark(table: Table, pass_mark: float | None) -> Iterator[Finding]:
    rewards = table.reward[table.known]
    if pass_mark is not None and rewards.size and rewards.max() < pass_mark:
        yield Finding(
            code="pass-mark-unreached",
            severity="warning",
            message=f"no reward reaches the pass mark {pass_mark:g}; the largest is {rewards.max():g}",
            count=int(rewards.size),
            examples=table.examples(table.known & (table.reward == rewards.max())),
            advice="check that the weights let a fully correct answer reach the mark without the side scores",
        )


def _aborted(table: Table) -> Iterator[Finding]:
    aborted = table.status == STATUSES.index("aborted")
    count = int(aborted.sum())
    if not count:
        return
    share = count / len(table)
    yield Finding(
        code="aborted",
        severity="error" if share >= _ABORTED_LIMIT else "warning",
        message=f"aborted rollouts: {_of(count, len(table))}; {most_common(table.errors)}",
        count=count,
        examples=table.examples(aborted),
        advice="unscorable, not failed: they leave their group; mend the infrastructure before training on more",
    )
    paid = aborted & table.recorded
    if paid.any():
        yield Finding(
            code="aborted-with-reward",
            severity="warning",
            message=f"aborted rollouts that carry a reward, which is ignored here: {int(paid.sum())}",
            count=int(paid.sum()),
            examples=table.examples(paid),
            advice="a trainer that reads the column alone would learn from them; store null instead",
        )


def _truncated(table: Table, pass_mark: float | None) -> Iterator[Finding]:
    truncated = table.status == STATUSES.index("truncated")
    count = int(truncated.sum())
    if not count:
        return
    passed = truncated & table.known & (table.reward >= (np.inf if pass_mark is None else pass_mark))
    failed = truncated & table.known & ~passed
    for code, which, what in (
        ("truncated-as-failure", failed, "failures"),
        ("truncated-as-pass", passed, "passes"),
    ):
        if which.any():
            n = int(which.sum())
            yield Finding(
                code=code,
                severity="warning",
                message=f"truncated rollouts that count as {what}: {n}; cut in all: {_of(count, len(table))}",
                count=n,
                examples=table.examples(which),
                advice="choose what a cut rollout earns: most recipes take -p truncated=keep, zero or exclude",
            )
    rest = truncated & ~table.known
    if rest.any():
        yield Finding(
            code="truncated-without-verdict",
            severity="info",
            message=f"truncated rollouts without a verdict: {int(rest.sum())}",
            count=int(rest.sum()),
            examples=table.examples(rest),
            advice="running out of turns is the policy's doing: a verdict for it keeps the groups whole",
        )


def _empty(table: Table) -> Iterator[Finding]:
    if len(table) and not table.turns.any() and not table.token_exact.any():
        yield Finding(
            code="no-turns",
            severity="info",
            message="no rollout has tokens or a turn: credit is per rollout",
            count=len(table),
            advice="record turns, or token ids with a mask, for credit per turn or token",
        )
        return
    empty = (table.turns == 0) | ((table.length == 0) & (table.unit == "policy tokens"))
    if empty.any():
        yield Finding(
            code="empty-rollouts",
            severity="warning",
            message=f"rollouts without anything that the policy wrote: {_of(int(empty.sum()), len(table))}",
            count=int(empty.sum()),
            examples=table.examples(empty),
            advice="they take places in the batch and carry no credit: drop them before counting and sample others",
        )


def _collapsed(table: Table, pass_mark: float | None) -> Iterator[Finding]:
    """Whether all prompts get one reply, as after a judge was found that any opening pleases."""
    wrote = (table.turns > 0) & (table.reply != 0)
    if int(wrote.sum()) < _ALARM_SAMPLES or len(np.unique(table.group[wrote])) < _ALARM_GROUPS:
        return
    _, index, counts = np.unique(table.reply[wrote], return_inverse=True, return_counts=True)
    most = int(counts.argmax())
    share = float(counts[most] / counts.sum())
    if share < _COLLAPSED:
        return
    same = np.zeros(len(table), np.bool_)
    same[np.flatnonzero(wrote)[index == most]] = True
    paid = table.reward[same & table.known]
    high = bool(paid.size) and pass_mark is not None and float((paid >= pass_mark).mean()) >= _COLLAPSED
    prompts = len(np.unique(table.group[same]))
    told = f"; their mean reward is {paid.mean():g}" if paid.size else ""
    yield Finding(
        code="collapsed-replies",
        severity="error" if high and share >= _COLLAPSED_BADLY else "warning",
        message=f"one and the same reply to {prompts} prompts: {_of(int(counts[most]), int(wrote.sum()))}{told}",
        count=int(counts[most]),
        examples=table.examples(same),
        advice="a policy that found one reply the reward likes; read it, and try canned ones",
    )


def _dead(groups: Groups) -> Iterator[Finding]:
    n = groups.size.size
    dead = n - groups.counts()["mixed"]
    if n > 1 and dead > n / 2:
        yield Finding(
            code="dead-groups",
            severity="warning",
            message=f"groups that teach a group-relative method nothing: {_of(dead, n)}",
            count=dead,
            advice="choose prompts near a pass rate of one half, sample more of each, or credit turns as well",
        )


def _length(table: Table) -> Iterator[Finding]:
    r, n = within_group_correlation(table), int(table.known.sum())
    # Among few rollouts only an order that hardly comes by chance is worth a word.
    if r is not None and n > 3 and abs(r) >= (0.3 if n >= _ALARM_SAMPLES else 0.9):
        longer = "longer" if r > 0 else "shorter"
        yield Finding(
            code="reward-length",
            severity="warning" if abs(r) >= 0.5 else "info",
            message=f"inside groups {longer} rollouts earn more: rank correlation {r:+.2f} with {table.unit}",
            count=n,
            advice=f"expect {longer} rollouts after training; choose the loss aggregation with care",
        )


def _of(part: int, whole: int) -> str:
    return f"{part} of {whole} ({part / max(whole, 1):.1%})"
