"""A tiny random model with a tiny tokenizer on disk, and vLLM around it: once as an engine, once as a server.

These tests have an environment of their own, `make test-vllm`: vLLM and veRL need versions of transformers that exclude
each other. In any other environment each of them says so and is skipped.
"""

import importlib.util
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

SERVED = "tiny"
WIDTH = 64
LONGEST = 128
START_SECONDS = 600

# What keeps vLLM small and offline on a CPU.
ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_DO_NOT_TRACK": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if importlib.util.find_spec("vllm") is not None:
        return
    elsewhere = pytest.mark.skip(reason="vLLM has an environment of its own: run make test-vllm")
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(elsewhere)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a random Qwen3 of two layers and a tokenizer of words."""
    import tokenizers
    import torch
    import transformers

    where = tmp_path_factory.mktemp("tiny-model")
    words = ["<|end|>", "<|unknown|>", *(f"w{index}" for index in range(WIDTH - 2))]
    table = tokenizers.models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="<|unknown|>")
    made = tokenizers.Tokenizer(table)
    made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, eos_token="<|end|>", unk_token="<|unknown|>"
    )
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }} {% endfor %}"
    tokenizer.save_pretrained(where)
    config = transformers.Qwen3Config(
        vocab_size=WIDTH,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        max_position_embeddings=LONGEST,
        initializer_range=0.3,
        eos_token_id=0,
    )
    torch.manual_seed(0)
    transformers.Qwen3ForCausalLM(config).save_pretrained(where)
    return where


@pytest.fixture(scope="session")
def local_model(tiny_model: Path) -> Any:
    """The same weights through transformers, in float32."""
    import torch
    import transformers

    return transformers.AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32)


@pytest.fixture(scope="session")
def engine(tiny_model: Path) -> Any:
    """vLLM in this process, without a prefix cache, as scoring needs it."""
    os.environ.update(ENVIRONMENT)
    # One process: the engine ends with this one, however that ends.
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    import vllm

    return vllm.LLM(
        model=str(tiny_model),
        dtype="float32",
        max_model_len=LONGEST,
        max_num_seqs=8,
        enforce_eager=True,
        enable_prefix_caching=False,
        seed=0,
    )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="session")
def server(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a running OpenAI-compatible server of the tiny model, named `SERVED`, with its prefix cache on."""
    port = free_port()
    log = tmp_path_factory.mktemp("server") / "log.txt"
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(tiny_model)]
    command += ["--served-model-name", SERVED, "--host", "127.0.0.1", "--port", str(port), "--dtype", "float32"]
    command += ["--max-model-len", str(LONGEST), "--max-num-seqs", "8", "--enforce-eager", "--enable-prefix-caching"]
    with open(log, "w", encoding="utf-8") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env={**os.environ, **ENVIRONMENT})
        try:
            address = f"http://127.0.0.1:{port}"
            wait_for(process, address, log)
            yield address
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_for(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    limit = time.monotonic() + START_SECONDS
    while time.monotonic() < limit:
        if process.poll() is not None:
            pytest.fail(f"the server ended with {process.returncode}:\n{log.read_text()[-4000:]}")
        try:
            if httpx.get(f"{address}/health", timeout=2).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.5)
    pytest.fail(f"the server did not start within {START_SECONDS} s:\n{log.read_text()[-4000:]}")
