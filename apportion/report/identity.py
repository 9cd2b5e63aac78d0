"""Checks of who is who: ids used twice, rollouts written twice, prompts merged under one group id."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from apportion.report.findings import Finding, Severity
from apportion.report.table import Bools, Ints, Table

__all__ = ["identity_findings"]

_LONG = {"policy tokens": 256, "characters": 1024}


def identity_findings(table: Table) -> Iterator[Finding]:
    """Duplicated ids and rollouts, merged groups, group ids that return at other steps."""
    yield from _duplicated_ids(table)
    yield from _duplicated_content(table)
    yield from _merged(table)
    yield from _several_steps(table)


def _duplicated_ids(table: Table) -> Iterator[Finding]:
    if len(set(table.ids)) == len(table.ids):
        return
    _, index, counts = np.unique(np.array(table.ids, dtype=object), return_inverse=True, return_counts=True)
    again = int((counts - 1).sum())
    names = dict.fromkeys(table.ids[row] for row in np.flatnonzero(counts[index] > 1).tolist())
    yield Finding(
        code="duplicated-ids",
        severity="error",
        message=f"rollouts with an id that an earlier one has: {again}",
        count=again,
        examples=tuple(names)[:5],
        advice="give every rollout its own id, for example run/step/prompt/attempt",
    )


def _duplicated_content(table: Table) -> Iterator[Finding]:
    _, first, index, counts = np.unique(table.content, return_index=True, return_inverse=True, return_counts=True)
    copied = (counts[index] > 1) & (table.turns > 0)
    if not copied.any():
        return
    copies = copied.copy()
    copies[first] = False
    # A short answer is often sampled twice; a long rollout hardly ever.
    long = copies & (table.length >= _LONG[table.unit])
    cases: tuple[tuple[Bools, Severity, str], ...] = ((long, "warning", "long"), (copies & ~long, "info", "short"))
    for which, severity, kind in cases:
        if which.any():
            yield Finding(
                code=f"duplicated-rollouts-{kind}",
                severity=severity,
                message=f"{kind} rollouts identical to an earlier one with another id: {int(which.sum())}",
                count=int(which.sum()),
                examples=table.examples(which),
                advice="written twice, or a sampler that repeats its seed"
                if kind == "long"
                else "normal for short answers; it lowers the number of different attempts in a group",
            )
    yield from _disagreeing(table, copied, index)


def _disagreeing(table: Table, copied: Bools, index: Ints) -> Iterator[Finding]:
    rows = copied & table.known
    low, high = np.full(index.max() + 1, np.inf), np.full(index.max() + 1, -np.inf)
    np.minimum.at(low, index[rows], table.reward[rows])
    np.maximum.at(high, index[rows], table.reward[rows])
    split = rows & (high - low > 1e-9)[index]
    if split.any():
        yield Finding(
            code="same-rollout-different-reward",
            severity="warning",
            message=f"identical rollouts with different rewards: {int(split.sum())}",
            count=int(split.sum()),
            examples=table.examples(split),
            advice="the verifier is not deterministic, or a reward landed on the wrong rollout; verify them again",
        )


def _merged(table: Table) -> Iterator[Finding]:
    references = _several(table, table.reference)
    if references.any():
        yield Finding(
            code="merged-groups",
            severity="error",
            message=f"groups with several reference answers: {int(references.sum())}",
            count=int(references.sum()),
            examples=table.group_names(references),
            advice="different prompts share a group id, so their baseline is wrong: number the groups by prompt",
        )
    prompts = _several(table, table.prompt) & ~references
    # An opening written by a simulated user differs between attempts at one task; its reference does not.
    vouched = np.bincount(table.group, table.reference == 0, len(table.groups)) == 0
    unvouched: Severity = "error" if table.token_exact.all() else "warning"
    merged = "merged groups, unless a simulated user opens the conversation: number them by prompt"
    cases: tuple[tuple[Bools, Severity, str, str], ...] = (
        (prompts & ~vouched, unvouched, "", merged),
        (prompts & vouched, "info", " but one reference", "normal where a simulated user opens the conversation"),
    )
    for which, severity, but, advice in cases:
        if which.any():
            yield Finding(
                code="different-prompts",
                severity=severity,
                message=f"groups with several prompts{but}: {int(which.sum())}",
                count=int(which.sum()),
                examples=table.group_names(which),
                advice=advice,
            )


def _several(table: Table, digest: Ints) -> Bools:
    """Which groups hold more than one different digest."""
    has = digest != 0
    first = np.zeros(len(table.groups), np.int64)
    first[table.group[has]] = digest[has]
    differs = np.zeros(first.size, np.bool_)
    differs[table.group[has & (digest != first[table.group])]] = True
    return differs


def _several_steps(table: Table) -> Iterator[Finding]:
    seen: dict[str, int] = {}
    for _, name in table.groups:
        seen[name] = seen.get(name, 0) + 1
    again = [name for name, n in seen.items() if n > 1]
    if again:
        yield Finding(
            code="group-in-several-steps",
            severity="info",
            message=f"group ids at several steps, each a group of its own: {len(again)}",
            count=len(again),
            examples=tuple(again[:5]),
            advice="right when a prompt returns in a later epoch; wrong when one group's rollouts straddle a step",
        )
