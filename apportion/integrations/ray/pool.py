"""Ray Data: one row of the data set is one block, so that no split of the data can cut a group."""

from __future__ import annotations

import logging
import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from apportion._extras import require
from apportion.errors import ApportionError
from apportion.integrations.ray.worker import BlockScorer, Job

__all__ = ["answers"]

# Blocks travel as places in a file: little ever lies in Ray's own store.
_STORE_BYTES = 256 * 2**20


def answers(
    rows: Sequence[Mapping[str, Any]], job: Job, *, workers: int | None, address: str | None
) -> Generator[tuple[int, bytes]]:
    """The workers' answers, as they come: the number of a block, and its error or nothing.

    Args:
        rows: of `BlockScorer`.
        job: what they have in common.
        workers: processes; default one per CPU.
        address: of a cluster; default one of its own.

    Raises:
        MissingExtra: ray is not installed.
        ApportionError: the workers or the cluster died.
    """
    if not rows:
        return
    ray, data = require("ray", extra="ray"), require("ray.data", extra="ray")
    with _connected(ray, address):
        cpus = float(ray.cluster_resources().get("CPU", 1.0))
        size = min(workers or max(int(cpus), 1), len(rows))
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        # Ray promises the order of rows inside one of its own blocks, and of nothing else.
        blocks = data.from_items(list(rows), override_num_blocks=1 if job.in_order else len(rows))
        blocks.context.enable_progress_bars = False
        blocks.context.print_on_execution_start = False
        scored = blocks.map(
            BlockScorer,
            fn_constructor_args=(job,),
            compute=data.ActorPoolStrategy(size=size),
            num_cpus=min(1.0, cpus / size),
        )
        try:
            for row in scored.iter_rows():
                yield int(row["block"]), bytes(row["error"])
        except ray.exceptions.RayError as error:
            text = f"the workers could not go on ({type(error).__name__}: {str(error)[:500]}); what was committed stays"
            raise ApportionError(text) from error


@contextmanager
def _connected(ray: Any, address: str | None) -> Iterator[None]:
    if ray.is_initialized():
        yield
        return
    # A tool that scores files does not call home, and its messages are its own.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    own: dict[str, Any] = {"include_dashboard": False, "object_store_memory": _STORE_BYTES} if address is None else {}
    ray.init(address=address or "local", log_to_driver=False, logging_level=logging.ERROR, **own)
    try:
        yield
    finally:
        ray.shutdown()
