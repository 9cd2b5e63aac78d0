"""`written_in` and `text_pattern`: the script that a reply is written in, and expressions it must or must not hold."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal, TypeAlias, get_args

from apportion.errors import InvalidArgument
from apportion.rewards import _arguments
from apportion.rewards.base import Role
from apportion.rewards.patterns import Pattern
from apportion.rewards.recorded import interrupted, require_text, require_turns, texts
from apportion.rewards.running import PerTrajectory
from apportion.rollouts import Level, Trajectory
from apportion.verdicts import Scored, Verdict

__all__ = ["TextPattern", "WrittenIn", "script_of", "text_pattern", "written_in"]

Skip: TypeAlias = Literal["code_and_maths", "nothing"]
Wanted: TypeAlias = Literal["present", "absent"]

SCRIPTS = (
    "Arabic", "Armenian", "Bengali", "Cyrillic", "Devanagari", "Ethiopic", "Georgian", "Greek", "Gujarati", "Gurmukhi",
    "Han", "Hangul", "Hebrew", "Hiragana", "Kannada", "Katakana", "Khmer", "Lao", "Latin", "Malayalam", "Mongolian",
    "Myanmar", "Sinhala", "Tamil", "Telugu", "Thai", "Tibetan",
)  # fmt: skip
_FIRST_WORDS = {name.upper(): name for name in SCRIPTS} | {"CJK": "Han", "IDEOGRAPHIC": "Han"}
# What is written the same way in every language, read in this order; each is linear in the text.
_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_INLINE = re.compile(r"`[^`\n]*`|\$\$[^$]*\$\$|\$[^$\n]*\$|\\[A-Za-z]+|https?://\S+")
_SHOWN = 20


@lru_cache(maxsize=4096)
def script_of(letter: str) -> str | None:
    """The script of a letter, by the first word of its Unicode name; `None` for what is no letter.

    Example:
        >>> [script_of(char) for char in "aЖ漢ñ7"]
        ['Latin', 'Cyrillic', 'Han', 'Latin', None]
    """
    if not unicodedata.category(letter).startswith("L"):
        return None
    # The same letter in full width or in bold is still that letter; a modifier of no script is nobody's.
    folded = unicodedata.normalize("NFKC", letter)[:1]
    first = unicodedata.name(folded, "").partition(" ")[0]
    return _FIRST_WORDS.get(first, first.capitalize() or None)


@dataclass(frozen=True)
class WrittenIn(PerTrajectory):
    """See `written_in`."""

    _role: ClassVar[Role] = "shaping"
    scripts: frozenset[str]
    skip: Skip
    name: str
    level: Level

    def require(self, trajectories: Sequence[Trajectory]) -> None:
        """Raises `MissingInput` when a trajectory has no text."""
        (require_turns if self.level is Level.TURN else require_text)(self.name, trajectories)

    def score(self, trajectory: Trajectory) -> Verdict | list[Verdict]:
        """Each turn, or everything the policy wrote."""
        if self.level is Level.TURN:
            return [self._share(turn.text) for turn in trajectory.turns]
        return interrupted(trajectory) or self._share("\n".join(texts(trajectory)))

    def _share(self, text: str) -> Verdict:
        if self.skip == "code_and_maths":
            text = _INLINE.sub(" ", _CODE.sub(" ", text))
        counts: Counter[str] = Counter()
        for char, count in Counter(text).items():
            script = script_of(char)
            if script is not None:
                counts[script] += count
        total = counts.total()
        if not total:
            return Scored(1.0, "no letters of another script (no letters)")
        inside = sum(count for script, count in counts.items() if script in self.scripts)
        others = ", ".join(f"{n} {script}" for script, n in counts.most_common() if script not in self.scripts)
        return Scored(inside / total, f"{inside} of {total} letters" + (f"; also {others}" if others else ""))


def written_in(
    *scripts: str,
    skip: Skip = "code_and_maths",
    level: Level = Level.TRAJECTORY,
    name: str = "written_in",
) -> WrittenIn:
    """The share of letters that belong to these scripts: an answer in the language of the question, without a model.

        value = letters of these scripts / letters

    A script is not a language: Latin does not tell English from French. It does tell when a model slips from one script
    into another. Japanese is `written_in("Han", "Hiragana", "Katakana")`.

    Args:
        scripts: names from Unicode, such as "Latin", "Cyrillic", "Han", "Hangul", "Arabic".
        skip: "code_and_maths" leaves out fenced and quoted code, formulas, LaTeX commands and addresses.
        level: TRAJECTORY takes everything the policy wrote together, TURN each turn.
        name: what the verdicts are called.

    Returns:
        A reward in [0, 1] of that level; a text without letters is written in no other script, and has 1.

    Raises:
        InvalidArgument: no script, an unknown one, an unknown option.
        MissingInput: when observing, trajectories with tokens but no text.

    Example:
        >>> from apportion.rollouts import Turn
        >>> mixed = Trajectory(id="r0", group="q", turns=(Turn(text="Da ist 漢字."),))
        >>> written_in("Latin").observe([mixed])
        [Scored(value=0.714..., evidence='5 of 7 letters; also 2 Han')]
    """
    unknown = [script for script in scripts if script not in SCRIPTS]
    if unknown or not scripts:
        raise InvalidArgument("scripts", unknown or scripts, f"some of {', '.join(SCRIPTS)}")
    _arguments.choice("skip", skip, get_args(Skip))
    _arguments.text("name", name)
    return WrittenIn(frozenset(scripts), skip, name, _arguments.observable_level("level", level))


@dataclass(frozen=True)
class TextPattern(PerTrajectory):
    """See `text_pattern`."""

    _role: ClassVar[Role] = "shaping"
    pattern: Pattern
    wanted: Wanted
    name: str
    level: Level

    def require(self, trajectories: Sequence[Trajectory]) -> None:
        """Raises `MissingInput` when a trajectory has no text."""
        (require_turns if self.level is Level.TURN else require_text)(self.name, trajectories)

    def score(self, trajectory: Trajectory) -> Verdict | list[Verdict]:
        """Each turn, or all of them: present in one of them, absent from every one."""
        if self.level is Level.TURN:
            return [self._verdict([turn.text]) for turn in trajectory.turns]
        return interrupted(trajectory) or self._verdict(texts(trajectory))

    def _verdict(self, written: Sequence[str]) -> Verdict:
        at = next((index for index, text in enumerate(written) if self.pattern.found_in(text)), None)
        shown = _arguments.excerpt(self.pattern.source, 60)
        words = f"{shown} is not there" if at is None else f"{shown} in text {at + 1} of {len(written)}"
        return Scored(float((at is not None) == (self.wanted == "present")), words)


def text_pattern(
    pattern: str, *, wanted: Wanted = "present", level: Level = Level.TRAJECTORY, name: str = "text_pattern"
) -> TextPattern:
    r"""1 when a regular expression is found in what the policy wrote ("present"), or is not ("absent"); else 0.

        value = [found] for "present", 1 - [found] for "absent"

    Args:
        pattern: in the syntax of `re`; an expression that could run for ever on some text is refused.
        wanted: whether it has to be there or must not be.
        level: TRAJECTORY looks at all turns, TURN at each.
        name: what the verdicts are called.

    Returns:
        A reward of that level.

    Raises:
        InvalidArgument: an expression that does not compile or may run for ever, an unknown option.
        MissingInput: when observing, trajectories with tokens but no text.

    Example:
        >>> from apportion.rollouts import Turn
        >>> rollout = Trajectory(id="r0", group="q", turns=(Turn(text="As an AI, I cannot."),))
        >>> text_pattern(r"\bAs an AI\b", wanted="absent").observe([rollout])
        [Scored(value=0.0, evidence="'\\\\bAs an AI\\\\b' in text 1 of 1")]
    """
    _arguments.choice("wanted", wanted, get_args(Wanted))
    _arguments.text("name", name)
    return TextPattern(Pattern(pattern), wanted, name, _arguments.observable_level("level", level))
