r"""What an answer stands for. Runs in a worker process: any of it may take for ever.

    12 and 19 -> several values     (1,2) -> a tuple, or an open interval where the other side is a set
    [0,\infty) -> an interval       x<1 or x>2 -> a set of reals, written as an inequality
    1/2, 2x+1 -> one expression

Whole texts are read or refused. No piece of a text ever stands for the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeAlias

from apportion._extras import require
from apportion.errors import ApportionError
from apportion.rewards.answers import parse_number
from apportion.rewards.verifiers.maths_text import Unreadable, clean, inside, is_prose, number, split, unmarked

__all__ = ["Leaf", "Many", "Real", "Row", "Value", "read", "real_members"]


@dataclass(frozen=True)
class Leaf:
    """One number, expression or equation; `name` is what it was assigned to."""

    expression: Any
    exact: Fraction | None = None
    decimal: bool = False
    unit: str | None = None
    percent: bool = False
    name: str | None = None


@dataclass(frozen=True)
class Many:
    """Several values in no order."""

    items: tuple[Value, ...]


@dataclass(frozen=True)
class Row:
    """Values in order between brackets: a tuple, a vector, or the ends of an interval."""

    opening: str
    items: tuple[Value, ...]
    closing: str


@dataclass(frozen=True)
class Real:
    """A set of real numbers, and whether it was written as an inequality."""

    members: Any
    inequality: bool = field(default=False, compare=False)


Value: TypeAlias = Leaf | Many | Row | Real

_MORE = re.compile(r"\s*;\s*|,\s+(?:and\s+|or\s+)?|\s+(?:and|or)\s+|\s*\\(?:lor|vee)(?![a-z])\s*")
_COMMA = re.compile(r",")
_UNION = re.compile(r"\\cup")
_WITHOUT = re.compile(r"\\(?:setminus|backslash)")
_RELATION = re.compile(r"\\le(?![a-z])|\\ge(?![a-z])|\\ne(?![a-z])|<|>")
_OR = re.compile(r",?\s+or\s+|\\(?:lor|vee)|\\cup")
_AND = re.compile(r",?\s+and\s+|\\(?:land|wedge)|,")
_MEMBER = re.compile(r"[A-Za-z]\s*\\in(?![a-z])\s*")
_ASSIGNED = re.compile(
    r"((?:[A-Za-z]|\\[a-z]+)(?:_\{?\w+\}?)?|[a-zA-Z]\s?\([a-zA-Z]\)|\([a-zA-Z](?:,\s?[a-zA-Z])+\))\s*=\s*([^=]+)"
)
_LOG_BASE = re.compile(r"\\log\s?_\s?(?:\d|\{\s?\d+\s?\})")
# Shapes that a grammar of formulas would read as a product of letters and digits.
_NO_FORMULA = re.compile(r"\d\s+\d|_\{?\d+\}?\s*\d|\d\s*_|[,;:]")
_BUILDER = re.compile(r"\\\{\s*([A-Za-z])\s*(?:\\mid(?![a-z])|\||:)\s*(.*[^\s\\])\s*\\\}")
_EMPTY = frozenset({r"\emptyset", r"\varnothing", r"\{\}", "∅", "empty set", "no solution", "no solutions"})


def read(text: str) -> Value:
    """The value that a whole text stands for.

    Raises:
        Unreadable: it stands for none, or it is not clear for which.
    """
    try:
        return _read(clean(text), 0)
    except (Unreadable, ApportionError):
        raise
    except Exception as error:  # noqa: BLE001 - what a text does to the library is a property of the text
        raise Unreadable(f"no value: {type(error).__name__}: {str(error)[:80]}") from None


def _read(text: str, depth: int) -> Value:
    if not text or depth > 8:
        raise Unreadable("nothing there" if not text else "nested too deeply")
    sympy = require("sympy", extra="math")
    if text.lower() in _EMPTY:
        return Real(sympy.S.EmptySet)
    if built := _BUILDER.fullmatch(text):
        return _read(built[2], depth + 1)
    member = _MEMBER.match(text)
    if member or _UNION.search(text) or _WITHOUT.search(text) or "\\reals" in text:
        return _real_set(text[member.end() :] if member else text, depth)
    if _RELATION.search(text):
        return _inequality(text, depth)
    parts = [part for part in split(text, _MORE) if part]
    if len(parts) == 1 and parse_number(unmarked(text).text) is None:
        # Commas without blanks separate values unless they group the digits of one number.
        parts = [part for part in split(text, _COMMA) if part]
    if len(parts) > 1:
        return Many(tuple(_read(part, depth + 1) for part in parts))
    return _bracketed(text, depth)


def _bracketed(text: str, depth: int) -> Value:
    listed = inside(text, "\\{", "\\}") or inside(text, "{", "}")
    if listed is not None:
        return Many(tuple(_read(part, depth + 1) for part in split(listed, _COMMA)))
    if text[0] in "([]" and text[-1] in ")][" and len(text) > 1:
        inner = text[1:-1]
        parts = split(inner, _COMMA) if _closes_at_the_end(text) else []
        if len(parts) > 1:
            return Row(text[0], tuple(_read(part, depth + 1) for part in parts), text[-1])
        if parts and text[0] == "(" and text[-1] == ")" and not is_prose(inner):
            return _read(inner.strip(), depth + 1)
    return _leaf(text, depth)


def _closes_at_the_end(text: str) -> bool:
    depth = 0
    for at, char in enumerate(text[:-1]):
        depth += (char in "([{") - (char in ")]}" and at > 0)
        if at and depth == 0 and text[0] in "([":
            return False
    return True


def _leaf(text: str, depth: int) -> Value:
    sympy = require("sympy", extra="math")
    if "\\pm" in text:
        return Many((_read(text.replace("\\pm", "+"), depth + 1), _read(text.replace("\\pm", "-"), depth + 1)))
    assigned = _ASSIGNED.fullmatch(text)
    if assigned:
        value = _read(assigned[2].strip(), depth + 1)
        name = assigned[1].replace(" ", "")
        return Leaf(**{**vars(value), "name": name}) if isinstance(value, Leaf) else value
    marked = unmarked(text)
    exact = number(marked.text)
    if exact is not None:
        exact = exact / 100 if marked.percent else exact
        expression = sympy.Rational(exact.numerator, exact.denominator)
        return Leaf(expression, exact, "." in marked.text, marked.unit, marked.percent)
    if is_prose(marked.text):
        raise Unreadable("words, and no value")
    expression = _expression(marked.text)
    if marked.percent:
        expression = expression / 100
    exact = Fraction(int(expression.p), int(expression.q)) if getattr(expression, "is_Rational", False) else None
    return Leaf(expression, exact, "." in marked.text, marked.unit, marked.percent)


def _expression(text: str) -> Any:
    parser = require("latex2sympy2_extended.latex2sympy2", extra="math")
    if _NO_FORMULA.search(_LOG_BASE.sub("", text)):
        raise Unreadable("figures that make no number")
    tidy = parser.NormalizationConfig(
        basic_latex=True, units=False, malformed_operators=True, nits=True, boxed="none", equations=False
    )
    rules = parser.ConversionConfig(
        interpret_as_mixed_fractions=False,
        interpret_simple_eq_as_assignment=False,
        interpret_contains_as_eq=False,
        lowercase_symbols=False,
    )
    try:
        found = parser.latex2sympy(text, is_real=True, normalization_config=tidy, conversion_config=rules)
    except Exception as error:  # noqa: BLE001 - the parser raises bare exceptions
        raise Unreadable(f"no formula: {' '.join(str(error).split())[:80]}") from None
    if found is None:
        raise Unreadable("no formula")
    names: list[Any] = list(getattr(found, "free_symbols", ()))
    # Alone, the letter i is the imaginary unit.
    alone = len(names) == 1 and str(names[0]) == "i"
    return found.subs(names[0], require("sympy", extra="math").I) if alone else found


def _inequality(text: str, depth: int) -> Value:
    sympy = require("sympy", extra="math")
    names: set[str] = set()
    members = sympy.S.EmptySet
    for option in split(text, _OR):
        chosen = sympy.S.Reals
        for chain in split(option, _AND):
            chosen = chosen & _chain(chain, names, depth)
        members = members | chosen
    if len(names) != 1:
        return Leaf(_expression(text))
    return Real(members, inequality=True)


def _chain(text: str, names: set[str], depth: int) -> Any:
    sympy = require("sympy", extra="math")
    sides, signs = split(text, _RELATION), _RELATION.findall(text)
    if len(sides) != len(signs) + 1 or not signs:
        raise Unreadable("an inequality that is not complete")
    values = [_read(side, depth + 1) for side in sides]
    variables = [at for at, value in enumerate(values) if isinstance(value, Leaf) and value.expression.is_Symbol]
    constants = [at for at, value in enumerate(values) if isinstance(value, Leaf) and not value.expression.free_symbols]
    if len(variables) != 1 or len(constants) != len(values) - 1:
        # Not solved for its variable: compared as a formula, if at all.
        return sympy.S.Reals
    (at,) = variables
    names.add(str(values[at].expression))  # type: ignore[union-attr]
    members = sympy.S.Reals
    for index, sign in enumerate(signs):
        if index not in (at - 1, at):
            raise Unreadable("an inequality between constants")
        bound = values[index if index < at else index + 1].expression  # type: ignore[union-attr]
        if sign == "\\ne":
            members = members - sympy.FiniteSet(bound)
            continue
        below = (sign in ("<", "\\le")) == (index == at)
        open_end = sign in ("<", ">")
        ray = (-sympy.oo, bound, True, open_end) if below else (bound, sympy.oo, open_end, True)
        members = members & sympy.Interval(*ray)
    return members


def _real_set(text: str, depth: int) -> Value:
    sympy = require("sympy", extra="math")
    kept, *removed = split(text, _WITHOUT)
    members = sympy.S.EmptySet
    for part in split(kept, _UNION):
        members = members | real_members(_read_part(part, depth))
    for part in removed:
        members = members - real_members(_read_part(part, depth))
    return Real(members)


def _read_part(text: str, depth: int) -> Value:
    sympy = require("sympy", extra="math")
    if text.strip() == "\\reals":
        return Real(sympy.S.Reals)
    return _read(text.strip(), depth + 1)


def real_members(value: Value) -> Any:
    """A value as a set of real numbers; a pair is the open interval between its two.

    Raises:
        Unreadable: it is none.
    """
    sympy = require("sympy", extra="math")
    if isinstance(value, Real):
        return value.members
    if isinstance(value, Many):
        return sympy.FiniteSet(*[item.expression for item in value.items if isinstance(item, Leaf)])
    ends = [item.expression for item in value.items if isinstance(item, Leaf)] if isinstance(value, Row) else []
    if not isinstance(value, Row) or len(ends) != 2 or any(end.free_symbols for end in ends):
        raise Unreadable("no set of real numbers")
    return sympy.Interval(ends[0], ends[1], value.opening in ("(", "]"), value.closing in (")", "["))
