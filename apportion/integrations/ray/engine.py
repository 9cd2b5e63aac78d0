"""The driver of a run: what is there, what is left to do, and the workers that do it."""

from __future__ import annotations

import pickle
from collections.abc import Generator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import apportion
from apportion.errors import BadRow, InvalidArgument, MissingInput, ObserverFailing
from apportion.integrations.files import Format, OnError, Progress, RolloutIndex
from apportion.integrations.ray.blocks import Block, blocks_of
from apportion.integrations.ray.folder import COPY, PLAN, CreditFolder, commitment
from apportion.integrations.ray.identity import file_digest, files_of
from apportion.integrations.ray.plan import Plan, read_plan, write_plan
from apportion.integrations.ray.pool import answers
from apportion.integrations.ray.worker import Job, raised_there, stamp
from apportion.recipe import State
from apportion.recipes import load
from apportion.report.credit_file import credit_header
from apportion.report.scoring import Scoring

__all__ = ["BlockRun"]

# Verdicts of one observer before its share of failures means something.
_ENOUGH = 256


class BlockRun:
    """A rollout file scored in blocks by workers on Ray, as a context manager.

    Whatever the recipe, the numbers are those of `apportion score` without Ray: it is called on the same chunks of
    whole groups, or of whole steps where its statistics run over a step. A recipe with state has one worker, which
    takes the blocks in the order of the steps and starts each from the state that the block before committed.

    Args:
        rollouts: a file of any format that `apportion.integrations.files.read` knows. The workers read it themselves
            (a copy in the folder, where it is not plain native JSONL), so on several machines it lies on a file system
            that all of them have.
        folder: where the blocks go; likewise.
        recipe: a name or a file, as `apportion.recipes.load` takes it.
        parameters: its settings.
        state: of the recipe, from an earlier run.
        failure_limit: as in `Scoring`, over everything seen so far. Blocks that exceed it alone are taken back.
        block_rows: rows per block, or a few more where one group (or step) is larger.
        workers: processes; default one per CPU of the cluster. More than that share the CPUs, for observers that wait.
        address: of a Ray cluster; default one of its own on this machine, or the one this process is connected to.
        resume: go on with the run in the folder.
        format: as in `read`.
        on_error: as in `read`.
        skipped: as in `read`.
        progress: called as `progress(bytes_done, bytes_total)` while the file is indexed.

    Attributes:
        recipe: as it was loaded.
        left: the blocks that are not committed yet.

    Raises:
        InvalidArgument: a bound below 1, a folder that cannot be used.
        MissingInput: rollouts without a step, and a recipe that keeps steps together or takes them in order.
        BadRow, MissingExtra, OSError: as `read`.
    """

    def __init__(
        self,
        rollouts: Path,
        folder: Path,
        *,
        recipe: str,
        parameters: Mapping[str, Any],
        state: State | None = None,
        failure_limit: float = 0.5,
        block_rows: int = 4096,
        workers: int | None = None,
        address: str | None = None,
        resume: bool = False,
        format: Format | Literal["auto"] = "auto",
        on_error: OnError = "stop",
        skipped: list[BadRow] | None = None,
        progress: Progress | None = None,
    ) -> None:
        for name, bound in (("block_rows", block_rows), ("workers", workers)):
            if bound is not None and bound < 1:
                raise InvalidArgument(name, bound, "at least 1")
        self.recipe = load(recipe, **parameters)
        self._failure_limit, self._workers, self._address = failure_limit, workers, address
        self._in_order = bool(self.recipe.initial_state)
        header, unchanged = credit_header(self.recipe, source=str(rollouts)), stamp(rollouts)
        identity = {
            "apportion": apportion.__version__,
            "recipe": {name: header["recipe"][name] for name in ("name", "parameters")},
            "files": files_of(recipe, parameters),
            "state": Scoring(self.recipe, state=state).summary()["state"],
            "rollouts": file_digest(rollouts),
            "format": format,
            "on_error": on_error,
            "block_rows": block_rows,
        }
        with ExitStack() as undo:
            self._folder = undo.enter_context(CreditFolder(folder, header=header, identity=identity, resume=resume))
            plan = read_plan(folder / PLAN)
            if plan is None or (plan.copied and not (folder / COPY).exists()):
                plan = self._planned(rollouts, folder, block_rows, format=format, on_error=on_error, progress=progress)
            lines = folder / COPY if plan.copied else rollouts
            if skipped is not None:
                skipped.extend(plan.skipped)
            self._blocks = plan.blocks
            self._commitments = self._committed_before(folder)
            self._job = Job(
                recipe=recipe,
                parameters=dict(parameters),
                rollouts=rollouts,
                lines=lines.resolve(),
                stamp=stamp(lines) if plan.copied else unchanged,
                folder=folder.resolve(),
                header=self._folder.header,
                state=state,
                in_order=self._in_order,
                home=str(Path.cwd()),
            )
            self._undo = undo.pop_all()

    def _planned(
        self,
        rollouts: Path,
        folder: Path,
        rows: int,
        *,
        format: Format | Literal["auto"],
        on_error: OnError,
        progress: Progress | None,
    ) -> Plan:
        skipped: list[BadRow] = []
        by_step = Scoring(self.recipe).by_step
        with RolloutIndex(
            rollouts, format=format, on_error=on_error, skipped=skipped, progress=progress, copy=folder / COPY
        ) as index:
            if not len(index) and skipped:
                raise skipped[0]
            if by_step and not index.all_have_steps:
                why = "keeps whole training steps together" if self.recipe.scope == "batch" else "takes steps in order"
                how = f"it {why}; --engine local takes rollouts without a step as one step"
                raise MissingInput(f"recipe {self.recipe.name!r}", "a step on every rollout", how)
            blocks = tuple(blocks_of(index, "steps" if by_step else "groups", rows=rows))
            plan = Plan(copied=index.lines != rollouts, blocks=blocks, skipped=tuple(skipped))
        write_plan(folder / PLAN, plan)
        return plan

    @property
    def left(self) -> list[Block]:
        """The blocks that are not committed yet."""
        return [block for block in self._blocks if block.number not in self._commitments]

    def score(self, progress: Progress | None = None) -> Scoring:
        """Score and commit what is left; sums up all blocks, those of earlier runs included.

        Args:
            progress: called as `progress(bytes_done, bytes_total)` after every block.

        Raises:
            ObserverFailing: more verdicts of an observer failed than the limit allows.
            ApportionError: what a worker raised, as it was raised there, or that workers died again and again.
        """
        scoring = self._summed()
        left = {block.number: block for block in self.left}
        total = sum(block.n_bytes for block in self._blocks)
        done = total - sum(block.n_bytes for block in left.values())
        try:
            with closing(self._answers(left)) as answered:
                for number, error in answered:
                    if error:
                        raise raised_there(error)
                    self._commitments[number] = made = self._committed(number)
                    scoring.include(made["summary"])
                    done += left[number].n_bytes
                    if progress:
                        progress(done, total)
                    scoring.check(enough=_ENOUGH)
            # Again, and in their order: sums of floats and the last state depend on it.
            scoring = self._summed()
            scoring.check()
        except ObserverFailing:
            self._take_back()
            raise
        self._folder.finish([self._commitments[block.number] for block in self._blocks])
        return scoring

    def _answers(self, left: Mapping[int, Block]) -> Generator[tuple[int, bytes]]:
        rows = [{"block": block.number, "chunks": pickle.dumps(block.chunks)} for block in left.values()]
        workers = 1 if self._in_order else self._workers
        return answers(rows, self._job, workers=workers, address=self._address)

    def _committed_before(self, folder: Path) -> dict[int, dict[str, Any]]:
        found: dict[int, dict[str, Any]] = {}
        for block in self._blocks:
            if self._in_order and len(found) < block.number:
                # It started from the state of a block that will be scored again.
                self._folder.discard(block.number)
            elif (made := commitment(folder, block.number)) is not None:
                found[block.number] = made
        return found

    def _committed(self, number: int) -> dict[str, Any]:
        made = commitment(self._job.folder, number)
        if made is None:
            expected = "a folder on a file system that the workers have too"
            raise InvalidArgument("out", str(self._job.folder), f"{expected}; block {number} is not in it")
        return made

    def _summed(self) -> Scoring:
        scoring = Scoring(self.recipe, failure_limit=self._failure_limit)
        for number in sorted(self._commitments):
            scoring.include(self._commitments[number]["summary"])
        return scoring

    def _take_back(self) -> None:
        """An observer that was out of order must be asked again about the blocks it failed on."""
        for number, made in self._commitments.items():
            alone = Scoring(self.recipe, failure_limit=self._failure_limit)
            alone.include(made["summary"])
            try:
                alone.check()
            except ObserverFailing:
                self._folder.discard(number)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._undo.__exit__(kind, error, trace)
