"""Maths: equal values are right, pieces of an answer never are, and what nobody can know is no verdict."""

from __future__ import annotations

import sys
import threading
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.errors import InvalidArgument, MissingExtra
from apportion.rewards import last_number, marked_answer, maths, outcome
from apportion.rewards.verifiers.maths_same import judged
from apportion.verdicts import Failed, Scored, Verdict
from tests.rewards.builders import said

WORDS = {1: "right", 0: "wrong", "?": "answer_unparsable", "gold": "gold_unparsable"}


def verified(gold: object, reply: str, **options: Any) -> Verdict:
    return maths(**options).verify(gold=gold, answer=reply)


@pytest.mark.parametrize(
    ("gold", "answer", "want"),
    [
        # A piece of an answer is not the answer.
        ("2", "2 2/3", 0),
        ("8/3", "2 2/3", 1),
        ("11/4", "2 3/4", 1),
        ("-11/4", r"-2\frac{3}{4}", 1),
        ("10", "4 10/3", "?"),
        ("22/3", r"4\frac{10}{3}", "?"),
        ("12", "1 2", "?"),
        ("5", "five", "?"),
        ("12", "12 apples", "?"),
        ("3", "x = 3, so there are 5 of them", "?"),
        # What a text does to the library is a property of the text.
        ("12", r"dx=17\%", "?"),
        ("x>2", "n<i", "?"),
        # Several values.
        ("12 and 19", "19", 0),
        ("12 and 19", "$19$ and $12$", 1),
        ("12, 19", "19; 12", 1),
        ("7", "7 or 8", 0),
        ("1, 2, 3", "3,2,1", 1),
        ("1", "1 and 1", 1),
        (r"3 \pm 2", "1, 5", 1),
        (r"\pm 3", "3", 0),
        (["1/2", "x"], r"x, \frac12", 1),
        # Tuples and sets.
        ("(1,2)", "(1, 2)", 1),
        ("(1,2)", "(2,1)", 0),
        ("(1,2)", "1,2", 0),
        ("(1,2)", "(1,2,3)", 0),
        ("[1,2]", "(1,2)", 0),
        (r"\{1,2\}", r"\{2,1\}", 1),
        (r"\{1,2\}", "(1,2)", 0),
        (r"(3, \pi/2)", r"\left(3, \frac{\pi}{2}\right)", 1),
        (r"\langle 1,2\rangle", "(1,2)", 1),
        # Thousands and currency.
        ("1234", "1,234", 1),
        ("$1{,}234$", "$1234$", 1),
        ("18", "$18.00", 1),
        ("(1,234)", "1234", 0),
        ("(1,234)", "(1, 234)", 1),
        ("1,234,567", "1234567", 1),
        ("1000", r"1\,000", 1),
        ("1000", "1 000", "?"),
        ("12,345 and 7", "7, 12345", 1),
        ("$5", "5 dollars", 1),
        ("$5", "€5", 0),
        # Percent.
        (r"$28\%$", "0.28", 1),
        (r"$28\%$", "28", 0),
        (r"$28\%$", "28 percent", 1),
        ("0.28", r"28\%", 1),
        # Units.
        ("5 cm", "5", 1),
        ("5", r"5\text{ cm}", 1),
        ("5 cm", "5 m", 0),
        ("5 metres", "5 m", 1),
        ("50 square meters", r"50\text{ m}^2", 1),
        ("50 square meters", "50 m", 0),
        ("90", r"90^\circ", 1),
        ("3/4 mile", "0.75 miles", 1),
        ("5 m", "5m", 0),
        # Bases.
        ("$101_2$", "$101$", 0),
        ("$5$", "$101_2$", 1),
        ("255", r"\text{FF}_{16}", 1),
        ("x_2", "x_{2}", 1),
        ("x_2", "x_3", 0),
        ("26", "1A_{16}", 1),
        ("5", "102_2", "?"),
        # Intervals and inequalities.
        ("$0<x<9$", "$(0,9)$", 1),
        (r"-2 \le x < 3", "[-2,3)", 1),
        (r"-2 \le x < 3", "(-2,3)", 0),
        ("x > 2", "2 < x", 1),
        ("x > 2", "x ≥ 2", 0),
        ("x > 2", "2", 0),
        (r"$(-\infty,2)\cup(2,\infty)$", r"$(-\infty,\infty)$", 0),
        (r"$(-\infty,2)\cup(2,\infty)$", r"\mathbb{R} \setminus \{2\}", 1),
        (r"x \ne 2", r"(-\infty,2)\cup(2,\infty)", 1),
        ("x<1 or x>2", r"(-\infty,1)\cup(2,\infty)", 1),
        ("[1,2]", r"x \in [1,2]", 1),
        (r"\emptyset", "no solution", 1),
        ("x > 2", r"\{x \mid x > 2\}", 1),
        # Assignments and equations.
        ("x=5", "5", 1),
        ("5", "x = 5", 1),
        ("x=5", "y=5", 0),
        ("y=2x+1", "1+2x", 1),
        ("(x,y)=(1,2)", "(1,2)", 1),
        ("a=1, b=2", "b=2, a=1", 1),
        ("a=1, b=2", "a=2, b=1", 0),
        ("5", "2+3=5", 1),
        ("1", "5=5", 0),
        ("abc", "a b c", 1),
        ("x^2+y^2=1", "y^2+x^2=1", 1),
        ("x^2+y^2=1", "x^2+y^2=2", 0),
        # Expressions.
        (r"\frac{\sqrt{2}}{2}", "sqrt(2)/2", 1),
        (r"\frac{1}{\sqrt2}", r"\dfrac{\sqrt{2}}{2}", 1),
        ("(x+1)^2", "x^2+2x+1", 1),
        ("x^2", "2x", 0),
        ("2**10", "1024", 1),
        ("10^10", "10000000000", 1),
        ("10^{-10}", "0", 0),
        (r"\log_2 8", "3", 1),
        (r"\sqrt{-4}", "2i", 1),
        (r"\infty", r"\infty", 1),
        (r"\infty", "0/0", 0),
        ("2", "0/0", 0),
        ("A", "B", 0),
        (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}", 1),
        (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix}2\\1\end{pmatrix}", 0),
        # Decimal fractions are exact, except where no decimal fraction is.
        ("1/2", "0.5", 1),
        ("1/2", "0.5000001", 0),
        ("1/3", "0.333333", 1),
        ("1/3", "0.333", 0),
        (r"\pi", "3.141593", 1),
        (r"\pi", "3.14", 0),
        # Faults of the data.
        ("The tower is five times as tall.", "5", "gold"),
        ("12:30", "12:30", "gold"),
        (r"\frac{3}{4}\text{ of the total}", "3/4", "gold"),
        ("4 10/3", "4 10/3", "gold"),
    ],
)
def test_equal_or_not(gold: str, answer: str, want: object) -> None:
    assert judged(gold=gold, answer=answer)["status"] == WORDS[want]  # type: ignore[index]


