"""Timeout, retry, limits and budget: what they let through, when, and what they count."""

import asyncio
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion import InvalidArgument
from apportion.judges.exchange import Request, Response, Transport, TransportError
from apportion.judges.transport import (
    Allowance,
    Blocking,
    Budget,
    Failure,
    Limits,
    Mock,
    Retry,
    Timeout,
    Wrapper,
    ask_all,
    ask_each,
    connect,
)
from apportion.judges.transport.sizes import tokens_at_most, tokens_expected
from apportion.judges.transport.window import Window
from tests.judges.transport.said import Clock, ask

DOWN = TransportError("unavailable", "starting")


def answered(transport: Transport, *requests: Request, at_once: int = 256) -> list[Response | TransportError]:
    return asyncio.run(ask_all(transport, requests or [ask()], at_once=at_once))


def kinds(outcomes: list[Response | TransportError]) -> list[str]:
    return [one.kind if isinstance(one, TransportError) else one.text for one in outcomes]


def test_a_timeout_of_the_inner_transport_is_not_ours() -> None:
    with pytest.raises(TimeoutError, match="a socket"):
        answered(Timeout(Mock([TimeoutError("a socket")]), seconds=9))


@pytest.mark.parametrize("kind", ["timeout", "rate-limited", "unavailable"])
def test_retry_asks_again(kind: str) -> None:
    retry = Retry(Mock([TransportError(kind, "once"), Failure(kind, "twice"), "7"]), first_wait_s=0)
    assert kinds(answered(retry)) == ["7"]
    assert retry.retries == 2


@pytest.mark.parametrize("kind", ["refused", "budget", "bad-reply"])
def test_retry_leaves_what_comes_again(kind: str) -> None:
    mock = Mock([TransportError(kind, "once"), "7"])
    assert kinds(answered(Retry(mock))) == [kind]
    assert len(mock.asked) == 1


def test_retry_raises_the_last_failure() -> None:
    mock = Mock([Failure("timeout", "first"), Failure("rate-limited", "last")])
    (error,) = answered(Retry(mock, attempts=2, first_wait_s=0))
    assert str(error) == "rate-limited: last"


def test_retry_waits_as_long_as_the_server_asks() -> None:
    clock = Clock()
    mock = Mock([Failure("rate-limited", "busy", retry_after=7.5), "7"])
    answered(Retry(mock, first_wait_s=1, sleep=clock.sleep))
    assert clock.slept == [7.5]


def test_retry_does_not_begin_a_wait_beyond_its_total() -> None:
    mock = Mock([Failure("rate-limited", "busy", retry_after=1e9), "7"])
    assert kinds(answered(Retry(mock, total_s=30))) == ["rate-limited"]
    assert len(mock.asked) == 1


def test_retry_waits_grow_up_to_a_limit_and_differ() -> None:
    clock = Clock()
    answered(Retry(Mock([DOWN] * 9), attempts=9, first_wait_s=1, longest_wait_s=4, sleep=clock.sleep))
    assert all(wait <= most for wait, most in zip(clock.slept, [1, 2, 4, 4, 4, 4, 4, 4], strict=True))
    assert len(set(clock.slept)) == 8


def test_other_errors_pass_through_retry() -> None:
    with pytest.raises(ZeroDivisionError):
        answered(Retry(Mock([ZeroDivisionError()])))


@given(
    st.integers(1, 4),
    st.lists(st.floats(0.1, 3), max_size=30),
    st.lists(st.floats(0, 40), min_size=30, max_size=30),
)
def test_no_window_holds_more_than_the_limit(limit: int, units: list[float], gaps: list[float]) -> None:
    clock = Clock()
    units = [min(one, limit) for one in units]
    began: list[tuple[float, float]] = []

    async def run() -> None:
        window = Window(limit, seconds=60, clock=clock, sleep=clock.sleep)
        for one, gap in zip(units, gaps, strict=False):
            clock.now += gap
            await window.take(one)
            began.append((clock.now, one))

    asyncio.run(run())
    for start, _ in began:
        assert sum(one for at, one in began if start <= at < start + 60) <= limit + 1e-9


def test_window_books_what_was_used() -> None:
    clock = Clock()

    async def run() -> list[float]:
        window = Window(10, seconds=60, clock=clock, sleep=clock.sleep)
        first = await window.take(10)
        window.correct(first, 4)
        await window.take(6)
        at_once = clock.now
        await window.take(1)
        window.correct(first, 99)  # long forgotten
        await window.take(3)
        return [at_once, clock.now]

    assert asyncio.run(run()) == [1000.0, 1060.0]


def test_one_request_above_the_window() -> None:
    with pytest.raises(InvalidArgument, match="units=11"):
        asyncio.run(Window(10).take(11))


def test_limits_concurrency() -> None:
    mock = Mock(lambda request: request.tag, delay_s=0.002)
    limits = Limits(mock, concurrency=3)
    requests = [ask(str(index)) for index in range(20)]
    assert kinds(answered(limits, *requests)) == [str(index) for index in range(20)]
    assert (mock.most_in_flight, limits.most_in_flight, limits.in_flight) == (3, 3, 0)


def test_a_request_above_the_token_rate_is_refused_at_once() -> None:
    mock = Mock(["7"])
    assert kinds(answered(Limits(mock, tokens_per_minute=20))) == ["refused"]
    assert not mock.asked


