"""What holds for every conversation: as sampled it is clean, a trained observation is seen, nothing crashes."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from apportion.report.tokens import audit_tokens
from apportion.report.tokens.tokenizer import scaffold
from apportion.report.tokens.view import View
from apportion.rollouts import Trajectory
from tests.report.tokens.building import CHATML, NO_END, codes, rollout, tokenizer

TEXTS = st.one_of(
    st.text("helo thk42\n ", max_size=12),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
    st.sampled_from(["user", "assistant", "ok", "\n\n", "hello", "42", "s"]),
)
TURNS = st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=4)


def talk(turns: list[tuple[str, str]], last: str) -> list[tuple[str, str]]:
    """A question, then a reply and an observation each, and a last reply."""
    told = [("user", "hello?")]
    for reply, observation in turns:
        told += [("assistant", reply), ("tool", observation)]
    return [*told, ("assistant", last)]


@given(TURNS, TEXTS)
def test_what_was_sampled_is_clean(turns: list[tuple[str, str]], last: str) -> None:
    tok = tokenizer()
    found = codes(audit_tokens([rollout(tok, *talk(turns, last))], tokenizer=tok))
    assert found.keys() <= {"boundary-merges"}
    starts_like_the_opener_ends = any(text.startswith("\n") for text in [*(reply for reply, _ in turns), last])
    assert bool(found) == starts_like_the_opener_ends


@given(TURNS, TEXTS, st.integers(0, 10**6), st.sampled_from([CHATML, NO_END]))
def test_a_trained_observation_is_seen(turns: list[tuple[str, str]], last: str, pick: int, template: str) -> None:
    tok = tokenizer(template, eos="<|im_end|>" if template == CHATML else "<pad>")
    end = "<|im_end|>" if template == CHATML else ""
    row = rollout(tok, *talk(turns, last), end=end)
    assert row.policy is not None
    view = View(row, tokenizer=tok, scaffold=scaffold(tok, arguments={}))
    observed = np.flatnonzero(view.foreign[view.prompt :] >= 0)
    if any(text for _, text in turns) and template == CHATML:
        assert observed.size
    if observed.size:
        policy = row.policy.copy()
        policy[observed[pick % observed.size]] = True
        wrong = rollout(tok, *talk(turns, last), end=end, policy=policy, behaviour_logps=None)
        assert "mask-on-observation" in codes(audit_tokens([wrong], tokenizer=tok))


@given(
    st.lists(st.integers(-5, 300), max_size=12),
    st.lists(st.tuples(st.integers(0, 280), st.booleans(), st.floats(-3, 3)), max_size=20),
    st.lists(
        st.dictionaries(
            st.sampled_from(["role", "content", "tool_calls"]),
            st.one_of(
                st.none(), st.sampled_from(["user", "assistant", "tool", "\ud800"]), TEXTS, st.lists(st.integers())
            ),
        ),
        max_size=5,
    ),
    st.dictionaries(
        st.sampled_from(["tools", "trainer_logps"]), st.one_of(st.lists(st.floats()), TEXTS, st.integers())
    ),
    st.booleans(),
)
def test_no_rollout_makes_it_fail(
    prompt: list[int],
    response: list[tuple[int, bool, float]],
    messages: list[dict[str, Any]],
    columns: dict[str, Any],
    with_tokenizer: bool,
) -> None:
    row = Trajectory(
        id="r",
        group="q",
        prompt_ids=prompt,
        response_ids=[one[0] for one in response],
        policy=[one[1] for one in response],
        behaviour_logps=[one[2] for one in response],
        messages=messages,  # type: ignore[arg-type]
        columns=columns,
    )
    result = audit_tokens([row], tokenizer=tokenizer() if with_tokenizer else None, end_ids=[5])
    assert result.replies == row.n_turns
    assert all(finding.count > 0 for finding in result.findings)


def sentencepiece_like(scheme: str) -> Any:
    """Words carry the blank in front of them, and the first word gets one that nobody wrote."""
    words = ["▁", *"abcdefghijklmnopqrstuvwxyz?.\n", "▁h", "▁hi", "he"]
    merges = [("▁", "h"), ("▁h", "i"), ("h", "e")]
    inner = Tokenizer(models.BPE(vocab={word: i for i, word in enumerate(words)}, merges=merges))
    inner.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme)
    inner.decoder = decoders.Metaspace(prepend_scheme=scheme)
    inner.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    made = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<|im_end|>")
    made.chat_template = CHATML
    return made


@pytest.mark.parametrize("scheme", ["first", "always", "never"])
@pytest.mark.parametrize("reply", ["hi", "hey there", " hi", "he\nhe", "say\n\nhi"])
def test_a_tokenizer_that_puts_a_blank_in_front_of_a_text_raises_no_alarm(scheme: str, reply: str) -> None:
    tok = sentencepiece_like(scheme)
    row = rollout(tok, ("user", "hi?"), ("assistant", reply), messages=())
    assert codes(audit_tokens([row], tokenizer=tok)) == {}
    # What was sampled right behind the opener's newline has no blank in front of it.
    bare = [tok.convert_tokens_to_ids(one) for one in reply.replace(" ", "▁")]
    again = rollout(
        tok,
        ("user", "hi?"),
        ("assistant", reply),
        messages=(),
        response_ids=[*bare, tok.eos_token_id],
        policy=None,
        behaviour_logps=None,
    )
    merges = {"roundtrip-resplit": 1} if {"he", " h"} & {reply[k : k + 2] for k in range(len(reply))} else {}
    assert codes(audit_tokens([again], tokenizer=tok)) == merges
