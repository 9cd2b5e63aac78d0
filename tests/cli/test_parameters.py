"""`-p key=value` becomes the type that the recipe's function is annotated with."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest

from apportion.cli._parameters import convert, described, parameters
from apportion.errors import InvalidArgument


def make(
    *,
    penalty: float = 0.25,
    k: int = 4,
    variant: Literal["c1", "c2"] = "c1",
    quick: bool = False,
    top: int | None = None,
    rules: str | None = None,
    names: tuple[str, ...] = (),
    weights: Mapping[str, float] | None = None,
) -> None: ...


@pytest.mark.parametrize(
    ("text", "annotation", "value"),
    [
        ("0.5", float, 0.5),
        ("1e-3", float, 1e-3),
        ("-2", int, -2),
        ("yes", bool, True),
        ("OFF", bool, False),
        ("c2", Literal["c1", "c2"], "c2"),
        ("2", Literal[1, 2], 2),
        ("none", float | None, None),
        ("0.5", float | None, 0.5),
        ("7", int | str, 7),
        ("x7", int | str, "x7"),
        ("a=b", str, "a=b"),
        ("", str, ""),
        ("a, b,", tuple[str, ...], ("a", "b")),
        ("1,2", list[int], [1, 2]),
        ("1,2", Sequence[float], [1.0, 2.0]),
        ('{"a": 1}', Mapping[str, float], {"a": 1}),
        ("rules.py", Path, Path("rules.py")),
        ("[1]", Any, [1]),
        ("word", Any, "word"),
    ],
)
def test_texts_become_values(text: str, annotation: Any, value: object) -> None:
    found = convert(text, annotation, name="x")
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "annotation", "expected"),
    [
        ("much", float, "a number"),
        ("1.5", int, "a whole number"),
        ("maybe", bool, "true or false"),
        ("c9", Literal["c1", "c2"], "c1 | c2"),
        ("x", int | None, "a whole number or none"),
        ("1,x", list[int], "a whole number"),
        ("[1]", Mapping[str, float], "a JSON object"),
    ],
)
def test_other_texts_are_refused_by_name(text: str, annotation: Any, expected: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        convert(text, annotation, name="x")
    assert caught.value.argument == "-p x"
    assert expected in str(caught.value)


def test_all_settings_of_a_recipe() -> None:
    given = ["penalty=1", "k=8", "variant=c2", "quick=true", "top=3", "rules=a=b.py", "names=x,y", 'weights={"x": 2}']
    assert parameters(make, given, recipe="r") == {
        "penalty": 1.0,
        "k": 8,
        "variant": "c2",
        "quick": True,
        "top": 3,
        "rules": "a=b.py",
        "names": ("x", "y"),
        "weights": {"x": 2},
    }


def test_nothing_given_leaves_the_defaults() -> None:
    assert parameters(make, [], recipe="r") == {}


def test_an_unknown_setting_lists_the_ones_there_are() -> None:
    with pytest.raises(InvalidArgument, match=r"'penalti'.*penalty\?.*penalty, k, variant, quick, top, rules"):
        parameters(make, ["penalti=1"], recipe="r")
    with pytest.raises(InvalidArgument, match="none: 'r' has no settings"):
        parameters(lambda: None, ["a=1"], recipe="r")


@pytest.mark.parametrize(("given", "expected"), [(["penalty"], "key=value"), (["k=1", "k=2"], "once")])
def test_a_pair_is_a_pair_and_given_once(given: list[str], expected: str) -> None:
    with pytest.raises(InvalidArgument, match=expected):
        parameters(make, given, recipe="r")


def test_types_in_words() -> None:
    assert described(float | None) == "a number or none"
    assert described(tuple[str, ...]) == "text, separated by commas"
    assert described(Any) == "Any"
