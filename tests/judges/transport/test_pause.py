"""An endpoint that fails: paused, abstaining, stopped; and a request that breaks its judge on purpose."""

import asyncio
import math
from collections.abc import Callable

import pytest

from apportion.judges.exchange import Request, Response, TransportError
from apportion.judges.transport import EndpointDown, Mock, Pause, ask_all
from tests.judges.transport.said import Clock, ask

DOWN = TransportError("unavailable", "gone")


def paused(clock: Clock, say: Callable[[Request], object], **settings: float) -> tuple[Pause, Mock]:
    mock = Mock(say)
    defaults = {"after": 2, "pause_s": 60, "abstain_s": 120, "probe_s": 10}
    return Pause(mock, **{**defaults, **settings}, clock=clock, sleep=clock.sleep), mock


def outcome(pause: Pause, request: Request | None = None) -> str:
    (one,) = asyncio.run(ask_all(pause, [request or ask()]))
    return one.text if isinstance(one, Response) else str(one)


def test_waits_for_an_endpoint_that_comes_back_and_loses_nothing_while_paused() -> None:
    clock = Clock()
    pause, _ = paused(clock, lambda _: "7" if clock.now >= 1045 else DOWN)
    assert outcome(pause) == "unavailable: gone"  # one failure is no outage
    outcomes = asyncio.run(ask_all(pause, [ask(str(index)) for index in range(20)]))
    assert [one.text for one in outcomes if isinstance(one, Response)] == ["7"] * 20
    assert (pause.outages, pause.down_s, clock.now) == (1, 0.0, 1050.0)


def test_pauses_then_abstains_then_stops() -> None:
    clock = Clock()
    pause, mock = paused(clock, lambda _: DOWN)
    assert outcome(pause) == "unavailable: gone"
    assert outcome(pause) == "unavailable: gone"  # paused for 60 s, tried every 10 s
    assert (clock.now, len(mock.asked)) == (1060.0, 8)
    clock.now = 1061.0
    assert outcome(pause).startswith("unavailable: abstaining: the endpoint fails since 61 s: unavailable: gone")
    assert len(mock.asked) == 8
    for now in range(1070, 1180, 10):
        clock.now = float(now)
        assert outcome(pause) == "unavailable: gone"
    clock.now = 1180.0
    with pytest.raises(EndpointDown, match=r"failed for 180 s .* last failure: unavailable: gone"):
        outcome(pause)


def test_policies() -> None:
    clock = Clock()
    never, mock = paused(clock, lambda _: DOWN, pause_s=0, abstain_s=math.inf)
    for _ in range(9):
        assert "unavailable" in outcome(never)
    assert (len(mock.asked), clock.slept) == (2, [])
    at_once, _ = paused(clock, lambda _: DOWN, pause_s=0, abstain_s=0)
    assert outcome(at_once) == "unavailable: gone"
    with pytest.raises(EndpointDown):
        outcome(at_once)


@pytest.mark.parametrize("kind", ["refused", "budget"])
def test_what_is_not_the_endpoints_fault_changes_nothing(kind: str) -> None:
    pause, _ = paused(Clock(), lambda _: TransportError(kind, "no"))
    assert [outcome(pause) for _ in range(5)] == [f"{kind}: no"] * 5
    assert pause.outages == 0


def test_a_request_that_breaks_its_judge_does_not_hold_up_the_others() -> None:
    clock = Clock()
    pause, mock = paused(clock, lambda request: DOWN if request.tag == "evil" else "7")
    outcomes = asyncio.run(ask_all(pause, [ask("evil"), ask("evil"), *(ask(str(index)) for index in range(9))]))
    assert sum(isinstance(one, Response) for one in outcomes) == 9
    assert pause.outages <= 1
    assert clock.now <= 1070.0
    assert len([one for one in mock.asked if one.tag != "evil"]) == 9


def test_an_old_outage_is_forgotten_between_two_steps() -> None:
    clock = Clock()
    pause, _ = paused(clock, lambda request: DOWN if request.tag == "evil" else "7")
    outcome(pause, ask("evil"))
    outcome(pause, ask("evil"))
    clock.now += 5000.0  # a step of training
    outcomes = asyncio.run(ask_all(pause, [ask(str(index)) for index in range(20)]))
    assert all(isinstance(one, Response) for one in outcomes)


def test_one_probe_at_a_time() -> None:
    clock = Clock()
    mock = Mock(lambda _: DOWN, delay_s=0.001)
    pause = Pause(mock, after=2, pause_s=0, abstain_s=math.inf, probe_s=10, clock=clock, sleep=clock.sleep)
    asyncio.run(ask_all(pause, [ask("0"), ask("1")]))
    clock.now += 10
    asyncio.run(ask_all(pause, [ask(str(index)) for index in range(30)]))
    assert len(mock.asked) == 3
