r"""Maths as people write it, made plain: delimiters, blanks, units, percent, bases, mixed numbers, lists.

Only text goes in and out, nothing is evaluated, and every function is linear in its text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from apportion.rewards.answers import parse_number

__all__ = ["Marked", "Unreadable", "clean", "inside", "is_prose", "number", "split", "unmarked"]


class Unreadable(Exception):
    """A text that stands for no mathematical value, and why."""


_REPLACED = (
    (re.compile(r"\\(?:left|right|displaystyle|textstyle|limits|bigl|bigr|big|Big)(?![A-Za-z])"), ""),
    (re.compile(r"\\[dtc]frac(?![A-Za-z])"), r"\\frac"),
    (re.compile(r"\{,\}|(?<=\d)\\,(?=\d{3}(?!\d))"), ","),
    (re.compile(r"(?<!\\)\\[,;:!> ]|~|\\q?quad(?![A-Za-z])"), " "),
    (re.compile(r"\\(?:leqslant|leq|le)(?![A-Za-z])|≤|<="), r"\\le "),
    (re.compile(r"\\(?:geqslant|geq|ge)(?![A-Za-z])|≥|>="), r"\\ge "),
    (re.compile(r"\\(?:neq|ne)(?![A-Za-z])|≠|!="), r"\\ne "),
    (re.compile(r"\\lt(?![A-Za-z])"), "<"),
    (re.compile(r"\\gt(?![A-Za-z])"), ">"),
    (re.compile(r"∪|\\bigcup(?![A-Za-z])"), r"\\cup "),
    (re.compile(r"∞|(?<![A-Za-z\\])(?:infinity|inf|oo)(?![A-Za-z])"), r"\\infty "),
    (re.compile(r"±"), r"\\pm "),
    (re.compile(r"\\langle(?![A-Za-z])"), "("),
    (re.compile(r"\\rangle(?![A-Za-z])"), ")"),
    (re.compile(r"∈"), r"\\in "),
    (re.compile(r"π|(?<![A-Za-z\\])pi(?![A-Za-z])"), r"\\pi "),
    (re.compile(r"×|·|(?<!\*)\*(?!\*)|\\times(?![A-Za-z])"), r"\\cdot "),
    (re.compile(r"\*\*"), "^"),
    (re.compile(r"(?<![A-Za-z\\])sqrt(?=\s{0,4}\()"), r"\\sqrt"),
    (re.compile(r"√"), r"\\sqrt"),
    (re.compile(r"[−–]"), "-"),
    (re.compile(r"°|\^\s?\{?\s?\\circ\s?\}?"), " degrees"),
    (re.compile(r"\\(?:text|mathrm|textbf|mathbf|textit|operatorname|mbox)\s?\{([^{}]*)\}"), r" \1 "),
    (re.compile(r"\\mathbb\s?\{?\s?R\s?\}?|ℝ|\\R(?![A-Za-z])"), r"\\reals "),
    (re.compile(r"\^\s?(-?\d{2,})"), r"^{\1}"),
)
_DELIMITERS = (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"), ("**", "**"))
_OPEN, _CLOSE = "([{", ")]}"
_BOX = re.compile(r"\\(?:boxed|fbox)\s?\{")


def clean(text: str) -> str:
    r"""One way of writing for what is written in many, without delimiters.

    Example:
        >>> clean(r"$\left( 1{,}234,\; \dfrac{1}{2} \right)$."), clean("2**10 ≤ x")
        ('( 1,234, \\frac{1}{2} )', '2^{10} \\le x')
    """
    plain = text.strip()
    while True:
        before = plain
        plain = plain.rstrip(".").rstrip()
        for start, stop in _DELIMITERS:
            if len(plain) >= len(start + stop) and plain.startswith(start) and plain.endswith(stop):
                inner = plain[len(start) : -len(stop)].strip()
                # "$5 or $7" is two amounts, and not one formula.
                plain = plain if start in inner.replace("\\$", "") else inner
        if box := _BOX.match(plain):
            plain = inside(plain[box.end() - 1 :], "{", "}") or plain
        if plain == before:
            break
    for pattern, replacement in _REPLACED:
        plain = pattern.sub(replacement, plain)
    plain = re.sub(r"(?<!\\)\$(?=[^\d.])|(?<=[^\s])(?<!\\)\$", "", plain)
    plain = re.sub(r"\\sqrt\s{0,4}\(([^()]*)\)", r"\\sqrt{\1}", plain)
    return " ".join(plain.split())


def inside(text: str, opening: str, closing: str) -> str | None:
    """What one pair of brackets around the whole text encloses; `None` when there is no such pair.

    Example:
        >>> inside("(1, (2))", "(", ")"), inside("(1)(2)", "(", ")")
        ('1, (2)', None)
    """
    if not text.startswith(opening) or not text.endswith(closing):
        return None
    depth = 0
    for at, char in enumerate(text):
        depth += (char in _OPEN) - (char in _CLOSE)
        if depth == 0 and at >= len(opening) - 1:
            return text[len(opening) : len(text) - len(closing)].strip() if at == len(text) - 1 else None
    return None


def split(text: str, separator: re.Pattern[str]) -> list[str]:
    """The parts between separators that stand outside all brackets.

    Example:
        >>> split("(1, 2), 3", re.compile(","))
        ['(1, 2)', '3']
    """
    levels, depth = [], 0
    for char in text:
        depth -= char in _CLOSE
        levels.append(depth)
        depth += char in _OPEN
    parts, start = [], 0
    for match in separator.finditer(text):
        if levels[match.start()] == 0:
            parts.append(text[start : match.start()].strip())
            start = match.end()
    return [*parts, text[start:].strip()]


_UNITS = {
    "cm": "cm centimeter centimeters centimetre centimetres",
    "mm": "mm millimeter millimeters millimetre millimetres",
    "km": "km kilometer kilometers kilometre kilometres",
    "m": "m meter meters metre metres",
    "in": "inch inches",
    "ft": "ft foot feet",
    "mi": "mile miles",
    "yd": "yard yards",
    "kg": "kg kilogram kilograms",
    "g": "gram grams",
    "lb": "lb lbs pound pounds",
    "l": "liter liters litre litres",
    "ml": "ml mL milliliter milliliters",
    "s": "sec second seconds",
    "min": "min minute minutes",
    "h": "hour hours hr hrs",
    "day": "day days",
    "week": "week weeks",
    "year": "year years",
    "degree": "degree degrees deg",
    "unit": "unit units",
    "mph": "mph",
    "km/h": "km/h kph",
    "m/s": "m/s",
    "usd": "dollar dollars usd USD",
    "cent": "cent cents",
    "eur": "euro euros EUR",
    "gbp": "GBP",
}
_NAMES = {word: unit for unit, words in _UNITS.items() for word in words.split()}
_POWERS = {"square": "2", "sq": "2", "cubic": "3"}
_CURRENCY = {"$": "usd", "€": "eur", "£": "gbp"}
# A single letter only counts as a unit after a number and a blank: "5 m" is a length, "5m" a product.
_UNIT = re.compile(
    r"(?P<rest>.*[\d)}\]])(?P<gap>\s*)(?:(?P<power>square|sq|cubic)\.? )?"
    r"(?P<name>[A-Za-z/]+)(?:\s?\^\s?\{?(?P<exponent>[23])\}?)?"
)
_PERCENT = re.compile(r"(?P<rest>.*[^\s\\])\s*(?:\\?%|\bper ?cent\b|\bpercentage points?\b)")


@dataclass(frozen=True)
class Marked:
    """A text without its unit, currency and percent sign, and which they were."""

    text: str
    unit: str | None = None
    percent: bool = False


def unmarked(text: str) -> Marked:
    r"""Takes unit, currency and percent sign off a cleaned text.

    Example:
        >>> unmarked("5 square meters"), unmarked("28 percent").percent, unmarked("\\$18.00").unit
        (Marked(text='5', unit='m^2', percent=False), True, 'usd')
    """
    if found := _PERCENT.fullmatch(text):
        return Marked(found["rest"], None, True)
    bare = text.removeprefix("\\")
    if bare[:1] in _CURRENCY and bare[1:].strip():
        return Marked(bare[1:].strip(), _CURRENCY[bare[0]])
    found = _UNIT.fullmatch(text)
    if found and found["name"] in _NAMES and (found["gap"] or len(found["name"]) > 1):
        exponent = found["exponent"] or _POWERS.get(found["power"] or "", "")
        return Marked(found["rest"].strip(), _NAMES[found["name"]] + (f"^{exponent}" if exponent else ""))
    return Marked(text)


_BASE = re.compile(r"([0-9A-Za-z]{1,60})\s?_\{?\s?([0-9]{1,2})\s?\}?")
_MIXED = re.compile(r"(-?)\s?(\d{1,60})\s*\\frac\s?\{\s?(\d{1,60})\s?\}\s?\{\s?(\d{1,60})\s?\}")
_BROKEN_MIXED = re.compile(r"-?\d+\s+\d+(?:\s*/\s*\d+)?|-?\d[\d,]*\d(?:\.\d+)?")


def number(text: str) -> Fraction | None:
    r"""The exact number that a cleaned text stands for, `None` when it is an expression or no number.

    Raises:
        Unreadable: figures that look like a number and are none, such as an improper mixed number, digits that the
            base does not have, or commas in the wrong places.

    Example:
        >>> number("101_2"), number(r"2\frac{2}{3}"), number("x+1")
        (Fraction(5, 1), Fraction(8, 3), None)
    """
    based = _BASE.fullmatch(text)
    if based and (based[1][0].isdigit() or based[1].isupper()):
        figures, base = based[1], int(based[2])
        try:
            return Fraction(int(figures, base))
        except ValueError:
            # A letter with an index (x_2) is a name; a numeral begins with a digit or is written in capitals.
            if figures[0].isdigit():
                raise Unreadable(f"{figures} is no numeral in base {base}") from None
            return None
    if mixed := _MIXED.fullmatch(text):
        whole, top, bottom = int(mixed[2]), int(mixed[3]), int(mixed[4])
        if not 0 < top < bottom:
            raise Unreadable("an improper mixed number")
        value = whole + Fraction(top, bottom)
        return -value if mixed[1] else value
    found = parse_number(text)
    if found is None and _BROKEN_MIXED.fullmatch(text) and not text.lstrip("-").isdigit():
        raise Unreadable("figures that make no number")
    return found


_COMMAND = re.compile(r"\\(?:begin|end)\{[a-z*]+\}|\\[A-Za-z]+")
_FUNCTION = re.compile(
    r"sin|cos|tan|cot|sec|csc|log|exp|sqrt|max|min|gcd|lcm|mod|det|arcsin|arccos|arctan|sinh|cosh|tanh"
)
_WORD = re.compile(r"[^\W\d_]{3,}")


def is_prose(text: str) -> bool:
    r"""True when a cleaned text holds words rather than formulas; abc, in the order of the alphabet, is a product.

    Example:
        >>> is_prose("five times as tall"), is_prose(r"\sin(x) + abc")
        (True, False)
    """
    words = _WORD.findall(_COMMAND.sub(" ", text))
    return any(not _FUNCTION.fullmatch(word) and (len(word) > 3 or list(word) != sorted(word)) for word in words)
