"""Checks of answers for `outcome`: each says what it needs, why it decided, and never takes an error for an answer.

- answers: `maths`, `text_equal`, `text_f1`, `choice_letter`, `json_match`, `game24`
- calls: `call_match`
- without a reference: `schema_match`; as rewards of their own: `written_in`, `text_pattern`
- where the answer stands: `final_answer`, `marked_answer`, `json_text`, `spoken`
"""

from apportion.rewards.verifiers.answer import final_answer, marked_answer, spoken
from apportion.rewards.verifiers.base import TextVerifier, Verifier
from apportion.rewards.verifiers.calls import call_match
from apportion.rewards.verifiers.game24 import game24
from apportion.rewards.verifiers.json_match import json_match, schema_match
from apportion.rewards.verifiers.json_values import json_text
from apportion.rewards.verifiers.letter import choice_letter
from apportion.rewards.verifiers.maths import maths
from apportion.rewards.verifiers.texts import text_equal, text_f1
from apportion.rewards.verifiers.writing import text_pattern, written_in

__all__ = [
    "TextVerifier",
    "Verifier",
    "call_match",
    "choice_letter",
    "final_answer",
    "game24",
    "json_match",
    "json_text",
    "marked_answer",
    "maths",
    "schema_match",
    "spoken",
    "text_equal",
    "text_f1",
    "text_pattern",
    "written_in",
]
