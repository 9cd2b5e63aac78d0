"""Answers that were recorded: tests and replays score without the model, exactly as it answered.

One JSON object per line and boundary:

    {"key": "<sha256>", "logps": [-0.5, -1.25]}     or {"key": ..., "abstained": "..."} or {"key": ..., "failed": "..."}

The key is a digest of the model's name, its number of tokens, the temperature, the context ids and the target ids.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from apportion._replacing import naming
from apportion.errors import BadRow, InvalidArgument, MissingInput
from apportion.judges.scoring.request import Answer, LogProbs, Request, answered
from apportion.judges.scoring.rescorer import Answers, Rescorer, Vocabulary, checked
from apportion.verdicts import Abstained, Failed

__all__ = ["RecordedRescorer", "Recording"]

_LONGEST_LINE = 2**24


def _prefix(name: str, vocabulary: Vocabulary, temperature: float) -> bytes:
    return json.dumps([name, vocabulary.size, float(temperature)]).encode()


class RecordedRescorer:
    """Replays a recording of `Recording`.

    Attributes:
        name: of the recorded model.
        vocabulary: of the recorded model.

    Args:
        path: the JSONL file; it is read at once.
        name: of the model whose answers are wanted.
        vocabulary: of that model.

    Raises:
        BadRow: a line that is no record (file and line are named), or two answers under one key.
        OSError: the file cannot be read.
        MissingInput: when scoring, a request that was not recorded under this name, these tokens and this temperature.

    Example:
        >>> import tempfile
        >>> from apportion.judges.scoring import continuation
        >>> empty = Path(tempfile.mkdtemp(), "empty.jsonl")
        >>> _ = empty.write_text("")
        >>> RecordedRescorer(empty, name="frozen", vocabulary=Vocabulary("words", 9)).score([continuation([1], [2])])
        Traceback (most recent call last):
            ...
        apportion.errors.MissingInput: RecordedRescorer needs the log-probs of 1 of 1 boundaries under 'frozen' at
        temperature 1, which is absent in request 0 boundary 0; record them with Recording(rescorer, path)
    """

    def __init__(self, path: str | os.PathLike[str], *, name: str, vocabulary: Vocabulary) -> None:
        self.name = name
        self.vocabulary = vocabulary
        self._known = _read(os.fspath(path))

    def score(self, requests: Sequence[Request], *, temperature: float = 1.0) -> Answers:
        """As `Rescorer.score`, from the file."""
        checked(requests, self.vocabulary, temperature)
        prefix = _prefix(self.name, self.vocabulary, temperature)
        keys = [list(request.digests(prefix=prefix)) for request in requests]
        absent = [
            f"request {i} boundary {k}"
            for i, row in enumerate(keys)
            for k, key in enumerate(row)
            if key not in self._known
        ]
        if absent:
            missing = f"the log-probs of {len(absent)} of {sum(map(len, keys))} boundaries under {self.name!r}"
            raise MissingInput(
                "RecordedRescorer",
                f"{missing} at temperature {temperature:g}",
                "record them with Recording(rescorer, path)",
                absent,
            )
        answers = [[self._known[key] for key in row] for row in keys]
        for request, row in zip(requests, answers, strict=True):
            for target, answer in zip(request.targets, row, strict=True):
                if isinstance(answer, LogProbs) and answer.values.size != target.size:
                    found = f"{answer.values.size} log-probs for {target.size} target tokens"
                    raise InvalidArgument("recording", found, "one log-prob per target token")
        return answers


class Recording:
    """A re-scorer that writes every answer of another one to a file.

    Attributes:
        name: of the model behind it.
        vocabulary: of the model behind it.

    Args:
        rescorer: asked for every request.
        path: JSONL, appended to; an answer that the file already holds is not written again.

    Raises:
        BadRow: the file exists and is no recording.
        OSError: the file cannot be read or written; it is named.

    Example:
        >>> import tempfile, transformers
        >>> from apportion.judges.scoring import TransformersRescorer, own_tokens
        >>> config = transformers.Qwen3Config(vocab_size=20, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
        ...     num_attention_heads=2, num_key_value_heads=1, head_dim=8)
        >>> model = TransformersRescorer(transformers.Qwen3ForCausalLM(config), name="random")
        >>> path, asked = Path(tempfile.mkdtemp(), "record.jsonl"), [own_tokens([1, 2, 3])]
        >>> told = Recording(model, path).score(asked)[0][0]
        >>> replayed = RecordedRescorer(path, name="random", vocabulary=model.vocabulary).score(asked)[0][0]
        >>> told.values.tolist() == replayed.values.tolist()
        True
    """

    def __init__(self, rescorer: Rescorer, path: str | os.PathLike[str]) -> None:
        self.name = rescorer.name
        self.vocabulary = rescorer.vocabulary
        self._rescorer = rescorer
        self._path = Path(path)
        self._written = set(_read(os.fspath(path))) if self._path.exists() else set()

    def score(self, requests: Sequence[Request], *, temperature: float = 1.0) -> Answers:
        """As the re-scorer behind it; the answers are in the file when this returns."""
        answers = self._rescorer.score(requests, temperature=temperature)
        prefix = _prefix(self.name, self.vocabulary, temperature)
        lines = []
        for request, row in zip(requests, answers, strict=True):
            for key, answer in zip(request.digests(prefix=prefix), row, strict=True):
                if key not in self._written:
                    self._written.add(key)
                    lines.append(json.dumps({"key": key, **_as_fields(answer)}) + "\n")
        with naming(self._path), open(self._path, "a", encoding="utf-8") as file:
            file.writelines(lines)
        return answers


def _as_fields(answer: Answer) -> dict[str, Any]:
    if isinstance(answer, LogProbs):
        return {"logps": answer.values.tolist()}
    return {"abstained": answer.reason} if isinstance(answer, Abstained) else {"failed": answer.error}


def _read(path: str) -> dict[str, Answer]:
    known: dict[str, Answer] = {}
    with open(path, "rb") as file:
        number = 0
        while line := file.readline(_LONGEST_LINE):
            number += 1
            record = _record(path, number, line)
            if record["key"] in known:
                raise BadRow(path, number, "key", "has an answer on an earlier line", "keep one of the two")
            known[record["key"]] = _answer(path, number, record)
    return known


def _record(path: str, number: int, line: bytes) -> dict[str, Any]:
    remedy = "remove the line, or record again"
    if not line.endswith(b"\n"):
        raise BadRow(path, number, "", f"is cut, or longer than {_LONGEST_LINE} bytes", remedy)
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadRow(path, number, "", f"is no JSON ({type(error).__name__})", remedy) from None
    kinds = [{"key", kind} for kind in ("logps", "abstained", "failed")]
    if not isinstance(record, dict) or set(record) not in kinds or not isinstance(record["key"], str):
        raise BadRow(path, number, "", "is no record with a key and one of logps, abstained, failed", remedy)
    return record


def _answer(path: str, number: int, record: dict[str, Any]) -> Answer:
    remedy = "record again"
    for kind, made in (("abstained", Abstained), ("failed", Failed)):
        if kind in record:
            if not isinstance(record[kind], str):
                raise BadRow(path, number, kind, "is no text", remedy)
            return made(record[kind])
    values = record["logps"]
    numbers = isinstance(values, list) and all(isinstance(one, float) or type(one) is int for one in values)
    answer = answered(np.array(values, np.float64)) if numbers and all(abs(one) < 1e300 for one in values) else None
    if not isinstance(answer, LogProbs):
        raise BadRow(path, number, "logps", "is no list of finite numbers <= 0", remedy)
    return answer