def test_token_rate_counts_what_the_server_counted() -> None:
    # 28 are expected of each; the server counts 5, or never saw it: all of them fit into one minute of 60.
    script = [Response("7", input_tokens=4, output_tokens=1), Failure("rate-limited", "busy", charged="no")] * 5
    limits = Limits(Mock(script), concurrency=1, tokens_per_minute=60)
    outcomes = asyncio.run(asyncio.wait_for(ask_all(limits, [ask()] * 10), 5))
    assert kinds(outcomes) == ["7", "rate-limited"] * 5


@given(st.text(max_size=40))
def test_at_most_is_above_expected(text: str) -> None:
    request = ask(text=text)
    assert sum(tokens_at_most(request)) >= tokens_expected(request)
    assert tokens_at_most(request)[0] >= len(text.encode("utf-8", "replace"))


# Each request holds at most 6 + 16 tokens of question and 10 of answer.
MOST = 32


def test_budget_refuses_before_it_overspends() -> None:
    mock = Mock(lambda _: Response("7", input_tokens=20, output_tokens=10))
    budget = Budget(mock, Allowance(tokens=100))
    # 0, 30 and 60 leave room for 32 more; 90 do not.
    assert kinds(answered(budget, *[ask()] * 6, at_once=1)) == ["7"] * 3 + ["budget"] * 3
    assert (budget.input_tokens, budget.output_tokens, budget.refused, len(mock.asked)) == (60, 30, 3, 3)


def test_a_call_waits_for_others_before_it_is_refused() -> None:
    mock = Mock(lambda _: Response("7", input_tokens=1, output_tokens=1), delay_s=0.001)
    assert kinds(answered(Budget(mock, Allowance(tokens=2 * MOST)), *[ask()] * 10)) == ["7"] * 10
    assert mock.most_in_flight == 2


@pytest.mark.parametrize(
    ("said", "booked"),
    [
        (Response("7"), (22, 10)),
        (Response("7", input_tokens=5), (5, 10)),
        (Failure("timeout", "late"), (22, 10)),
        (TransportError("bad-reply", "garbage"), (22, 10)),
        (Failure("rate-limited", "busy", charged="no"), (0, 0)),
    ],
)
def test_what_may_have_been_paid_is_booked(said: Response | TransportError, booked: tuple[int, int]) -> None:
    budget = Budget(Mock([said]), Allowance())
    answered(budget)
    assert (budget.input_tokens, budget.output_tokens) == booked


def test_money() -> None:
    allowance = Allowance(money=1.0, input_price=10_000, output_price=50_000)
    budget = Budget(Mock(lambda _: Response("7", input_tokens=10, output_tokens=2)), allowance, output_tokens=3)
    # .15 from before, .2 each; the next could cost .22 + .5 = .72.
    assert kinds(answered(budget, *[ask()] * 3, at_once=1)) == ["7", "budget", "budget"]
    assert budget.money == pytest.approx(0.35)


def test_wall_time_ends_calls_in_flight_too() -> None:
    budget = Budget(Mock(["7", "8"], delay_s=9), Allowance(wall_s=0.02))
    assert kinds(answered(budget, *[ask()] * 2, at_once=1)) == ["budget", "budget"]
    assert budget.refused == 2


@pytest.mark.parametrize("bad", [{"tokens": -1}, {"money": math.nan}, {"money": 1.0}, {"wall_s": True}])
def test_bad_allowances(bad: dict[str, float]) -> None:
    with pytest.raises(InvalidArgument, match=next(iter(bad))):
        Allowance(**bad)


@pytest.mark.parametrize(
    ("wrap", "settings"),
    [
        (Timeout, {"seconds": 0}),
        (Retry, {"attempts": 0}),
        (Retry, {"total_s": -1}),
        (Retry, {"kinds": ["never"]}),
        (Limits, {"concurrency": 1.5}),
        (Limits, {"requests_per_minute": 0}),
        (Limits, {"tokens_per_minute": math.nan}),
        (connect, {"give_up_after": 0}),
    ],
)
def test_bad_settings(wrap: type[Wrapper], settings: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument, match=next(iter(settings)).removeprefix("give_up_")):
        wrap(Mock(["7"]), **settings)


def test_what_is_no_transport_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="inner"):
        Retry(lambda request: "7")


def test_failures_survive_pickling() -> None:
    import pickle

    error = pickle.loads(pickle.dumps(Failure("timeout", "late", retry_after=2.0, charged="no")))
    assert (error.kind, error.detail, error.retry_after, error.charged) == ("timeout", "late", 2.0, "no")


def test_an_error_of_the_caller_ends_all_and_leaves_no_task() -> None:
    ended: list[int] = []

    async def run() -> None:
        with pytest.raises(ZeroDivisionError):
            await ask_each(
                Mock(lambda request: ZeroDivisionError() if request.tag == "3" else "7", delay_s=0.001),
                (ask(str(index)) for index in range(50)),
                lambda index, _: ended.append(index),
                at_once=2,
            )
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())
    assert len(ended) < 5


def test_blocking_works_inside_a_running_loop() -> None:
    async def notebook() -> list[str]:
        with Blocking(Mock(["7", DOWN])) as judge:
            return kinds(judge.ask_all([ask("0"), ask("1")]))

    assert asyncio.run(notebook()) == ["7", "unavailable"]


def test_blocking_raises_and_closes_twice() -> None:
    judge = Blocking(Mock([DOWN]))
    with pytest.raises(TransportError, match="starting"):
        judge.ask(ask())
    judge.close()
    judge.close()
