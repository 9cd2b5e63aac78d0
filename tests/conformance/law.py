"""What a law is, and how a row is held against one."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from random import Random

import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from torch import Tensor

from apportion.signal import Signal
from tests.conformance.row import Row
from tests.conformance.strategies import Case, Values, cases, degenerate, plain

Check = Callable[[Row, Case, Random], None]

# Every row meets every law, so each pair gets a part of the suite's usual effort.
EXAMPLES = max(5, settings.get_profile(settings.get_current_profile_name()).max_examples // 8)
FIRST = 16


@dataclass(frozen=True)
class Law:
    """A law.

    Attributes:
        name: key of a row's deviations and of the table.
        check: raises AssertionError when it breaks.
        values: which rewards it is tried on.
        applies: the rows that it can be asked of.
    """

    name: str
    check: Check
    values: Values
    applies: Callable[[Row], bool]

    @property
    def says(self) -> str:
        """One line."""
        return (self.check.__doc__ or "").strip().splitlines()[0]


LAWS: dict[str, Law] = {}


def law(*, values: Values = "lattice", applies: Callable[[Row], bool] = lambda row: True) -> Callable[[Check], Check]:
    """Register a law under the name of its function."""

    def register(check: Check) -> Check:
        LAWS[check.__name__] = Law(check.__name__, check, values, applies)
        return check

    return register


def verify(row: Row, law: Law) -> None:
    """Hold a row against a law: degenerate cases first, then what Hypothesis finds."""
    deviation = row.deviations.get(law.name)

    def excused(case: Case) -> bool:
        return deviation is not None and (deviation.unless is None or deviation.unless(case))

    for seed, case in enumerate(_fixed(row)):
        if not excused(case):
            law.check(row, case, Random(seed))

    def search(case: Case, seed: int) -> None:
        if not excused(case):
            law.check(row, case, Random(seed))

    # A derandomised run draws by this name: without it every row would see the same batches.
    search.__name__ = re.sub(r"\W+", "_", f"{row.name} {law.name}")
    effort = settings(
        max_examples=EXAMPLES,
        database=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    effort(given(_searched(tuple(row.levels), row.domain, law.values), st.integers(0, 2**16))(search))()


def breaks(row: Row, law: Law, case: Case | None = None) -> str:
    """What a row does where it breaks a law, on a case or on any of the fixed ones; "" when it never does."""
    for shown in [case] if case is not None else [plain(row.levels, domain=row.domain), *_fixed(row)]:
        for seed in range(4):
            try:
                law.check(row, shown, Random(seed))
            except AssertionError as error:
                return str(error)
    return ""


def _fixed(row: Row) -> list[Case]:
    return [*_degenerate(tuple(row.levels), row.domain)[:FIRST], plain(row.levels, domain=row.domain)]


@lru_cache
def _degenerate(levels: tuple[int, ...], domain: str) -> list[Case]:
    return list(degenerate(levels, domain=domain).values())


@lru_cache
def _searched(levels: tuple[int, ...], domain: str, values: str) -> st.SearchStrategy[Case]:
    return st.sampled_from(_degenerate(levels, domain)) | cases(levels, domain=domain, values=values)


def close(actual: Tensor, expected: Tensor, message: str, tolerance: float = 1e-9) -> None:
    """Equal up to rounding."""
    assert actual.shape == expected.shape, f"{message}: shapes {tuple(actual.shape)}, {tuple(expected.shape)}"
    if actual.numel():
        size = max(1.0, float(expected.abs().max()))
        gap = float((actual.to(torch.float64) - expected.to(torch.float64)).abs().max())
        assert gap <= tolerance * size, f"{message}: {actual.tolist()} instead of {expected.tolist()}"


def same(actual: Signal, values: Tensor, known: Tensor, message: str) -> None:
    """Equal values up to rounding, and known in the same places."""
    close(actual.values, values, message)
    assert torch.equal(actual.known, known), f"{message}: known {actual.known.tolist()} instead of {known.tolist()}"
