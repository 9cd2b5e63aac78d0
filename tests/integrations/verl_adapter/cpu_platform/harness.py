"""`run_main_ppo`: a real training run of veRL in a process of its own, and what its actor was given."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tests.integrations.verl_adapter.cpu_platform import CAPTURE, HERE, ROLLOUT, SESSIONS, tiny

ROOT = Path(__file__).parents[4]
# veRL waits for ever, without a word, when fewer logical CPUs than its actors need are declared.
LOGICAL_CPUS = 10


@dataclass(frozen=True, kw_only=True)
class Run:
    """What a run left.

    Attributes:
        returncode: of the process; None when it ran past its limit and was stopped.
        output: what it printed.
        actor: per optimizer step the padded tensors that reached the actor's engine, and the uids.
        sessions: what the scripted agent loop saw: uid, session, ids, mask and the facts of its turns.
    """

    returncode: int | None
    output: str
    actor: Sequence[Mapping[str, Any]]
    sessions: Sequence[Mapping[str, Any]]


def settings(folder: Path, *, prompts: int, group: int, steps: int) -> dict[str, Any]:
    """What a run needs on a machine without a GPU; nothing in it is about credit."""
    rollout, actor = "actor_rollout_ref.rollout", "actor_rollout_ref.actor"
    return {
        "data.train_files": folder / "train.parquet",
        "data.val_files": folder / "train.parquet",
        "data.train_batch_size": prompts,
        "data.max_prompt_length": 64,
        "data.max_response_length": 16,
        "data.dataloader_num_workers": 0,
        "data.shuffle": False,
        "actor_rollout_ref.model.path": folder / "model",
        "+actor_rollout_ref.model.override_config.attn_implementation": "eager",
        "actor_rollout_ref.model.use_remove_padding": False,
        "actor_rollout_ref.model.enable_gradient_checkpointing": False,
        f"{actor}.strategy": "fsdp2",
        f"{actor}.fsdp_config.dtype": "float32",
        f"{actor}.fsdp_config.model_dtype": "float32",
        f"{actor}.fsdp_config.use_torch_compile": False,
        f"{actor}.use_torch_compile": False,
        f"{actor}.ppo_mini_batch_size": prompts,
        f"{actor}.ppo_micro_batch_size_per_gpu": prompts * group,
        f"{actor}.optim.lr": 1e-3,
        "actor_rollout_ref.ref.fsdp_config.dtype": "float32",
        "actor_rollout_ref.ref.fsdp_config.model_dtype": "float32",
        "actor_rollout_ref.ref.fsdp_config.use_torch_compile": False,
        "actor_rollout_ref.ref.use_torch_compile": False,
        "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu": prompts * group,
        f"{rollout}.name": ROLLOUT,
        f"{rollout}.n": group,
        f"{rollout}.log_prob_micro_batch_size_per_gpu": prompts * group,
        f"{rollout}.tensor_model_parallel_size": 1,
        f"{rollout}.agent.num_workers": 1,
        f"{rollout}.n_gpus_per_node": 1,
        f"{rollout}.calculate_log_probs": True,
        "reward.num_workers": 1,
        "trainer.device": "cpu",
        "trainer.n_gpus_per_node": 1,
        "trainer.nnodes": 1,
        "trainer.total_training_steps": steps,
        "trainer.val_before_train": False,
        "trainer.test_freq": -1,
        "trainer.save_freq": -1,
        "trainer.logger": "[console]",
        "trainer.default_local_dir": folder / "checkpoints",
        "trainer.resume_mode": "disable",
        "transfer_queue.backend.SimpleStorage.num_data_storage_units": 1,
        "ray_kwargs.ray_init.num_cpus": LOGICAL_CPUS,
        "+ray_kwargs.ray_init.num_gpus": 1,
        "+ray_kwargs.ray_init.include_dashboard": False,
        "+ray_kwargs.ray_init.object_store_memory": 120_000_000,
        "hydra.run.dir": folder / "hydra",
    }


def run_main_ppo(
    folder: Path,
    overrides: Mapping[str, Any],
    *,
    prompts: int = 2,
    group: int = 4,
    steps: int = 2,
    limit: float = 420.0,
    loop: str = f"{HERE}.loops.ScriptedLoop",
) -> Run:
    """Train a few steps.

    Args:
        folder: empty; the model, the data and everything that the run writes go there.
        overrides: settings of veRL's on top of `settings`; None takes one away.
        prompts: per step.
        group: rollouts per prompt.
        steps: of the optimizer.
        limit: seconds after which the run is stopped.
        loop: the agent loop's class.
    """
    tiny.write(folder, prompts=prompts * steps)
    captured = folder / "captured"
    captured.mkdir()
    loops = folder / "loops.yaml"
    loops.write_text(f"- name: scripted\n  _target_: {loop}\n")
    agent = "actor_rollout_ref.rollout.agent"
    chosen = {
        **settings(folder, prompts=prompts, group=group, steps=steps),
        f"{agent}.agent_loop_config_path": loops,
        f"{agent}.default_agent_loop": "scripted",
        **overrides,
    }
    environment = {
        **os.environ,
        "VERL_PLATFORM": "cpu",
        "VERL_USE_EXTERNAL_MODULES": f"{HERE}.plugin",
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "PYTHONWARNINGS": "ignore",
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        "RAY_AUTH_MODE": "disabled",
        "RAY_DEDUP_LOGS": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        CAPTURE: str(captured),
    }
    command = [sys.executable, "-m", "verl.trainer.main_ppo"]
    command += [f"{name}={value}" for name, value in chosen.items() if value is not None]
    log = folder / "output.txt"
    with log.open("w") as out:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            code: int | None = process.wait(limit)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            _stop(process)
    batches = [torch.load(path, weights_only=False) for path in sorted(captured.glob("*.language_model.*.pt"))]
    seen = captured / SESSIONS
    sessions = [json.loads(line) for line in seen.read_text().splitlines()] if seen.exists() else []
    return Run(returncode=code, output=log.read_text(errors="replace"), actor=batches, sessions=sessions)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the driver; Ray's own processes end with it."""
    for sign, patience in ((signal.SIGTERM, 15), (signal.SIGKILL, 5)):
        if process.poll() is not None:
            return
        os.killpg(process.pid, sign)
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            continue
