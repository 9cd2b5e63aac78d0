"""One planted fault each: it is found, at its place, and nothing else is."""

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from apportion.errors import InvalidArgument
from apportion.report.findings import Finding
from apportion.report.tokens import audit_tokens
from apportion.report.tokens.tokenizer import encode
from apportion.rollouts import Trajectory
from tests.report.tokens.building import (
    CALLS,
    CHATML,
    FORGETS,
    INSERTS,
    NO_END,
    TRIMS,
    WITH_BOS,
    codes,
    rollout,
    tokenizer,
)

TALK = (("user", "what is 6*7?"), ("assistant", "look it up"), ("tool", "found: 42"), ("assistant", "42."))


def found(rows: list[Trajectory] | Trajectory, code: str, tok: Any, **options: Any) -> Finding:
    result = audit_tokens([rows] if isinstance(rows, Trajectory) else rows, tokenizer=tok, **options)
    assert set(codes(result)) == {code}
    return result.findings[0]


def row_of(row: Trajectory) -> list[int]:
    assert row.prompt_ids is not None
    assert row.response_ids is not None
    return [*row.prompt_ids.tolist(), *row.response_ids.tolist()]


def masked(change: Any, **options: Any) -> tuple[Any, Trajectory]:
    """The conversation with its mask changed in place."""
    tok = tokenizer()
    clean = rollout(tok, *TALK)
    policy = np.array(clean.policy)
    change(policy, clean)
    return tok, rollout(tok, *TALK, policy=policy, behaviour_logps=None, **options)


# Template drift


def planted(template: str, *messages: tuple[str, str], **options: Any) -> tuple[Any, Trajectory]:
    """Recorded under the plain template, audited under another."""
    return tokenizer(template), rollout(tokenizer(), *messages, **options)


@pytest.mark.parametrize(
    ("template", "answer", "code"),
    [
        (INSERTS, "hello", "template-empty-thinking"),
        (FORGETS, "<think>6*7</think>\n\n42.", "template-thinking-stripped"),
        (TRIMS, "42. ", "template-whitespace"),
        (CHATML.replace("<|im_end|>", "<|im_end|><|im_end|>"), "hello", "template-end-of-turn"),
        (CHATML.replace("<|im_end|>\n", "<|im_end|>"), "hello", "template-whitespace"),
        (CHATML.replace("<|im_start|>{{", "<|im_start|>x{{"), "hello", "template-inserted"),
        (CHATML.replace("{{ m['content'] }}", "{{ m['content'][1:] }}"), "xyz", "template-dropped"),
        (CHATML.replace("{{ m['content'] }}", "{{ m['content'] | upper }}"), "xyz", "template-changed"),
    ],
)
def test_template_drift_has_its_kind(template: str, answer: str, code: str) -> None:
    tok, row = planted(template, ("user", "?"), ("assistant", answer), ("user", "!"), ("assistant", answer))
    finding = found(row, code, tok)
    assert finding.places[0].trajectory == "r"
    assert finding.places[0].index is not None


def test_the_first_differing_index_and_the_tokens_around_it_are_shown() -> None:
    tok, row = planted(INSERTS, ("user", "?"), ("assistant", "hello"), ("user", "!"), ("assistant", "hello"))
    finding = found(row, "template-empty-thinking", tok)
    assert (finding.count, "2 of 2 replies (100.0%), 1 of 1 rollouts" in finding.message) == (2, True)
    place = finding.places[0]
    assert row.prompt_ids is not None
    assert (place.turn, place.index) == (0, row.prompt_ids.size)
    hello = encode(tok, "hello")[0]
    assert f">{hello}:'hello'<" in place.recorded
    assert ">" in place.instead
    assert "'<'" in place.instead
    assert audit_tokens([row], tokenizer=tok).template_changed == 2


def test_a_template_that_takes_an_argument_gets_it() -> None:
    template = CHATML.replace("{{ m['content'] }}", "{% if wordy %}x{% endif %}{{ m['content'] }}")
    tok, row = planted(template, ("user", "?"), ("assistant", "hello"))
    assert codes(audit_tokens([row], tokenizer=tok)) == {}
    assert "template-inserted" in codes(audit_tokens([row], tokenizer=tok, template_arguments={"wordy": True}))
    with pytest.raises(InvalidArgument, match="template_arguments"):
        audit_tokens([row], template_arguments={"wordy": True})


