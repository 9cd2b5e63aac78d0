r"""Where the final answer of a reply stands: what was only thought is not an answer, and naming two is not choosing.

All of these are extractions `text -> answer, or None`, linear in the text.
"""

from __future__ import annotations

import re
from collections import deque

from apportion.rewards.answers import last_line

__all__ = ["final_answer", "marked_answer", "spoken"]

_THINK = re.compile(r"<(/?)(?:think|thinking|thought|reasoning)>", re.IGNORECASE)
_LABEL = re.compile(
    r"(?:####|(?:^|[\n.*:])[ \t#>*_]{0,8}(?:the )?(?:final )?answer(?: is)?[*_ ]{0,3}(?::| is\b))[ \t]{0,8}",
    re.IGNORECASE,
)
_BOLD = re.compile(r"\*\*([^*\n]{1,200})\*\*")
# Between two boxes that are offered as alternatives, or listed: "3 or 7", "3, 7", "either 3 / 7".
_ALTERNATIVE = re.compile(r"\W*\b(?:or|maybe|perhaps|alternatively|oder|ou)\b[^.!?\n]*|[\s$]*[/|][\s$]*", re.IGNORECASE)
_LISTED = re.compile(r"[\s$]*(?:,|and|,\s?and)[\s$]*", re.IGNORECASE)
# Words that withdraw what stood before them.
_WITHDRAWN = re.compile(r"\b(?:no|not|wait|actually|sorry|wrong|rather|correction|instead|mistake)\b", re.IGNORECASE)
_BETWEEN = 200


def spoken(text: str) -> str:
    """The reply without its thinking: what follows the last </think>; nothing when a <think> was never closed.

    Example:
        >>> spoken("<think>is it 4?</think> It is 5."), spoken("<think>it is 4")
        (' It is 5.', '')
    """
    kept = text
    for mark in _THINK.finditer(text):
        kept = text[mark.end() :] if mark[1] else ""
    return kept


def boxes(text: str) -> list[tuple[int, int, str]]:
    r"""Start, end and content of every complete outermost \boxed{...}, in order.

    Example:
        >>> boxes(r"\boxed{3} or \fbox{7}")
        [(0, 9, '3'), (13, 21, '7')]
    """
    found: list[tuple[int, int, str]] = []
    opened: list[tuple[int, int]] = []
    depth = 0
    starts = {match.end() - 1: match.start() for match in re.finditer(r"\\(?:boxed|fbox)\s{0,4}\{", text)}
    for at, char in enumerate(text):
        if char == "{":
            if at in starts:
                opened.append((starts[at], depth))
            depth += 1
        elif char == "}" and depth:
            depth -= 1
            if opened and opened[-1][1] == depth:
                start, _ = opened.pop()
                while found and found[-1][0] > start:
                    found.pop()
                found.append((start, at + 1, text[text.index("{", start) + 1 : at].strip()))
        elif char == "\n" and not opened:
            # A brace left open in one line must not swallow the boxes of the next.
            depth = 0
    return found


def marked_answer(text: str) -> str | None:
    r"""The answer where the reply marks it: the last \boxed{...}, else what follows the last `####` or "Answer:".

    Thinking is left out. Of several boxes the last wins; two different ones offered in one sentence as alternatives
    are no answer, and boxes joined by a comma or "and" are all of them the answer.

    Example:
        >>> marked_answer(r"\boxed{3}, no wait: \boxed{7}"), marked_answer(r"\boxed{3} or \boxed{7}")
        ('7', None)
        >>> marked_answer("Answer: $13$"), marked_answer("The result is 17.")
        ('$13$', None)
    """
    said = spoken(text)
    found = boxes(said)
    if found:
        return None if _hedged(said, found) else _listed(said, found) or None
    labels = deque(_LABEL.finditer(said), maxlen=1)
    return _bare(said[labels[0].end() :].split("\n", 1)[0]) if labels else None


def final_answer(text: str) -> str | None:
    r"""Like `marked_answer`; without a mark the last **bold** text, else the last line.

    Example:
        >>> final_answer("We get 234 pairs. Thus **73**."), final_answer("So\n2 2/3")
        ('73', '2 2/3')
    """
    said = spoken(text)
    if boxes(said) or _LABEL.search(said):
        return marked_answer(said)
    bold = _BOLD.findall(said)
    return _bare(bold[-1]) if bold else last_line(said)


def _bare(text: str) -> str | None:
    return text.strip().strip("*").strip() or None


def _hedged(text: str, found: list[tuple[int, int, str]]) -> bool:
    if len(found) < 2 or found[-1][2] == found[-2][2]:
        return False
    between = text[found[-2][1] : found[-1][0]]
    if len(between) > _BETWEEN or _WITHDRAWN.search(between):
        return False
    return _ALTERNATIVE.fullmatch(between) is not None


def _listed(text: str, found: list[tuple[int, int, str]]) -> str:
    values = [found[-1][2]]
    for before, after in zip(found[-2::-1], found[:0:-1], strict=True):
        between = text[before[1] : after[0]]
        if len(between) > _BETWEEN or not _LISTED.fullmatch(between):
            break
        values.insert(0, before[2])
    return ", ".join(dict.fromkeys(values))