def test_an_interval_answers_an_inequality_and_not_the_other_way_round_unless_accepted() -> None:
    for gold, answer, refused, accepted in [("$(0,9)$", "$0<x<9$", 0, 1), ("$0<x<9$", "$(0,9)$", 1, 1)]:
        assert judged(gold=gold, answer=answer)["status"] == WORDS[refused]
        assert judged(gold=gold, answer=answer, inequalities="accept")["status"] == WORDS[accepted]
    # The sides cannot be swapped by mistake: they have no positions.
    with pytest.raises(TypeError):
        maths().verify("$(0,9)$", "$0<x<9$")  # type: ignore[misc]


def test_a_bare_percentage_counts_only_where_it_is_declared() -> None:
    values = [verified(r"$28\%$", "28", percent=percent) for percent in ("strict", "bare")]
    assert [verdict.value for verdict in values if isinstance(verdict, Scored)] == [0.0, 1.0]
    assert verified(r"$28\%$", "2800", percent="bare") == Scored(0.0, r"wrong_answer: '2800', not '$28\\%$'")


@pytest.mark.parametrize(
    ("gold", "reply", "value"),
    [
        ("61", r"So \boxed{61}. Check again." + "\n**Final Answer**\n" + r"\boxed{61}", 1.0),
        ("7", r"\boxed{3} no wait, \boxed{7}", 1.0),
        ("3", r"\boxed{3} or \boxed{7}", 0.0),
        ("3", r"\boxed{3} and \boxed{7}", 0.0),
        ([3, 7], r"\boxed{7} and \boxed{3}", 1.0),
        ("13", "Answer: $13$", 1.0),
        ("73", "We get 234 pairs. Thus **73**.", 1.0),
        ("17", "#### 17\n" + "done. " * 80, 1.0),
        (4, r"<think>It is \boxed{4}.</think> I give up.", 0.0),
        (4, r"<think>It is \boxed{4}.", 0.0),
        (Fraction(1, 3), r"\boxed{\frac{1}{3}}", 1.0),
        ({12, 19}, "12 and 19", 1.0),
    ],
)
def test_whole_replies(gold: object, reply: str, value: float) -> None:
    verdict = verified(gold, reply)
    assert isinstance(verdict, Scored)
    assert verdict.value == value


def test_no_answer_is_told_apart_from_a_wrong_one() -> None:
    reply = "The result is 17."
    assert verified("17", reply, answer=marked_answer) == Scored(0.0, "no_answer_found (marked_answer)")
    assert verified("17", reply, answer=last_number) == Scored(1.0, "right_answer: '17'")
    assert verified("18", reply, answer=last_number) == Scored(0.0, "wrong_answer: '17', not '18'")
    unreadable = verified("17", reply)
    assert isinstance(unreadable, Scored)
    assert unreadable.evidence.startswith("answer_unparsable")


