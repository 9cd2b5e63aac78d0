"""What runs in the workers: observe and assign one block, and commit it."""

from __future__ import annotations

import os
import pickle
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from apportion.errors import ApportionError, shorten
from apportion.integrations.files.places import Places, changed
from apportion.integrations.ray.folder import commit, commitment, writing
from apportion.recipe import Recipe, State
from apportion.recipes import load
from apportion.report.credit_record import Record
from apportion.report.scoring import Scoring

__all__ = ["BlockScorer", "Job", "raised_there", "stamp"]

# A block whose worker dies this often will do so again.
_TRIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What every block of a run has in common; goes to the workers.

    Attributes:
        recipe, parameters: as `apportion.recipes.load` takes them.
        rollouts: the rollout file, for messages.
        lines: the file of native lines that holds the rows, and `stamp`, its size and time of change.
        folder: where blocks are committed.
        header: of the credit files.
        state: before the first block.
        in_order: the state of a block goes to the next one.
        home: the folder that relative paths in the settings start from.
    """

    recipe: str
    parameters: Mapping[str, Any]
    rollouts: Path
    lines: Path
    stamp: tuple[int, int]
    folder: Path
    header: Mapping[str, Any]
    state: State | None
    in_order: bool
    home: str


class BlockScorer:
    """Scores blocks, one after another, with a recipe of its own.

    A block that was committed already, perhaps by a worker that died before it could say so, is not scored again. An
    error is an answer and not raised, so that the driver can raise it as what it is.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        os.chdir(job.home)
        self._lock = writing(job.folder)

    def __call__(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Take `{"block": number, "chunks": pickled places}`; give `{"block": number, "error": pickled or empty}`."""
        number, error = int(row["block"]), b""
        try:
            if commitment(self._job.folder, number) is None:
                with _tried(self._job.folder, number):
                    self._score(number, pickle.loads(row["chunks"]))
        except (Exception, SystemExit) as raised:  # noqa: BLE001 - the driver raises it
            error = _portable(raised)
        return {"block": number, "error": error}

    def close(self) -> None:
        """Say that it will write no more; the end of its process says so too."""
        self._lock.close()

    @cached_property
    def _recipe(self) -> Recipe:
        return load(self._job.recipe, **self._job.parameters)

    def _score(self, number: int, chunks: tuple[Places, ...]) -> None:
        # The driver has the limit of failures, which is about all blocks.
        scoring = Scoring(self._recipe, state=self._state_before(number), failure_limit=1.0)
        commit(self._job.folder, number, self._records(scoring, chunks), self._job.header, scoring.summary)

    def _state_before(self, number: int) -> State | None:
        if not self._job.in_order or number == 0:
            return self._job.state
        before = commitment(self._job.folder, number - 1)
        if before is None:
            raise RuntimeError(f"block {number} came before the state that it starts from")
        return cast(State, before["summary"]["state"])

    def _records(self, scoring: Scoring, chunks: tuple[Places, ...]) -> Iterator[Record]:
        with open(self._job.lines, "rb") as file:
            for places in chunks:
                if stamp(self._job.lines) != self._job.stamp:
                    raise changed(self._job.rollouts, int(places.lines[0]))
                yield from scoring.records(places.read(file, self._job.rollouts))


@contextmanager
def _tried(folder: Path, number: int) -> Iterator[None]:
    """Ray gives a block whose worker died to another one, for ever: this counts how often."""
    tries = folder / f".block-{number:05d}.tries"
    with open(tries, "ab") as file:
        file.write(b".")
    if tries.stat().st_size > _TRIES:
        problem = f"block {number} ended its worker {_TRIES} times: out of memory, or a crash outside Python"
        raise ApportionError(f"{problem}; what was committed stays")
    yield
    tries.unlink()


def stamp(path: Path) -> tuple[int, int]:
    """Size and time of the last change: what tells that nobody wrote to a file."""
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def _portable(error: BaseException) -> bytes:
    """The error and where it was raised; one that only exists in this process is described."""
    where = "".join(traceback.format_exception(error))
    if isinstance(error, SystemExit):
        error = RuntimeError(f"the recipe file called sys.exit({error.code!r})")
    try:
        made = pickle.dumps((error, where))
        pickle.loads(made)
    except Exception:  # noqa: BLE001 - pickling runs the error's own code
        made = pickle.dumps((RuntimeError(f"{type(error).__name__}: {shorten(str(error), 500)}"), where))
    return made


def raised_there(answer: bytes) -> BaseException:
    """The error of a worker, with the place where it was raised in a note."""
    error, where = pickle.loads(answer)
    error.add_note(f"raised in a worker:\n{where}")
    return cast(BaseException, error)