def test_a_tool_call_written_again_is_another_text() -> None:
    tok = tokenizer(CALLS)
    wrote = '<call>{"name":"look"}</call>'  # the template's tojson puts a space behind the colon
    row = rollout(tokenizer(), ("user", "?"), ("assistant", wrote), ("tool", "42"), ("assistant", "42."))
    call = {"type": "function", "function": {"name": "look"}}
    messages = [*row.messages]
    messages[1] = {"role": "assistant", "content": "", "tool_calls": [call]}
    changed = rollout(
        tokenizer(), ("user", "?"), ("assistant", wrote), ("tool", "42"), ("assistant", "42."), messages=messages
    )
    assert found(changed, "template-tool-call", tok).places[0].turn == 0


def test_a_special_token_in_somebody_s_text_is_an_error() -> None:
    tok = tokenizer()
    text = "<|im_end|>"
    plain = [tok.convert_tokens_to_ids(c) for c in text]
    clean = rollout(tok, ("user", "?"), ("assistant", "hello"))
    opened = encode(tok, "<|im_start|>user\n")
    prompt = [*opened, *plain, *encode(tok, "<|im_end|>\n<|im_start|>assistant\n")]
    row = rollout(
        tok,
        ("user", "?"),
        ("assistant", "hello"),
        prompt_ids=prompt,
        messages=({"role": "user", "content": text}, {"role": "assistant", "content": "hello"}),
    )
    finding = found(row, "template-special-token", tok)
    assert (finding.severity, finding.places[0].index) == ("error", len(opened))
    typed = rollout(
        tok,
        ("user", "?"),
        ("assistant", "hello"),
        response_ids=[*plain, 0],
        policy=None,
        behaviour_logps=None,
        messages=(),
    )
    assert found(typed, "roundtrip-special-token", tok).severity == "error"
    assert codes(audit_tokens([clean], tokenizer=tok)) == {}


@pytest.mark.parametrize("content", [{"odd": 1}, ["x", 3], 7])
def test_messages_that_cannot_be_rendered_are_a_finding(content: object) -> None:
    tok = tokenizer(CHATML.replace("{{ m['content'] }}", "{{ m['content'] + '' }}"))
    row = rollout(tokenizer(), ("user", "?"), ("assistant", "hello"), messages=({"role": "user", "content": content},))
    finding = found(row, "template-refuses", tok)
    assert "TypeError" in finding.places[0].recorded


# Decoding and encoding


def test_a_reply_that_encodes_to_other_tokens() -> None:
    tok = tokenizer()
    he, llo = encode(tok, "he")[0], encode(tok, "llo")[0]
    end = tok.eos_token_id
    clean = rollout(tok, ("user", "?"), ("assistant", "hello"))
    row = rollout(
        tok, ("user", "?"), ("assistant", "hello"), response_ids=[he, llo, end], policy=None, behaviour_logps=None
    )
    result = audit_tokens([clean, row, clean, clean], tokenizer=tok)
    assert codes(result) == {"roundtrip-resplit": 1}
    assert (result.round_trip_changed, result.replies, result.template_changed) == (1, 4, 0)
    finding = result.findings[0]
    assert "1 of 4 replies (25.0%)" in finding.message
    assert finding.places[0].index == clean.prompt_ids.size  # type: ignore[union-attr]
    assert finding.places[0].instead.startswith(f">{encode(tok, 'hello')[0]}:'hello'<")


def test_half_a_character_is_lost() -> None:
    tok = tokenizer()
    half = encode(tok, "é")[:1]
    row = rollout(
        tok,
        ("user", "?"),
        ("assistant", "ok"),
        response_ids=half,
        policy=None,
        behaviour_logps=None,
        status="truncated",
        messages=(),
    )
    assert found(row, "roundtrip-bytes-lost", tok).count == 1


# Boundaries


def test_a_boundary_that_would_merge() -> None:
    tok = tokenizer()
    # The opener ends in a newline and so does the reply begin: "Ċ Ċ" is one token.
    finding = found(rollout(tok, ("user", "?"), ("assistant", "\nhello"), messages=()), "boundary-merges", tok)
    assert finding.severity == "info"
    place = finding.places[0]
    assert "'\\n\\n'" in place.instead


def test_a_boundary_that_was_merged() -> None:
    tok = tokenizer()
    clean = rollout(tok, ("user", "?"), ("assistant", "\nhello"))
    whole = encode(tok, tok.decode(row_of(clean)))
    prompt = clean.prompt_ids.size  # type: ignore[union-attr]
    double = encode(tok, "\n\n")
    assert (whole[prompt - 1], len(whole)) == (double[0], len(row_of(clean)) - 1)
    for size in (prompt - 1, prompt):  # the mask begins with the merged token, or behind it
        row = rollout(
            tok,
            ("user", "?"),
            ("assistant", "\nhello"),
            prompt_ids=whole[:size],
            response_ids=whole[size:],
            policy=None,
            behaviour_logps=None,
        )
        assert found(row, "boundary-merged", tok).places[0].index == prompt - 1
        only_prompt = replace(row, messages=row.messages[:1])
        assert found(only_prompt, "boundary-merged", tok).places[0].index == prompt - 1


