"""A transformers model behind veRL's interface of an inference server."""

from __future__ import annotations

import os
from typing import Any

import ray
import torch
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, TokenOutput


def _name(rank: int, *, teacher: bool = False) -> str:
    return f"cpu_server_{'teacher_' if teacher else ''}{rank}"


@ray.remote(num_cpus=1)
class Server:
    """Samples one request at a time; scores a prompt where `prompt_logprobs` asks for it, as a teacher does."""

    def __init__(self, path: str) -> None:
        from transformers import AutoModelForCausalLM

        torch.set_num_threads(1)
        torch.manual_seed(0)
        self.model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="eager").eval()
        self.step = 0

    async def generate(
        self, request_id: str, prompt_ids: list[int], sampling_params: dict[str, Any], **_: Any
    ) -> TokenOutput:
        with torch.no_grad():
            if sampling_params.get("prompt_logprobs") is not None:
                return self._score(prompt_ids, int(sampling_params["prompt_logprobs"]))
            return self._sample(prompt_ids, sampling_params)

    def _sample(self, prompt_ids: list[int], sampling_params: dict[str, Any]) -> TokenOutput:
        most = int(sampling_params.get("max_tokens") or sampling_params.get("max_new_tokens") or 8)
        temperature = float(sampling_params.get("temperature", 1.0))
        given, past = torch.tensor([list(prompt_ids)]), None
        ids: list[int] = []
        logps: list[float] = []
        ended = False
        while len(ids) < most and not ended:
            out = self.model(input_ids=given, past_key_values=past, use_cache=True)
            past = out.past_key_values
            logp = torch.log_softmax(out.logits[0, -1].float() / (temperature or 1.0), -1)
            token = int(torch.multinomial(logp.exp(), 1)) if temperature else int(logp.argmax())
            ids.append(token)
            logps.append(float(logp[token]))
            given, ended = torch.tensor([[token]]), token == self.model.config.eos_token_id
        return self._output(ids, logps, "completed" if ended else "length")

    def _score(self, prompt_ids: list[int], top: int) -> TokenOutput:
        ids = torch.tensor([list(prompt_ids)])
        logps = torch.log_softmax(self.model(input_ids=ids).logits[0].float(), -1)[:-1]
        best, which = logps.topk(top, -1) if top else (logps.gather(1, ids[0, 1:, None]), ids[0, 1:, None])
        last = [[0] * max(top, 1)]
        made = {"prompt_ids": which.tolist() + last, "prompt_logprobs": best.tolist() + last}
        return self._output([0], [0.0], "completed", **made)

    def _output(self, ids: list[int], logps: list[float], stop: str, **more: Any) -> TokenOutput:
        extra = {"global_steps": self.step, **more}
        return TokenOutput(token_ids=ids, log_probs=logps, stop_reason=stop, num_preempted=0, extra_fields=extra)

    async def load(self, weights: dict[str, torch.Tensor], step: int | None) -> None:
        self.model.load_state_dict(weights, strict=False)
        self.step = self.step if step is None else step

    async def wake_up(self, tags: Any = None) -> None: ...

    async def sleep(self) -> None: ...

    async def clear_kv_cache(self) -> None: ...

    async def abort_all_requests(self, **_: Any) -> None: ...

    async def resume_generation(self) -> None: ...


class Replica(RolloutReplica):
    """One server in an actor of its own."""

    async def launch_servers(self) -> None:
        name = _name(self.replica_rank, teacher=self.is_teacher_model)
        server = Server.options(name=name).remote(self.model_config.path)
        self.servers, self._server_handle, self._server_address = [server], server, f"cpu://{self.replica_rank}"


class Adapter(BaseRollout):
    """The training side: sends its weights to the server."""

    async def resume(self, tags: list[str]) -> None: ...

    async def release(self) -> None: ...

    async def update_weights(
        self, weights: Any, wire_format: str = "named_tensors", global_steps: int | None = None, **_: Any
    ) -> None:
        copied = {name: tensor.detach().to("cpu", torch.float32).clone() for name, tensor in weights}
        await ray.get_actor(_name(int(os.environ.get("RANK", "0")))).load.remote(copied, global_steps)
