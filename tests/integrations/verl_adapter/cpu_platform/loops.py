"""Scripted agent loops: the model writes a few tokens per turn, fixed observations answer."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from uuid import uuid4

from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput

from apportion.integrations.verl.agent_loop import CreditLoop
from tests.integrations.verl_adapter.cpu_platform import CAPTURE, SESSIONS

OBSERVATION = 40


class ScriptedLoop(AgentLoopBase):
    """Session i plays 1 + i % 3 turns of up to three tokens; every turn but the last is answered by two tokens.

    What a turn broke and honoured, and what the environment paid for it, follows from the tokens that were sampled.
    """

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> AgentLoopOutput:
        turns = 1 + int(kwargs["session_id"]) % 3
        prompt = await self.ct_build_initial_tokens(list(kwargs["raw_prompt"]))
        ids: list[int] = []
        mask: list[int] = []
        logps: list[float] = []
        facts: list[dict[str, int]] = []
        paid: list[float] = []
        fields: dict[str, Any] = {}
        for turn in range(turns):
            made = await self.server_manager.generate(
                request_id=uuid4().hex, prompt_ids=prompt + ids, sampling_params={**sampling_params, "max_tokens": 3}
            )
            fields.update(made.extra_fields)
            answer = [OBSERVATION + turn] * 2 if turn < turns - 1 else []
            ids += [*made.token_ids, *answer]
            mask += [1] * len(made.token_ids) + [0] * len(answer)
            logps += [*made.log_probs, *([0.0] * len(answer))]
            odd = sum(token % 2 for token in made.token_ids)
            facts.append({"violations": odd, "fulfilments": int(odd == 0)})
            paid.append(made.token_ids[0] / 64)
        record = {"uid": kwargs["uid"], "session": int(kwargs["session_id"]), "index": int(kwargs["index"])}
        facts_of_run = {"ids": ids, "mask": mask, "turn_columns": facts, "turn_rewards": paid}
        with (Path(os.environ[CAPTURE]) / SESSIONS).open("a") as file:
            file.write(json.dumps({**record, **facts_of_run}) + "\n")
        return AgentLoopOutput(
            prompt_ids=prompt,
            response_ids=ids,
            response_mask=mask,
            response_logprobs=logps,
            num_turns=2 * turns,
            metrics=AgentLoopMetrics(),
            extra_fields={
                **fields,
                "turn_scores": [],
                "tool_rewards": [],
                **record,
                "turn_columns": facts,
                "turn_rewards": paid,
            },
        )


class CreditScriptedLoop(CreditLoop, ScriptedLoop):  # type: ignore[misc]
    """The same with its verdicts in the scores."""