# Masks


def test_a_mask_over_predictions_is_off_by_one() -> None:
    def left(policy: Any, clean: Trajectory) -> None:
        policy[:-1], policy[-1] = policy[1:].copy(), False

    tok = tokenizer()
    clean = rollout(tok, *TALK)
    policy = np.array(clean.policy)
    left(policy, clean)
    # The first token of the first reply is predicted by the last one of the prompt, which moves into the response.
    assert clean.prompt_ids is not None
    assert clean.response_ids is not None
    row = rollout(
        tok,
        *TALK,
        prompt_ids=clean.prompt_ids[:-1],
        response_ids=[int(clean.prompt_ids[-1]), *clean.response_ids.tolist()],
        policy=[True, *policy.tolist()],
        behaviour_logps=None,
    )
    assert found(row, "mask-shifted", tok).count == 2


def test_a_mask_shifted_to_the_right() -> None:
    def right(policy: Any, clean: Trajectory) -> None:
        policy[1:], policy[0] = policy[:-1].copy(), False

    tok, row = masked(right)
    finding = audit_tokens([row], tokenizer=tok)
    assert codes(finding) == {"mask-shifted": 1}  # the last reply has nothing behind it to be trained instead


def test_one_tail_for_several_turns_trains_what_a_tool_said() -> None:
    tok, row = masked(lambda policy, clean: policy.__setitem__(slice(None), True))
    result = audit_tokens([row], tokenizer=tok)
    assert codes(result) == {"mask-on-observation": 1, "mask-behind-end": 1}
    finding = next(f for f in result.findings if f.code == "mask-on-observation")
    assert (finding.severity, f"{len('found: ') + 1} tokens" in finding.message) == ("error", True)
    assert "'f'" in finding.places[0].recorded.split("<")[0]


def test_content_that_the_template_trims_is_still_a_tool_s() -> None:
    tok = tokenizer(TRIMS)
    talk = (("user", " ? "), ("assistant", "ok"), ("tool", "42\n\n"), ("assistant", "42."))
    clean = rollout(tok, *talk)
    assert codes(audit_tokens([clean], tokenizer=tok)) == {}
    assert clean.policy is not None
    policy = clean.policy | (clean.response_ids == encode(tok, "42")[0])
    assert found(rollout(tok, *talk, policy=policy, behaviour_logps=None), "mask-on-observation", tok).count == 1


def test_turns_of_two_two_one_and_two_tokens() -> None:
    tok = tokenizer(NO_END, eos="<pad>")
    user, assistant = (tok.convert_tokens_to_ids(f"<|{role}|>") for role in ("user", "assistant"))
    a, b, c, d = encode(tok, "abcd")
    told = [{"role": role, "content": text} for role, text in zip(["user", "assistant"] * 2, "abcd", strict=True)]
    row = {"prompt_ids": [user, a, assistant], "response_ids": [b, user, c, assistant, d], "messages": told}

    def masks(policy: list[int]) -> dict[str, int]:
        return codes(audit_tokens([Trajectory(id="r", group="q", policy=policy, **row)], tokenizer=tok))  # type: ignore[arg-type]

    assert masks([1, 0, 0, 0, 1]) == {}
    assert masks([0, 0, 1, 1, 1]) == {"mask-on-observation": 1, "reply-outside-mask": 1}


def test_a_tail_that_is_too_short_loses_the_earlier_turn() -> None:
    def last_only(policy: Any, clean: Trajectory) -> None:
        policy[: len(encode(tokenizer(), "look it up")) + 1] = False

    tok, row = masked(last_only)
    finding = found(row, "reply-outside-mask", tok)
    assert (finding.severity, finding.places[0].index) == ("warning", row.prompt_ids.size)  # type: ignore[union-attr]


def test_the_whole_message_is_not_the_reply() -> None:
    tok = tokenizer()
    ids = encode(tok, "<|im_start|>assistant\nHi<|im_end|>\n")
    n = len(encode(tok, "<|im_start|>assistant\n"))
    row = Trajectory(id="r", group="q", prompt_ids=[1], response_ids=ids)
    result = audit_tokens([row], tokenizer=tok)
    assert codes(result) == {"mask-on-opener": 1, "mask-behind-end": 1}
    assert [f.places[0].index for f in result.findings] == [1, 1 + n + 3]
    right = [0] * n + [1, 1, 1, 0]
    assert (
        codes(
            audit_tokens([Trajectory(id="r", group="q", prompt_ids=[1], response_ids=ids, policy=right)], tokenizer=tok)
        )
        == {}
    )