@pytest.mark.parametrize("reply", [r"\boxed{5}", "", "no idea"])
@pytest.mark.parametrize("gold", ["The tower is five times as tall.", "", [], True, {"a": 1}, [True], "1" * 3000])
def test_a_gold_answer_that_cannot_be_used_is_a_fault_of_the_data(gold: object, reply: str) -> None:
    verdict = verified(gold, reply, answer=marked_answer)
    assert isinstance(verdict, Failed)
    assert verdict.error.startswith("gold_unparsable")


def test_a_worker_thread_sees_what_the_main_thread_sees() -> None:
    check = maths()
    seen: list[Verdict] = []
    thread = threading.Thread(target=lambda: seen.append(check.verify(gold=r"$\frac{1}{3}$", answer=r"\boxed{2/6}")))
    thread.start()
    thread.join()
    assert seen == [check.verify(gold=r"$\frac{1}{3}$", answer=r"\boxed{2/6}")] == [Scored(1.0, "right_answer: '2/6'")]


def test_a_tower_runs_out_of_time_between_answers_that_are_judged() -> None:
    tower, seen = r"\boxed{7^{7^{7^{7}}}}", []
    rollouts = [said(text, id=text, reference="2^2") for text in (r"\boxed{4}", tower, r"\boxed{8/2}")]
    check = outcome(maths(timeout=0.5))
    thread = threading.Thread(target=lambda: seen.extend(check.observe(rollouts)))  # type: ignore[arg-type]
    thread.start()
    thread.join(timeout=120)
    late = "timeout: no result within 0.5 s on '7^{7^{7^{7}}}'"
    assert seen == [Scored(1.0, "right_answer: '4'"), Failed(late), Scored(1.0, "right_answer: '8/2'")]
    assert verified("9", tower, timeout=0.5, undecided="zero") == Scored(0.0, late)


def test_very_long_answers_are_wrong_without_being_read() -> None:
    verdict = verified("4", r"\boxed{" + "9^" * 2000 + "9}")
    assert verdict == Scored(0.0, "wrong_answer: longer than 2000 characters")


def test_as_an_outcome() -> None:
    rollouts = [
        said(r"\boxed{0.5}", id="a", reference="1/2"),
        said("<think>", id="b", reference="1/2"),
        said("1", id="c"),
        said("1/2", id="d", reference="half of it"),
    ]
    verdicts = outcome(maths()).observe(rollouts)
    assert verdicts == [
        Scored(1.0, "right_answer: '0.5'"),
        Scored(0.0, "no_answer_found (final_answer)"),
        Failed("no reference answer"),
        Failed("gold_unparsable: words, and no value in 'half of it'"),
    ]


def test_without_the_package_the_set_up_is_at_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "math_verify", None)
    with pytest.raises(MissingExtra, match=r"apportion\[math\]"):
        outcome(maths()).observe([said("1", reference="1")])


@pytest.mark.parametrize(
    "options",
    [{"percent": "maybe"}, {"inequalities": "yes"}, {"decimals": 0}, {"timeout": 0}, {"undecided": "skip"}],
)
def test_options_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match=next(iter(options))):
        maths(**options)


FRACTIONS = st.fractions(min_value=-50, max_value=50, max_denominator=12)


def ways(value: Fraction) -> list[str]:
    sign, top, bottom = "-" if value < 0 else "", abs(value.numerator), value.denominator
    written = [
        f"{sign}{top}/{bottom}",
        rf"{sign}\frac{{{top}}}{{{bottom}}}",
        rf"x = ${sign}\dfrac{{{top}}}{{{bottom}}}$",
    ]
    whole, rest = divmod(top, bottom)
    return [*written, f"{sign}{whole} {rest}/{bottom}"] if whole and rest else written


@settings(max_examples=40, deadline=None)
@given(FRACTIONS, FRACTIONS, st.data())
def test_every_way_of_writing_a_number_is_that_number_and_no_other(one: Fraction, two: Fraction, data: Any) -> None:
    gold, answer = data.draw(st.sampled_from(ways(one))), data.draw(st.sampled_from(ways(two)))
    assert judged(gold=gold, answer=answer)["status"] == WORDS[int(one == two)]
    assert judged(gold=gold, answer=gold)["status"] == "right"


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="0123456789 ,./%$_{}()[]\\xy=<>-+frac", max_size=25))
def test_any_text_is_right_wrong_or_unreadable(text: str) -> None:
    status = judged(gold="2", answer=text)["status"]
    assert status in ("right", "wrong", "answer_unparsable")
