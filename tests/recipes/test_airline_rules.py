"""The example rule file for an airline's agent, on small episodes of our own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from apportion.recipes.files import load_rules
from apportion.rewards import path
from tests.rewards.builders import call
from tests.rewards.test_said import chat

RULES = load_rules(Path(__file__).parents[2] / "examples" / "rules" / "airline.toml")

USER, LOOK = call("get_user_details", user_id="u1"), call("get_reservation_details", reservation_id="R1")
CANCEL = call("cancel_reservation", reservation_id="R1")
BAGS = call("update_reservation_baggages", reservation_id="R1", total_baggages=2)
CERTIFICATE, TRANSFER = call("send_certificate", user_id="u1", amount=50), call("transfer_to_human_agents", summary="x")


def book(*payments: str, passengers: int = 1, **changed: Any) -> Any:
    paid = [{"payment_id": payment, "amount": 10} for payment in payments]
    people = [{"first_name": f"P{at}"} for at in range(passengers)]
    return call("book_reservation", **{"user_id": "u1", "payment_methods": paid, "passengers": people, **changed})


def told(*script: Any) -> list[str]:
    """Every finding as "turn rule", with a minus for a violation and a plus for a fulfilment."""
    signs = {"violation": "-", "fulfilment": "+", "abstention": "?"}
    found = path(RULES).findings(chat(*script, opening="I want to change my trip"))
    return [f"{signs[finding.kind]}{finding.rule} {finding.turn}" for turn in found for finding in turn]


@pytest.mark.parametrize(
    "answer",
    ["yes", "Yes, do it.", "Oui, merci", "I confirm.", "Please proceed", "let's go ahead", "everything looks right"],
)
def test_a_confirmed_write_is_paid(answer: str) -> None:
    script = (LOOK, f"cancel R1, all right?: {answer}", CANCEL)
    assert told(*script) == ["+confirmed 2", "+look_before_change 2"]


@pytest.mark.parametrize(
    "answer", ["how much?", "not yet", "could you proceed to tell me why?", "make sure of it first"]
)
def test_a_write_without_a_yes_is_a_violation(answer: str) -> None:
    assert told(LOOK, f"cancel R1, all right?: {answer}", CANCEL)[0] == "-confirmed 2"


def test_a_yes_does_not_cover_what_the_user_asks_for_later() -> None:
    script = (LOOK, "cancel?: yes", CANCEL, "done, anything else?: two bags more", BAGS)
    assert "-confirmed 4" in told(*script)


def test_a_yes_covers_everything_that_was_listed() -> None:
    assert told(LOOK, "cancel and bags?: yes", CANCEL, BAGS)[::2] == ["+confirmed 2", "+confirmed 3"]


def test_a_tool_that_says_yes_confirms_nothing() -> None:
    script = (call("calculate", expression="yes"), LOOK, CANCEL)
    assert told(*script)[0] == "-confirmed 2"


def test_a_booking_with_other_details_needs_another_yes() -> None:
    first, second = book("card"), book("gift")
    assert [t for t in told(USER, "book?: yes", first, second) if t[0] == "-"] == ["-one_booking_per_confirmation 3"]
    assert [t for t in told(USER, "book?: yes", first, first) if t[0] == "-"] == []
    assert [t for t in told(USER, "book?: yes", first, "with the gift?: yes", second) if t[0] == "-"] == []


def test_a_reservation_is_looked_up_before_it_is_touched() -> None:
    assert "-look_before_change 1" in told("cancel R1?: yes", CANCEL)
    other = call("get_reservation_details", reservation_id="R2")
    assert "-look_before_change 2" in told(other, "cancel R1?: yes", CANCEL)
    assert not any("look_before_change" in t for t in told(USER, "book?: yes", book("card"), BAGS))


def test_the_user_is_looked_up_before_a_booking() -> None:
    assert "+know_the_user 2" in told(USER, "book?: yes", book("card"))
    assert "-know_the_user 1" in told("book?: yes", book("card"))


@pytest.mark.parametrize(
    ("booking", "broken"),
    [
        (book("card", passengers=5), []),
        (book("card", passengers=6), ["-five_passengers 2"]),
        (book("certificate_1", "card"), []),
        (book("certificate_1", "certificate_2"), ["-one_certificate_each 2"]),
        (book("certificate_1", "gift", "certificate_2"), ["-one_certificate_each 2"]),
        (book("gift", "certificate_1", "certificate_2"), ["-one_certificate_each 2"]),
    ],
)
def test_limits_of_one_reservation(booking: Any, broken: list[str]) -> None:
    assert [t for t in told(USER, "book?: yes", booking) if t[0] == "-"] == broken


def test_a_certificate_is_for_those_who_complain() -> None:
    assert told("how are you?: fine", CERTIFICATE) == ["-compensation_on_request 1"]
    assert told("what is wrong?: the delay cost me a day", CERTIFICATE) == ["+compensation_on_request 1"]


def test_nothing_is_written_after_the_user_was_passed_on() -> None:
    assert "-transfer_ends 3" in told(LOOK, "ok?: yes", TRANSFER, CANCEL)
    assert told(TRANSFER, LOOK) == []


def test_credit_runs_out() -> None:
    script = (LOOK, "?: yes", *[BAGS] * 8)
    paid = told(*script)
    assert (paid.count("-confirmed 9"), sum(t.startswith("+confirmed") for t in paid)) == (0, 5)


def test_the_evidence_tells_the_state() -> None:
    found = path(RULES).findings(chat(LOOK, "cancel?: yes", CANCEL, "bags?: how much are they?", BAGS))
    assert found[4][0].words.endswith(
        "a write only if the user's last message confirmed it [closed after turn 3 (user)]"
    )
