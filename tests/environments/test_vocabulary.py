"""Words are ids and ids are words; nothing is split, merged or guessed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.environments import Notebook, Terminal, Vocabulary
from apportion.errors import InvalidArgument


@pytest.mark.parametrize("vocabulary", [Terminal().vocabulary, Notebook().vocabulary])
@given(data=st.data())
def test_encoding_undoes_decoding(vocabulary: Vocabulary, data: st.DataObject) -> None:
    ids = tuple(data.draw(st.lists(st.integers(0, len(vocabulary) - 1), max_size=8)))
    assert vocabulary.encode(vocabulary.decode(ids)) == ids
    assert vocabulary.ids(vocabulary.lookup(ids)) == ids


def test_every_unknown_word_or_id_is_listed() -> None:
    v = Vocabulary(("a", "b"))
    with pytest.raises(InvalidArgument, match=r"\['c', 'd'\]"):
        v.encode("d a c")
    with pytest.raises(InvalidArgument, match=r"\[-1, 2\]"):
        v.decode([0, 2, -1])


@pytest.mark.parametrize("words", [(), ("a", "a"), ("a b",), ("",), ("a", "b\n")])
def test_what_is_not_a_vocabulary_is_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(InvalidArgument) as caught:
        Vocabulary(words)
    assert caught.value.argument == "words"
