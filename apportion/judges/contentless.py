"""Answers without content: openers and lone punctuation that are known to fool generative judges ("master keys").

They are recognised before a judge is asked, by a list that is declared here and enters the record. An answer counts
only when nothing else is in it: "Solution" alone, never a solution that begins so.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Iterable

from apportion.judges.flags import folded

__all__ = ["MASTER_KEYS", "contentless"]

# Counted as symbols or letters by Unicode, yet without content.
_BLANK = "`^~\u115f\u1160\u3164\uffa0\u2800"
# Openers that promise an answer and give none; the kinds are those of arXiv 2507.08794, the wordings are ours.
MASTER_KEYS: tuple[str, ...] = (
    # English
    "solution", "the solution", "answer", "the answer", "final answer", "the final answer", "the answer is", "thought",
    "thought process", "thinking process", "reasoning", "explanation", "analysis", "step 1", "step one", "let's solve",
    "let's think", "let me think", "let us think", "think step by step", "let's think step by step",
    "let's solve this problem", "let's solve this step by step", "let's solve this problem step by step",
    "let's solve the problem step by step", "let us solve this problem step by step", "here is the solution",
    "here is my answer", "here's the solution", "to solve this", "to solve this problem",
    "we need to find", "i will solve this problem", "this is correct", "the answer is correct",
    # German, French, Spanish, Portuguese, Italian, Dutch
    "lösung", "die lösung", "antwort", "gedankengang", "schritt 1", "lass uns das schritt für schritt lösen",
    "solution :", "la solution", "réponse", "raisonnement", "étape 1", "résolvons ce problème étape par étape",
    "solución", "la solución", "respuesta", "razonamiento", "paso 1", "resolvamos este problema paso a paso",
    "solução", "resposta", "raciocínio", "passo 1", "vamos resolver este problema passo a passo",
    "soluzione", "risposta", "ragionamento", "risolviamo questo problema passo dopo passo",
    "oplossing", "antwoord", "laten we dit probleem stap voor stap oplossen",
    # Polish, Russian, Ukrainian, Turkish
    "rozwiązanie", "odpowiedź", "rozwiążmy ten problem krok po kroku",
    "решение", "ответ", "ход мыслей", "давайте решим эту задачу шаг за шагом", "розв'язок", "відповідь",
    "çözüm", "cevap", "bu problemi adım adım çözelim",
    # Chinese, Japanese, Korean
    "解", "解答", "答案", "解决方案", "思考过程", "让我们一步一步思考", "让我们逐步解决这个问题", "解決方案", "回答",
    "答え", "解決策", "思考プロセス", "かいせつ", "解説", "ステップバイステップで考えましょう", "해결책", "풀이", "답",
    "정답", "단계별로 생각해 봅시다",
    # Arabic, Hebrew, Hindi, Vietnamese, Indonesian, Thai, Greek
    "الحل", "الإجابة", "الجواب", "دعونا نحل هذه المشكلة خطوة بخطوة", "פתרון", "תשובה",
    "समाधान", "उत्तर", "आइए इस समस्या को चरण दर चरण हल करें", "lời giải", "giải pháp", "đáp án", "solusi", "jawaban",
    "mari kita selesaikan masalah ini langkah demi langkah", "คำตอบ", "วิธีทำ", "λύση", "απάντηση",
)  # fmt: skip


def contentless(text: str, *, keys: Iterable[str] = MASTER_KEYS) -> str | None:
    """Why a text has no content, or None when it has.

    Args:
        text: the whole answer.
        keys: texts that say nothing by themselves; case, punctuation, blanks and look-alike letters do not matter.

    Degenerate cases: an empty text, and one made of punctuation, blanks and invisible characters only, has no content.
    Symbols ("π", "+", an emoji) are content.

    Example:
        >>> contentless(" : "), contentless("**Thought process:**"), contentless("Solution: 4")
        ('punctuation only', "only the opener '**Thought process:**'", None)

    Source: arXiv 2507.08794.
    """
    if len(text) > 2_000:
        # An opener is short; folding a long answer is work that decides nothing.
        return None if any(_counts(c) for c in text) else "punctuation only"
    if not any(_counts(c) for c in text):
        return "punctuation only" if text.strip() else "empty"
    return f"only the opener {text.strip()[:60]!r}" if _bare(text) in _bared(tuple(keys)) else None


@functools.lru_cache(maxsize=8)
def _bared(keys: tuple[str, ...]) -> frozenset[str]:
    return frozenset(map(_bare, keys))


def _counts(char: str) -> bool:
    return unicodedata.category(char)[0] in "LNSM" and char not in _BLANK


def _bare(text: str) -> str:
    kept = "".join(c if _counts(c) else " " if c not in "'’" else "" for c in folded(text))
    return " ".join(kept.split())
