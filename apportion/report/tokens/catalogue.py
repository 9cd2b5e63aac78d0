"""What each finding about tokens is called, how bad it is, and what to do: one row per code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from apportion.report.findings import Severity

__all__ = ["CATALOGUE", "Entry"]

_KEEP = "train on the recorded ids, as apportion does; render and encode only what was never sampled"
_TEMPLATE = f"rendered again, the row is not what the policy saw: {_KEEP}"
_TEXT = f"text is no way to carry a reply: {_KEEP}"


class Entry(NamedTuple):
    """A row of the catalogue."""

    severity: Severity
    what: str
    advice: str


CATALOGUE: Mapping[str, Entry] = {
    "unknown-ids": Entry(
        "error", "ids that the tokenizer does not have", "name the tokenizer that the policy was sampled with"
    ),
    "bos-doubled": Entry(
        "error",
        "rows that begin with the first token twice",
        "encode a rendered chat with add_special_tokens=False: the template wrote that token already",
    ),
    "bos-missing": Entry(
        "error",
        "rows without the token that the tokenizer begins with",
        "the policy was not trained on such rows: let either the template or the tokenizer add it, once",
    ),
    "template-refuses": Entry(
        "warning",
        "messages that the chat template cannot render",
        "record messages as the template takes them (arguments as objects, tools in the column 'tools')",
    ),
    "template-empty-thinking": Entry("warning", "an empty thinking block that the template inserts", _TEMPLATE),
    "template-thinking-stripped": Entry("warning", "thinking that the template removes from history", _TEMPLATE),
    "template-whitespace": Entry("warning", "white space that the template adds or removes", _TEMPLATE),
    "template-end-of-turn": Entry("warning", "end tokens or newlines that the template writes otherwise", _TEMPLATE),
    "template-tool-call": Entry("warning", "tool calls that the template writes otherwise", _TEMPLATE),
    "template-special-token": Entry(
        "error",
        "text that becomes a special token when it is rendered again",
        "somebody typed a special token: never encode what a policy or a tool wrote with special tokens on",
    ),
    "template-resplit": Entry(
        "info", "text of others that was recorded in other tokens than the rendering has", _TEMPLATE
    ),
    "template-inserted": Entry("warning", "tokens that the template inserts", _TEMPLATE),
    "template-dropped": Entry("warning", "tokens that the template leaves out", _TEMPLATE),
    "template-changed": Entry("warning", "tokens that the template changes", _TEMPLATE),
    "roundtrip-resplit": Entry("warning", "replies that come back as other tokens of the same text", _TEXT),
    "roundtrip-bytes-lost": Entry("warning", "replies with bytes that are no text, which decoding loses", _TEXT),
    "roundtrip-text-changed": Entry("warning", "replies whose text itself changes", _TEXT),
    "roundtrip-special-token": Entry("error", "replies whose text becomes a special token", _TEXT),
    "boundary-merges": Entry(
        "info",
        "replies whose edge would merge with its neighbour if both were encoded together",
        "never take the boundary from the length of an encoded prompt: supervised_ids refuses, or finds it",
    ),
    "boundary-merged": Entry(
        "error",
        "replies that share their first token with the prompt",
        "these rows were encoded as one text: the mask is off by a token; record the sampled ids instead",
    ),
    "mask-on-observation": Entry(
        "error",
        "replies whose mask holds text of a tool, a user or the system",
        "mask every token the policy did not sample: one run per reply, not one tail per rollout",
    ),
    "reply-outside-mask": Entry(
        "warning",
        "rollouts with a reply in the response that is not trained",
        "a mask that keeps one tail loses the earlier turns; if it is on purpose, move them into the prompt",
    ),
    "mask-on-opener": Entry(
        "error",
        "replies whose mask holds what the template writes in front of them",
        "the mask begins at the first sampled token, behind the generation prompt",
    ),
    "mask-behind-end": Entry(
        "error",
        "replies whose mask goes on behind the end token",
        "end the mask at the first of all end tokens (end_mask); padding and newlines were never sampled",
    ),
    "mask-shifted": Entry(
        "error",
        "replies whose mask is off by one",
        "give the mask over tokens; next_token_mask makes the one over predictions",
    ),
    "end-outside-mask": Entry(
        "warning",
        "replies whose end token was sampled and is not trained",
        "the policy learns to stop from its end tokens: keep those that were sampled in the mask",
    ),
    "end-not-trained": Entry(
        "info",
        "replies that end outside the mask, and none that ends inside it",
        "right where the end token was appended by hand; otherwise the policy never learns to stop",
    ),
    "end-appended": Entry(
        "warning",
        "replies whose end token has a log-prob of exactly 0, which hardly any other token has",
        "a token appended by hand was never sampled: set its mask to 0, or own to 0",
    ),
    "logps-zero": Entry(
        "error",
        "replies in which every log-prob is exactly 0",
        "these are placeholders: record the sampler's log-probs, or none",
    ),
    "logps-impossible": Entry(
        "error",
        "log-probs above 0 or below -1e6",
        "natural logarithms of probabilities are at most 0: look for a flipped sign or a masked logit",
    ),
    "trainer-logps-unusable": Entry(
        "error", "trainer log-probs that do not fit the tokens", "one number per response token, null where unknown"
    ),
    "trainer-gap": Entry(
        "warning",
        "trainer and sampler disagree",
        "look at temperature, top-p, precision and the weights' version of both; correct the ratio until it is closed",
    ),
}
