"""Log-probabilities: placeholders, impossible ones, and trainer against sampler."""

import numpy as np
import pytest

from apportion.report.tokens import TokenAudit, audit_tokens
from apportion.rollouts import Trajectory
from tests.report.tokens.building import codes


def row(logps: list[float], *, id: str = "r", ids: list[int] | None = None, **fields: object) -> Trajectory:
    return Trajectory(
        id=id,
        group="q",
        prompt_ids=[7, 8],
        response_ids=list(range(10, 10 + len(logps))) if ids is None else ids,
        behaviour_logps=logps,
        **fields,  # type: ignore[arg-type]
    )


def audited(*rows: Trajectory) -> TokenAudit:
    return audit_tokens(rows, end_ids=[2])


def test_an_end_token_written_by_hand_has_probability_one() -> None:
    finding = audited(row([-1.0, -0.5, 0.0], ids=[10, 11, 2])).findings[0]
    assert (finding.code, finding.severity, finding.places[0].index) == ("end-appended", "error", 4)
    masked = row([-1.0, -0.5, 0.0], ids=[10, 11, 2], policy=[1, 1, 0])
    assert codes(audited(row([-1.0, -0.5, -0.25], ids=[10, 11, 2]), masked)) == {}
    owned = row([-1.0, -0.5, 0.0], ids=[10, 11, 2], own=[1, 1, 0])
    assert codes(audited(owned)) == {}


def test_one_certain_end_among_others_is_a_warning_and_among_certain_tokens_nothing() -> None:
    rows = [row([-1.0, -0.5, 0.0 if i == 0 else -0.1], ids=[10, 11, 2], id=str(i)) for i in range(10)]
    (finding,) = audited(*rows).findings
    assert (finding.severity, finding.count) == ("warning", 1)
    certain = [row([-1.0, 0.0, 0.0], ids=[10, 11, 2], id=str(i)) for i in range(10)]
    assert codes(audited(*certain)) == {}
    assert audited(*certain).zero_logps == pytest.approx(2 / 3)


def test_a_reply_that_only_ends_may_be_certain_of_it() -> None:
    assert codes(audited(row([0.0], ids=[2]))) == {}


def test_zeros_throughout_are_placeholders() -> None:
    assert codes(audited(row([0.0] * 8))) == {"logps-zero": 1}
    assert codes(audited(row([0.0] * 7))) == {}
    assert codes(audited(row([0.0] * 8 + [-0.1]))) == {}


@pytest.mark.parametrize("value", [0.5, -1e7, -3.4e38])
def test_what_is_no_log_probability(value: float) -> None:
    finding = audited(row([-1.0, value, -1.0])).findings[0]
    assert (finding.code, finding.severity, finding.places[0].index) == ("logps-impossible", "error", 3)
    ignored = row([-1.0, value, -1.0], own=[1, 0, 1])
    assert codes(audited(ignored)) == {}
    trainer = row([-1.0] * 3, token_columns={"trainer_logps": [-1.0, value, -1.0]})
    result = audited(trainer)
    assert codes(result) == {"logps-impossible": 1}
    assert "trainer" in result.findings[0].places[0].instead
    assert result.gap is not None
    assert result.gap.tokens == 2


def test_the_gap_in_nats_per_token() -> None:
    rows = [
        row([-1.0, -2.0, -3.0], id="a", token_columns={"trainer_logps": [-1.0, -2.25, -5.0]}),
        row([-0.5, -0.5], id="b", columns={"trainer_logps": [-0.25, None]}),
    ]
    result = audited(*rows)
    gap = result.gap
    assert gap is not None
    # sampler - trainer: 0, 0.25, 2, -0.25
    assert (gap.tokens, gap.mean, gap.signed, gap.worst) == (4, 0.625, 0.5, 2.0)
    assert gap.above == {"0.1": 0.75, "0.5": 0.25, "1": 0.25}
    assert [(place.trajectory, place.index) for place in gap.places] == [("a", 4), ("a", 3), ("b", 2), ("a", 2)]
    assert gap.places[0].instead == "sampler -3, trainer -5"
    assert codes(result) == {"trainer-gap": 4}


def test_a_gap_of_half_precision_is_no_finding() -> None:
    rng = np.random.default_rng(0)
    sampler = -rng.exponential(size=500)
    trainer = np.minimum(sampler + rng.normal(scale=0.02, size=500), 0.0)
    result = audited(row(sampler.tolist(), token_columns={"trainer_logps": trainer}))
    assert codes(result) == {}
    assert result.gap is not None
    assert result.gap.mean == pytest.approx(np.abs(sampler - trainer).mean())


def test_the_worst_five_are_kept() -> None:
    rows = [row([-1.0], id=str(i), columns={"trainer_logps": [-1.0 - i / 10]}) for i in range(12)]
    gap = audited(*rows).gap
    assert gap is not None
    assert [place.trajectory for place in gap.places] == ["11", "10", "9", "8", "7"]
    equal = audited(*(row([-1.0], id=str(i), columns={"trainer_logps": [-2.0]}) for i in range(12))).gap
    assert equal is not None
    assert [place.trajectory for place in equal.places] == ["0", "1", "2", "3", "4"]


def test_only_own_tokens_are_compared() -> None:
    given = row([-1.0, -1.0, -1.0], own=[1, 0, 1], token_columns={"trainer_logps": [-1.0, -9.0, float("nan")]})
    gap = audited(given).gap
    assert gap is not None
    assert (gap.tokens, gap.mean) == (1, 0.0)


@pytest.mark.parametrize("given", [[-1.0], "abc", [[1.0, 2.0]], {"a": 1}, -1.0, [10**400, 0]])
def test_trainer_logps_that_do_not_fit_are_a_finding(given: object) -> None:
    result = audited(row([-1.0, -1.0], columns={"trainer_logps": given}))
    assert codes(result) == {"trainer-logps-unusable": 1}
    assert result.gap is None
