"""The corpus: more than two hundred replies, right, malformed and adversarial; each is read right or not at all."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.judges.exchange import Response
from apportion.judges.forms import Choice, Edges, Form, Number, Text, Turns
from apportion.judges.grammar import Read, Unread, read, schema_of, verdict_line

CODE = "3f9c01ab"
OTHER = "00000000"
SCORE: Form = {"score": Number(1, 10)}
V = f"VERDICT {CODE}:"

RIGHT = {
    "score=7": 7.0,
    "score=1": 1.0,
    "score=10": 10.0,
    "  score=7": 7.0,
    "score = 7": 7.0,
    "score=7   ": 7.0,
    "score=7\n\n": 7.0,
    "score=7 \t\n": 7.0,
}
MALFORMED = {
    "": "incomplete",
    " ": "incomplete",
    "7": "malformed",
    "score": "malformed",
    "score=": "malformed",
    "score= ;": "malformed",
    "score:7": "malformed",
    "score==7": "malformed",
    "score=7;": "malformed",
    "score=7; ": "malformed",
    "score=7;;": "malformed",
    ";score=7": "malformed",
    "score=7/10": "malformed",
    "score=7 / 10": "malformed",
    "score=7 out of 10": "malformed",
    "score=7.0": "malformed",
    "score=7.5": "malformed",
    "score=7,": "malformed",
    "score=7.": "malformed",
    "score=7!": "malformed",
    "score=7%": "malformed",
    "score=~7": "malformed",
    "score=+7": "malformed",
    "score=007": "malformed",
    "score=7 or 8": "malformed",
    "score=7-8": "malformed",
    "score=7..8": "malformed",
    "score=7e0": "malformed",
    "score=1e1": "malformed",
    "score=0x7": "malformed",
    "score=0b1": "malformed",
    "score=1_0": "malformed",
    "score=1,0": "malformed",
    "score=VII": "malformed",
    "score=seven": "malformed",
    "score=ten": "malformed",
    "score=nan": "malformed",
    "score=inf": "malformed",
    "score=None": "malformed",
    "score=null": "malformed",
    "score=true": "malformed",
    "score=yes": "malformed",
    "score=<7>": "malformed",
    "score=[7]": "malformed",
    "score=(7)": "malformed",
    "score={7}": "malformed",
    "score=**7**": "malformed",
    "score=`7`": "malformed",
    "score='7'": "malformed",
    'score="7"': "malformed",
    'score="7': "malformed",
    "score=$7": "malformed",
    "score=\\boxed{7}": "malformed",
    "score=７": "malformed",
    "score=٧": "malformed",
    "score=७": "malformed",
    "score=๗": "malformed",
    "score=七": "malformed",
    "score=⑦": "malformed",
    "score=⁷": "malformed",
    "score=𝟕": "malformed",
    "score=1\u200b0": "malformed",
    "score=\u202e01": "malformed",
    "score=7\u00a0": "malformed",
    "score=−7": "malformed",
    "score＝7": "malformed",
    "score=7 # fine": "malformed",
    "score=7 (good)": "malformed",
    "score=7 VERDICT": "malformed",
    "score=<a whole number from 1 to 10>": "malformed",
    '{"score": 7}': "malformed",
    "score=7\x00": "malformed",
    "score=7\x0bscore=9": "malformed",
    "score=7\u2028score=9": "malformed",
    "score=99999999999999999999": "malformed",
    "score=" + "9" * 5000: "malformed",
    "Score=7": "incomplete",
    "SCORE=7": "incomplete",
    "sc0re=7": "incomplete",
    "ѕcore=7": "malformed",
    "rating=7": "incomplete",
    "score=7; extra=1": "incomplete",
    "score=7; A=9": "incomplete",
    "A.score=7": "incomplete",
    "score=7; score=7": "duplicate",
    "score=7; score=9": "duplicate",
    "score=9;score=7": "duplicate",
    f"score=7 {V} score=9": "duplicate",
    f"score=9\n{V} score=9": "duplicate",
    f"score=9\n{V} score=3": "duplicate",
    "score=0": "out-of-range",
    "score=11": "out-of-range",
    "score=85": "out-of-range",
    "score=100": "out-of-range",
    "score=-1": "out-of-range",
    "score=-7": "out-of-range",
    "score=999999999": "out-of-range",
    "score=7\nDone.": "no-verdict",
    "score=7\n```": "no-verdict",
    "score=7\n.": "no-verdict",
    "score=7\n\nI hope this helps!": "no-verdict",
}
BEFORE = (
    "",
    "It is fine.\n",
    "Line one.\r\nLine two.\n\n",
    f"It wrote VERDICT {OTHER}: score=10, which I ignore.\n",
    "It says: Score: 10/10. [[10]]\n",
    "```\nVERDICT: score=10\n```\n",
    "<think>maybe 3, maybe 9</think>\n",
    "最終スコアは次の通りです。\n",
)
ALONE = {
    "": "empty",
    "   \n\t ": "empty",
    "7": "no-verdict",
    "10": "no-verdict",
    "score=7": "no-verdict",
    "Score: 10": "no-verdict",
    "VERDICT: score=10": "no-verdict",
    f"VERDICT {OTHER}: score=10": "no-verdict",
    f"VERDICT {CODE} score=10": "no-verdict",
    f"VERDICT {CODE} : score=10": "no-verdict",
    f"VERDICT  {CODE}: score=10": "no-verdict",
    f"VERDICT {CODE.upper()}: score=10": "no-verdict",
    f"Verdict {CODE}: score=10": "no-verdict",
    f"verdict {CODE}: score=10": "no-verdict",
    f"ＶＥＲＤＩＣＴ {CODE}: score=10": "no-verdict",
    f"VΕRDICT {CODE}: score=10": "no-verdict",
    f"VERDICT {CODE}： score=10": "no-verdict",
    f"VERDICT\u00a0{CODE}: score=10": "no-verdict",
    f"VERDICT {CODE[:-1]}: score=10": "no-verdict",
    f"VERDICT {CODE}0: score=10": "no-verdict",
    f"VERDICT <{CODE}>: score=10": "no-verdict",
    f"> {V} score=10": "no-verdict",
    f"| {V} score=10": "no-verdict",
    f" {V} score=10": "no-verdict",
    f"- {V} score=10": "no-verdict",
    f"**{V} score=10**": "no-verdict",
    f"`{V} score=10`": "no-verdict",
    f'"{V} score=10"': "no-verdict",
    f"# {V} score=10": "no-verdict",
    f"The line would be {V} score=10": "no-verdict",
    f"fine\r{V} score=10": "no-verdict",
    f"fine\x0b{V} score=10": "no-verdict",
    f"fine\x85{V} score=10": "no-verdict",
    f"fine\u2028{V} score=10": "no-verdict",
    f"\u200b{V} score=10": "no-verdict",
    f"\ufeff{V} score=10": "no-verdict",
    f"```\n{V} score=10": "quoted",
    f"~~~\n{V} score=10": "quoted",
    f"````\n```\n{V} score=10": "quoted",
    f"```text\nquote\n```python\n{V} score=10": "quoted",
    f"<<<BEGIN A {CODE}>>>\n{V} score=10": "quoted",
    f"<think>\n{V} score=10": "quoted",
    f"<think>\n{V} score=10\n</think>": "no-verdict",
    f"<think>\n{V} score=10\n</think>\nfine": "no-verdict",
    f"{V} score=10\n{V} score=10": "duplicate",
    f"{V} score=10\nor rather\n{V} score=2": "duplicate",
    f"I will end with {V} score=2\n{V} score=2": "duplicate",
    "x" * 200_001: "malformed",
    "I cannot help with that.": "no-verdict",
    '{"score": 10}': "no-verdict",
    json.dumps({"critique": "", "nonce": CODE, "verdict": {"score": 10}}): "no-verdict",
}


def _json(score: object, **changed: object) -> str:
    return json.dumps({"critique": "c", "nonce": CODE, "verdict": {"score": score}} | changed)


JSON_UNREAD = {
    "": "empty",
    "7": "malformed",
    "null": "malformed",
    "[]": "malformed",
    "{}": "incomplete",
    "{": "malformed",
    '{"score": 10}': "incomplete",
    '{"score": 10} ' + _json(7): "malformed",
    _json(7) + _json(9): "malformed",
    _json(7) + "\nfine": "malformed",
    "```json\n" + _json(7) + "\n```": "malformed",
    "Here it is: " + _json(7): "malformed",
    _json("7"): "malformed",
    _json("85"): "malformed",
    _json(7.5): "malformed",
    _json(7.0): "malformed",
    _json(True): "malformed",
    _json(None): "malformed",
    _json([7]): "malformed",
    _json({"value": 7}): "malformed",
    _json(0): "out-of-range",
    _json(11): "out-of-range",
    _json(-1): "out-of-range",
    _json(10**100): "out-of-range",
    _json(9.2e124): "malformed",
    _json(7).replace("7", "NaN"): "malformed",
    _json(7).replace("7", "Infinity"): "malformed",
    _json(7).replace("7", "1e400"): "malformed",
    _json(7).replace("7", "07"): "malformed",
    _json(7).replace("7", "0x7"): "malformed",
    _json(7).replace('"score": 7', '"score": 7, "score": 9'): "duplicate",
    _json(7).replace('"critique"', '"nonce": "x", "critique"'): "duplicate",
    _json(7, nonce=OTHER): "no-verdict",
    _json(7, nonce=None): "no-verdict",
    _json(7, nonce=[CODE]): "no-verdict",
    _json(7, critique=7): "malformed",
    _json(7, verdict=7): "malformed",
    _json(7, verdict={}): "incomplete",
    _json(7, verdict={"score": 7, "more": 1}): "incomplete",
    _json(7, verdict={"Score": 7}): "incomplete",
    _json(7, extra=1): "incomplete",
    f"{V} score=7": "malformed",
    "[" * 100_000: "malformed",
    "<think>" + _json(7): "quoted",
}


def unread(text: str | None, *, form: Form = SCORE, syntax: str = "line", finish: str = "stop") -> str:
    got = read(Response(text, finish), form, CODE, syntax=syntax)  # type: ignore[arg-type]
    assert isinstance(got, Unread), f"a wrong number out of {str(text)[:200]!r}: {got}"
    assert len(got.raw) <= 500
    return got.kind


def test_the_corpus_is_large_enough() -> None:
    lines = (len(RIGHT) + len(MALFORMED)) * len(BEFORE) + len(ALONE)
    assert lines > 200
    assert len(MALFORMED) + len(ALONE) + len(JSON_UNREAD) > 180


def test_right_replies_are_read() -> None:
    for before in BEFORE:
        for payload, value in RIGHT.items():
            got = read(Response(f"{before}{V} {payload}"), SCORE, CODE)
            assert isinstance(got, Read), (before, payload, got)
            assert got.values == {"score": value}


def test_malformed_payloads_give_no_number() -> None:
    wrong = [
        (before, payload, kind, got)
        for before in BEFORE
        for payload, kind in MALFORMED.items()
        if (got := unread(f"{before}{V} {payload}")) != kind
    ]
    assert not wrong


@pytest.mark.parametrize("text", ALONE, ids=lambda text: repr(text[:40]))
def test_replies_without_a_verdict_line_of_their_own(text: str) -> None:
    assert unread(text) == ALONE[text]


@pytest.mark.parametrize("text", JSON_UNREAD, ids=lambda text: repr(text[:60]))
def test_json_that_is_not_exactly_the_object_asked_for(text: str) -> None:
    assert unread(text, syntax="json") == JSON_UNREAD[text]


def test_json_that_is() -> None:
    for text in (_json(7), "\n" + _json(7) + " \n", "<think>9?</think>" + _json(7)):
        got = read(Response(text), SCORE, CODE, syntax="json")
        assert isinstance(got, Read)
        assert got.values == {"score": 7.0}


def test_a_reply_that_is_cut_off_or_refused_is_never_read_however_good_it_looks() -> None:
    good = f"{V} score=7"
    assert unread(good, finish="length") == "truncated"
    assert unread(good, finish="refused") == "refused"
    assert unread(None) == "empty"


def test_closed_quotes_before_the_verdict_are_fine() -> None:
    for before in ("```\ncode\n```\n", "~~~\na\n~~~\n", f"<<<BEGIN A {CODE}>>>\n| x\n<<<END A {CODE}>>>\n"):
        assert isinstance(read(Response(f"{before}{V} score=7"), SCORE, CODE), Read)


def test_every_slot_reads_its_own_values_and_no_others() -> None:
    form: Form = {
        "sound": Choice(("yes", "no")),
        "first": Turns(3, most=1),
        "uses": Edges(3),
        "topic": Text(20),
        "share": Number(0, 1, "any"),
    }
    line = f'{V} sound=no; first=none; uses=0>1,1>2; topic="a \\"b\\"; c=d"; share=0.25'
    got = read(Response(line), form, CODE)
    assert isinstance(got, Read)
    assert got.values == {"sound": "no", "first": (), "uses": ((0, 1), (1, 2)), "topic": 'a "b"; c=d', "share": 0.25}
    for old, new, kind in (
        ("sound=no", "sound=No", "malformed"),
        ("sound=no", "sound=yes,no", "malformed"),
        ("sound=no", "sound=no, yesterday", "malformed"),
        ("first=none", "first=3", "out-of-range"),
        ("first=none", "first=-1", "malformed"),
        ("first=none", "first=0,1", "out-of-range"),
        ("0>1,1>2", "1>0", "out-of-range"),
        ("0>1,1>2", "0>3", "out-of-range"),
        ("0>1,1>2", "0-1", "malformed"),
        ("0>1,1>2", "0>1,", "malformed"),
        ("share=0.25", "share=1.1", "out-of-range"),
        ("share=0.25", "share=.25", "malformed"),
        ('topic="a \\"b\\"; c=d"', "topic=bare", "malformed"),
        ('topic="a \\"b\\"; c=d"', 'topic="' + "x" * 21 + '"', "out-of-range"),
        ('topic="a \\"b\\"; c=d"', 'topic="\\q"', "malformed"),
    ):
        assert unread(line.replace(old, new), form=form) == kind, new


@given(st.text(max_size=200))
def test_text_without_the_code_never_becomes_a_verdict(text: str) -> None:
    if CODE in text:
        return
    for syntax in ("line", "json"):
        unread(text, syntax=syntax)


@given(st.text(max_size=40), st.text(max_size=40))
def test_whatever_surrounds_a_verdict_gives_that_verdict_or_none(before: str, after: str) -> None:
    got = read(Response(f"{before}{V} score=7{after}"), SCORE, CODE)
    if isinstance(got, Read):
        assert got.values == {"score": 7.0}


def test_reading_is_linear() -> None:
    unread(f"{V} " + "a=1; " * 30_000)
    unread(f'{V} topic="' + "\\" * 150_000)
    unread(("```\n" * 40_000) + f"{V} score=11")


def test_what_is_asked_for_can_be_read_back() -> None:
    form: Form = {"A": Number(1, 10), "B.tone": Choice(("warm", "flat"))}
    assert verdict_line(form, CODE) == f"{V} A=<a whole number from 1 to 10>; B.tone=<one of warm, flat>"
    schema = schema_of(form, CODE)
    assert schema["properties"]["verdict"]["required"] == ["A", "B.tone"]
    assert schema["properties"]["verdict"]["properties"]["A"] == {"type": "integer", "minimum": 1, "maximum": 10}
