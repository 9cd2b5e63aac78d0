"""Rollouts as a sampler leaves them give nothing, whatever the template, with and without messages."""

import pytest

from apportion.cli.demo_rollouts import ROLLOUTS
from apportion.environments import Environment, Terminal
from apportion.integrations.files import read
from apportion.report.tokens import audit_tokens
from apportion.rollouts import Trajectory, Turn
from tests.report.tokens.building import CALLS, CHATML, NO_END, TRIMS, WITH_BOS, codes, rollout, tokenizer

TALK = (
    ("system", "be kind"),
    ("user", "what is 6*7?"),
    ("assistant", "look it up"),
    ("tool", "42"),
    ("assistant", "42."),
)


@pytest.mark.parametrize("template", [CHATML, TRIMS, WITH_BOS, CALLS])
def test_a_conversation_as_sampled(template: str) -> None:
    tok = tokenizer(template)
    row = rollout(tok, *TALK, prompt=2)
    bare = rollout(tok, *TALK, prompt=2, messages=())
    only_prompt = rollout(tok, *TALK, prompt=2, messages=row.messages[:2])
    result = audit_tokens([row, bare, only_prompt], tokenizer=tok)
    assert codes(result) == {}
    assert (result.rollouts, result.rendered, result.replies, result.round_trip_changed) == (3, 2, 6, 0)
    assert result.template_changed == 0


@pytest.mark.parametrize("lost", [1, 2])
def test_a_reply_that_was_cut_off(lost: int) -> None:
    tok = tokenizer()
    whole = rollout(tok, *TALK, prompt=2)
    assert whole.response_ids is not None
    assert whole.policy is not None
    text = "42."[: 4 - lost]
    cut = rollout(
        tok,
        *TALK,
        prompt=2,
        response_ids=whole.response_ids[:-lost],
        policy=whole.policy[:-lost],
        behaviour_logps=None,
        status="truncated",
        messages=(*whole.messages[:-1], {"role": "assistant", "content": text}),
    )
    assert codes(audit_tokens([cut], tokenizer=tok)) == {}


def test_the_opener_of_the_next_role_may_be_what_was_sampled_to_stop() -> None:
    tok = tokenizer(NO_END, eos="<pad>")
    told = (("user", "data?"), ("assistant", "ok"), ("tool", "the data"), ("assistant", "hello"))
    row = rollout(tok, *told, end="")
    assert row.policy is not None
    assert row.response_ids is not None
    policy = row.policy.copy()
    observation = tok.convert_tokens_to_ids("<|tool|>")
    (at,) = (row.response_ids == observation).nonzero()[0]
    assert not policy[at]
    policy[at] = True
    sampled = rollout(tok, *told, end="", policy=policy, behaviour_logps=None)
    assert codes(audit_tokens([row, sampled], tokenizer=tok)) == {}
    policy[at + 1] = True  # its content is another matter
    wrong = rollout(tok, *told, end="", policy=policy, behaviour_logps=None)
    assert codes(audit_tokens([wrong], tokenizer=tok)) == {"mask-on-observation": 1}


def test_what_the_package_ships_and_what_its_environments_write() -> None:
    assert codes(audit_tokens(read(ROLLOUTS))) == {}
    task = Terminal()
    environment = Environment(task)
    environment.reset(3)
    for move in ("cat {0}", "edit {0}", "wait .", "wait .", "submit ."):
        environment.step(task.vocabulary.encode(move.format(task.start(3)[0].broken)))
    result = audit_tokens([environment.trajectory(id="r", group="q")])
    assert (codes(result), result.replies) == ({}, 5)


def test_a_reply_that_stops_with_an_end_id_nobody_named_was_not_cut() -> None:
    row = Trajectory(id="r", group="q", prompt_ids=[1], response_ids=[8, 9, 7], behaviour_logps=[-1.0, -0.5, -0.1])
    assert codes(audit_tokens([row], end_ids=[2])) == {}


def test_an_end_of_text_that_opens_messages_ends_none() -> None:
    tok = tokenizer(eos="<|im_start|>")  # as some converted tokenizers say
    result = audit_tokens([rollout(tok, *TALK, prompt=2)], tokenizer=tok)
    assert (codes(result), list(result.end_ids)) == ({}, [tok.convert_tokens_to_ids("<|im_end|>")])


def test_replies_in_the_prompt_are_somebody_else_s() -> None:
    tok = tokenizer()
    shots = (("user", "1+1?"), ("assistant", "2"), *TALK[1:])
    assert codes(audit_tokens([rollout(tok, *shots, prompt=3)], tokenizer=tok)) == {}


def test_an_opener_that_a_tool_wrote_opens_no_reply() -> None:
    tok = tokenizer()
    told = (("user", "?"), ("assistant", "ok"), ("tool", "<|im_start|>assistant\nno"), ("assistant", "hm"))
    assert codes(audit_tokens([rollout(tok, *told)], tokenizer=tok)) == {}


def test_turns_without_anything_between_them_are_two_replies() -> None:
    turns = (Turn(span=(0, 2)), Turn(span=(2, 4)))
    row = Trajectory(id="r", group="q", prompt_ids=[1], response_ids=[5, 2, 6, 2], turns=turns)
    result = audit_tokens([row], end_ids=[2])
    assert (codes(result), result.replies) == ({}, 2)


def test_text_alone_has_no_tokens_to_audit() -> None:
    result = audit_tokens([Trajectory(id="r", group="q", turns=(Turn(text="hi"),))])
    assert (result.text_only, result.round_trip_changed, result.gap) == (1, None, None)
    assert codes(result) == {"no-tokens": 1}


def test_no_template_is_no_fault() -> None:
    tok = tokenizer(CHATML)
    row = rollout(tok, *TALK, prompt=2)
    bare = tokenizer(None)
    result = audit_tokens([row], tokenizer=bare)
    assert result.rendered == 0
    assert codes(result) == {"template-refuses": 1}
    assert codes(audit_tokens([rollout(tok, *TALK, prompt=2, messages=())], tokenizer=bare)) == {}
