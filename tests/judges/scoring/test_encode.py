"""Each piece of text becomes ids once and by itself, and text from a rollout cannot open a message."""

import pytest
import tokenizers
import transformers

from apportion.errors import InvalidArgument
from apportion.judges.scoring import encode, encode_target, reference_target
from apportion.rollouts import Trajectory


def letters() -> transformers.PreTrainedTokenizerFast:
    table = {letter: index for index, letter in enumerate("abcdefgh<|>")}
    model = tokenizers.Tokenizer(tokenizers.models.BPE(vocab={**table, "he": 11}, merges=[("h", "e")]))
    model.add_special_tokens(["<|h|>", "<|bos|>"])
    model.post_processor = tokenizers.processors.TemplateProcessing(
        single="<|bos|> $A", special_tokens=[("<|bos|>", model.token_to_id("<|bos|>"))]
    )
    return transformers.PreTrainedTokenizerFast(tokenizer_object=model, bos_token="<|bos|>")


TOKENIZER = letters()


def test_no_special_token_is_added() -> None:
    assert TOKENIZER("ab")["input_ids"] == [13, 0, 1]
    assert encode(TOKENIZER, "ab", specials="parse").tolist() == [0, 1]
    assert encode(TOKENIZER, "", specials="parse").tolist() == []


def test_special_tokens_are_parsed_in_a_template_and_spelled_in_an_answer() -> None:
    assert encode(TOKENIZER, "<|h|>", specials="parse").tolist() == [12]
    assert encode(TOKENIZER, "<|h|>", specials="spell").tolist() == [8, 9, 7, 9, 10]
    assert encode(TOKENIZER, "<|h|>", specials="parse").tolist() == [12]


def test_pieces_do_not_merge_across_their_boundary() -> None:
    target = encode_target(TOKENIZER, "e", before="<|h|>h")
    assert target.lead.tolist() == [12, 7]
    assert target.ids.tolist() == [4]
    assert encode(TOKENIZER, "he", specials="parse").tolist() == [11]


def test_the_reference_is_the_target_where_it_is_text() -> None:
    of = reference_target(TOKENIZER, before="a")
    one, other, number, empty = (
        of(Trajectory(id="r", group="q", reference=reference)) for reference in ("abc", "abc", 7, "")
    )
    assert one is other
    assert one is not None
    assert (one.ids.tolist(), one.lead.tolist(), one.text) == ([0, 1, 2], [0], "abc")
    assert number is None
    assert empty is None


def test_what_cannot_be_encoded() -> None:
    with pytest.raises(InvalidArgument, match="text=7: expected text"):
        encode(TOKENIZER, 7, specials="parse")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="specials='keep'"):
        encode(TOKENIZER, "a", specials="keep")  # type: ignore[arg-type]
