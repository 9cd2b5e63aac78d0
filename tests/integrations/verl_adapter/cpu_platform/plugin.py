"""Loaded by `import verl` in every process (VERL_USE_EXTERNAL_MODULES): what veRL lacks on a machine without a GPU."""

from __future__ import annotations

import contextlib
import os
import uuid
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch.distributed
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import PlatformRegistry

from tests.integrations.verl_adapter.cpu_platform import CAPTURE, HERE, ROLLOUT

_MEMORY = ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved")


class _Device(ModuleType):
    """torch.cpu with the calls that only an accelerator has: no memory is counted, nothing is cached."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in _MEMORY:
            return lambda *_, **__: 0
        if name == "get_device_name":
            return lambda *_, **__: "cpu"
        if name == "mem_get_info":
            return lambda *_, **__: (1 << 33, 1 << 34)
        return getattr(torch.cpu, name, lambda *_, **__: None)


# The registry asks for a class with every one of these; each is a constant here.
_CONSTANT: dict[str, Any] = {
    "is_available": True,
    "is_platform_available": True,
    "current_device": "cpu",
    "device_count": 1,
    "set_device": None,
    "synchronize": None,
    "set_allocator_settings": None,
    "empty_cache": None,
    "get_device_capability": (None, None),
    "communication_backend_name": "gloo",
    "visible_devices_envvar": "CUDA_VISIBLE_DEVICES",
    "profiler_start": None,
    "profiler_stop": None,
    # A logical resource that ray.init is told of: veRL places its workers on GPUs only.
    "ray_resource_name": "GPU",
    "ray_noset_envvars": ["RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"],
    "is_ipc_supported": False,
    "cudart": None,
}


def _constant(value: Any) -> Any:
    return lambda self, *_, **__: value


PlatformCPU = PlatformRegistry.register(platform="cpu")(
    type(
        "PlatformCPU",
        (PlatformBase,),
        {
            "__module__": __name__,
            "device_name": "cpu",
            "vendor_name": "generic",
            "device_module": _Device("cpu_device"),
            "manual_seed": lambda self, seed: torch.manual_seed(seed),
            "manual_seed_all": lambda self, seed: torch.manual_seed(seed),
            "nvtx_range": lambda self, message: contextlib.nullcontext(),
            **{name: _constant(value) for name, value in _CONSTANT.items()},
        },
    )
)


def _capture(kind: str, data: Any) -> None:
    """The tensors of a mini-batch as they reached the engine, one file each."""
    folder = os.environ.get(CAPTURE)
    if folder is None:
        return
    wanted = ("responses", "response_mask", "rm_scores", "token_level_rewards", "advantages", "returns", "values")
    found = {name: data[name] for name in wanted if name in data}
    padded = {name: t.to_padded_tensor(0) if t.is_nested else t for name, t in found.items()}
    if "uid" in data:
        padded["uid"] = list(data["uid"])
    order = len(list(Path(folder).glob("*.pt")))
    part = Path(folder) / f"{order:03d}.{kind}.{uuid.uuid4().hex}.part"
    torch.save(padded, part)
    part.rename(part.with_suffix(".pt"))


def _engines() -> None:
    from verl.workers.engine import EngineRegistry
    from verl.workers.engine.fsdp import transformer_impl as fsdp

    # A reference model is always offloaded, from pinned memory; here it is where it belongs already.
    fsdp.CPUOffloadPolicy = lambda **_: None

    def watched(kind: str, base: type) -> type:
        def train_batch(self: Any, data: Any, loss_function: Any) -> Any:
            _capture(kind, data)
            return base.train_batch(self, data, loss_function)  # type: ignore[attr-defined]

        return type(f"Cpu{base.__name__}", (base,), {"__module__": __name__, "train_batch": train_batch})

    for model, base in (("language_model", fsdp.FSDPEngineWithLMHead), ("value_model", fsdp.FSDPEngineWithValueHead)):
        EngineRegistry.register(model, ["fsdp", "fsdp2"], device="cpu")(watched(model, base))


def _rollout() -> None:
    from verl.workers.rollout.base import _ROLLOUT_REGISTRY
    from verl.workers.rollout.replica import RolloutReplicaRegistry

    def load() -> type:
        from tests.integrations.verl_adapter.cpu_platform.rollout import Replica

        return Replica

    _ROLLOUT_REGISTRY[(ROLLOUT, "async")] = f"{HERE}.rollout.Adapter"
    RolloutReplicaRegistry.register(ROLLOUT, load)


def _patches() -> None:
    """What no setting reaches: a doubled backend name, flash attention for critics, and a class that TRL has lost."""
    import verl.utils.import_utils as imports

    # With a TRL of 2026 beside it veRL 0.9.1 cannot build an actor: it imports a class that is not there any more.
    imports.is_trl_available = lambda: False
    start = torch.distributed.init_process_group

    def init_process_group(backend: Any = None, *args: Any, **kwargs: Any) -> Any:
        return start("gloo" if backend == "cpu:gloo,cpu:gloo" else backend, *args, **kwargs)

    torch.distributed.init_process_group = init_process_group
    from transformers import AutoModelForTokenClassification

    load = AutoModelForTokenClassification.from_pretrained.__func__

    def from_pretrained(cls: type, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("attn_implementation") == "flash_attention_2":
            kwargs["attn_implementation"] = "eager"
        return load(cls, *args, **kwargs)

    AutoModelForTokenClassification.from_pretrained = classmethod(from_pretrained)


if os.environ.get("VERL_PLATFORM") == "cpu":
    _patches()
    _engines()
    _rollout()