@pytest.mark.parametrize(("ids", "ends", "behind"), [([5, 6, 12, 8, 8], [11, 12, 13], 2), ([5, 6, 2, 2, 2], [2], 2)])
def test_what_follows_the_first_end_is_not_trained(ids: list[int], ends: list[int], behind: int) -> None:
    row = Trajectory(id="r", group="q", prompt_ids=[1], response_ids=ids)
    finding = found(row, "mask-behind-end", None, end_ids=ends)
    assert f"{behind} tokens" in finding.message
    assert finding.places[0].index == 4
    assert codes(audit_tokens([row], end_ids=[99])) == {}


def test_an_end_token_that_was_sampled_belongs_to_the_reply() -> None:
    tok = tokenizer()
    clean = rollout(tok, *TALK)
    policy = np.array(clean.policy)
    ends = np.flatnonzero(policy[:-1] & ~policy[1:])
    policy[ends] = False
    logps = clean.behaviour_logps
    assert found(rollout(tok, *TALK, policy=policy, behaviour_logps=logps), "end-outside-mask", tok).count == 1
    # Where observations are scored too, a number behind the reply says nothing.
    everywhere = rollout(tok, *TALK, policy=policy, behaviour_logps=np.full(policy.size, -0.5))
    assert codes(audit_tokens([everywhere], tokenizer=tok)) == {}
    # Nothing tells whether it was sampled, and another reply trains its end: a hand that appended it is right.
    assert codes(audit_tokens([rollout(tok, *TALK, policy=policy, behaviour_logps=None)], tokenizer=tok)) == {}


def test_a_policy_that_never_trains_an_end_never_stops() -> None:
    tok = tokenizer()
    clean = rollout(tok, *TALK)
    policy = np.array(clean.policy)
    policy[clean.response_ids == tok.eos_token_id] = False
    finding = found(rollout(tok, *TALK, policy=policy, behaviour_logps=None), "end-not-trained", tok)
    assert (finding.severity, finding.count) == ("info", 2)


def test_no_own_token_no_mask() -> None:
    row = Trajectory(id="r", group="q", prompt_ids=[1], response_ids=[5, 2], policy=[0, 0])
    assert codes(audit_tokens([row], end_ids=[2])) == {}


# The first token


def test_a_row_begins_once() -> None:
    tok = tokenizer(WITH_BOS)
    clean = rollout(tok, *TALK)
    assert clean.prompt_ids is not None
    bos = int(clean.prompt_ids[0])
    twice = rollout(tok, *TALK, prompt_ids=[bos, *clean.prompt_ids.tolist()])
    never = rollout(tok, *TALK, prompt_ids=clean.prompt_ids[1:])
    assert found(twice, "bos-doubled", tok).severity == "error"
    assert found(never, "bos-missing", tok).severity == "error"
    padded = tokenizer(WITH_BOS, pad="<pad>")
    left = rollout(padded, *TALK, prompt_ids=[padded.pad_token_id, *clean.prompt_ids.tolist()], messages=())
    assert codes(audit_tokens([left], tokenizer=padded)) == {}


def test_ids_of_another_tokenizer_are_said_once() -> None:
    tok = tokenizer()
    for strange in (10_000, -100):
        row = rollout(tok, *TALK, prompt_ids=[strange, 5])
        finding = found(row, "unknown-ids", tok)
        assert (finding.places[0].index, finding.places[0].recorded) == (0, str(strange))


def test_thousands_of_turns_that_all_drift_take_seconds() -> None:
    tok, times = tokenizer(TRIMS), 3_000
    opened, words, end = encode(tok, "<|im_start|>assistant\n"), encode(tok, " ok "), encode(tok, "<|im_end|>")
    asked = encode(tok, "\n<|im_start|>user\na<|im_end|>\n")
    row = [*words, *end, *asked, *opened] * times
    mask = ([1] * len(words) + [0] * (len(end) + len(asked) + len(opened))) * times
    told = [{"role": "assistant", "content": " ok "}, {"role": "user", "content": "a"}] * times
    long = Trajectory(id="r", group="q", prompt_ids=opened, response_ids=row, policy=mask, messages=told)
    started = time.process_time()
    found = codes(audit_tokens([long], tokenizer=tok))
    assert (found["template-whitespace"], found["end-not-trained"]) == (times, times)
    assert time.process_time() - started < 10
