r"""What the audit asks of a tokenizer, loading one without a network, and what a chat template puts around a reply.

<|im_start|> assistant \n   The answer is 4. <|im_end|>   \n
|------- opener --------|                     | end id |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from apportion._extras import require
from apportion.errors import InvalidArgument

__all__ = ["ChatTokenizer", "Scaffold", "decode", "encode", "load_tokenizer", "render", "scaffold"]

# Stands for a text in a rendering, to find where the template put it; no template or tokenizer knows it.
MARK = "\ue000apportion\ue001"


class ChatTokenizer(Protocol):
    """The part of a `transformers` tokenizer that the audit uses."""

    @property
    def bos_token_id(self) -> int | None:
        """The id that begins a row."""

    @property
    def eos_token_id(self) -> int | None:
        """The id that ends a row."""

    @property
    def pad_token_id(self) -> int | None:
        """The id that fills up a row."""

    @property
    def all_special_ids(self) -> Sequence[int]:
        """Ids of the special tokens."""

    def __len__(self) -> int:
        """Number of ids, added ones included."""

    def get_added_vocab(self) -> Mapping[str, int]:
        """Tokens that are never split, with their ids."""

    # Positional and keyword arguments as transformers has them; it accepts many more.
    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """Ids of a text."""

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool, clean_up_tokenization_spaces: bool) -> str:
        """Text of ids."""

    def apply_chat_template(self, messages: Sequence[Mapping[str, Any]], **arguments: Any) -> Any:
        """Messages as one text."""


def encode(tokenizer: ChatTokenizer, text: str) -> list[int]:
    """Ids of a text, nothing added."""
    return list(tokenizer.encode(text, add_special_tokens=False))


def decode(tokenizer: ChatTokenizer, ids: Sequence[int]) -> str:
    """Text of ids, nothing left out and nothing tidied."""
    return tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)


def render(
    tokenizer: ChatTokenizer, messages: Sequence[Mapping[str, Any]], *, generate: bool, arguments: Mapping[str, Any]
) -> str:
    """Messages through the chat template, as text.

    Args:
        tokenizer: the template is its own.
        messages: as recorded.
        generate: end with the opener of a reply.
        arguments: what else the template takes ("tools", "enable_thinking").

    Raises:
        ValueError: the template refuses the messages; whatever it raised is the cause.
    """
    try:
        text = tokenizer.apply_chat_template(
            [dict(message) for message in messages], tokenize=False, add_generation_prompt=generate, **arguments
        )
    except Exception as error:  # a template is a program, and it meets messages that nobody checked
        raise ValueError(f"{type(error).__name__}: {error}") from error
    if not isinstance(text, str):
        raise ValueError(f"the template gave a {type(text).__name__}, not a text")
    # Half of a surrogate pair cannot become tokens; the error it raises is a ValueError.
    text.encode()
    return text


def load_tokenizer(path_or_name: str | Path) -> Any:
    """A `transformers` tokenizer from this machine; the network is never asked.

    Args:
        path_or_name: a folder with tokenizer files, a `.gguf` file, or the name of a model that a hub's cache on this
            machine already holds.

    Raises:
        MissingExtra: transformers is not installed, or gguf is not and a `.gguf` file was named.
        InvalidArgument: there is no such tokenizer here, or it cannot be loaded without running code of its own.

    Example:
        >>> load_tokenizer("models/policy").eos_token  # doctest: +SKIP
        '<|im_end|>'
    """
    transformers = require("transformers", extra="tokens")
    path = Path(path_or_name)
    source: dict[str, Any] = {"pretrained_model_name_or_path": str(path_or_name)}
    if path.suffix == ".gguf" and path.is_file():
        require("gguf", extra="tokens")
        source = {"pretrained_model_name_or_path": str(path.parent), "gguf_file": path.name}
    try:
        return transformers.AutoTokenizer.from_pretrained(**source, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # every kind of file and tokenizer fails in its own way
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InvalidArgument(
            "--tokenizer",
            str(path_or_name),
            "a folder with a tokenizer, a .gguf file, or a model that was downloaded to this machine before "
            f"(nothing is downloaded here): {reason[:200]}",
        ) from error


@dataclass(frozen=True, kw_only=True)
class Scaffold:
    """What a chat template puts around a reply.

    Attributes:
        opener: the ids between the end of the prompt's messages and the reply; empty when unknown.
        end_ids: every id that ends a reply.
        special: every id that plain text must never become.
        bos_id: the id that must begin a row; None when none has to.
    """

    opener: tuple[int, ...] = ()
    end_ids: frozenset[int] = frozenset()
    special: frozenset[int] = frozenset()
    bos_id: int | None = None


def scaffold(tokenizer: ChatTokenizer, *, end_ids: Sequence[int] = (), arguments: Mapping[str, Any]) -> Scaffold:
    """Found by rendering a conversation of two messages; nothing is read off the template's text.

    Args:
        tokenizer: with or without a chat template; without one the opener stays unknown.
        end_ids: ids that end a reply, besides the tokenizer's own and the one that the template writes.
        arguments: what else the template takes.
    """
    opener, closer, begins = _around(tokenizer, arguments)
    special = {*tokenizer.all_special_ids, *tokenizer.get_added_vocab().values()}
    ends = {one for one in encode(tokenizer, closer) if one in special}
    if tokenizer.eos_token_id is not None:
        ends.add(tokenizer.eos_token_id)
    start = tuple(encode(tokenizer, opener))
    bos = tokenizer.bos_token_id
    first = encode(tokenizer, begins)[:1] if begins else list(tokenizer.encode("a", add_special_tokens=True))[:1]
    # Some converted tokenizers name the token that opens a message as their end of text.
    return Scaffold(
        opener=start,
        end_ids=frozenset((ends - set(start)) | set(end_ids)),
        special=frozenset(special),
        bos_id=bos if bos is not None and first == [bos] else None,
    )


def _around(tokenizer: ChatTokenizer, arguments: Mapping[str, Any]) -> tuple[str, str, str]:
    """What comes before a reply, what comes after it, and the rendering; empty texts when the template gives none."""
    question = [{"role": "user", "content": "a"}]
    try:
        asked = render(tokenizer, question, generate=False, arguments=arguments)
        whole = render(
            tokenizer, [*question, {"role": "assistant", "content": MARK}], generate=False, arguments=arguments
        )
    except ValueError:
        return "", "", ""
    before, _, after = whole.partition(MARK)
    try:
        prompted = render(tokenizer, question, generate=True, arguments=arguments)
    except ValueError:
        prompted = asked
    openers = (text.removeprefix(asked) for text in (prompted, before) if text.startswith(asked))
    return next(filter(None, openers), ""), after, whole
