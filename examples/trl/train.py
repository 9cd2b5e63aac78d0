"""Qwen3-4B with tools in TRL, one file of settings per recipe. From the root of the repository:

pip install 'apportion[trl,rules]' 'trl[vllm]'
apportion doctor --trl-config examples/trl/rlvp.yaml
accelerate launch examples/trl/train.py examples/trl/rlvp.yaml
"""

import sys
from pathlib import Path

import yaml
from datasets import Dataset
from trl import GRPOConfig

from apportion.integrations.trl import CreditGRPOTrainer, as_reward_func
from apportion.rewards import numeric, outcome

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "directory"))
from lookups import extension_of, manager_of, tasks

settings = yaml.safe_load(Path(sys.argv[1]).read_text())
model = sys.argv[2] if len(sys.argv) > 2 else "Qwen/Qwen3-4B"
credit = {name: settings.pop(name) for name in ("recipe", "recipe_args") if name in settings}
rows = [
    {
        "prompt": [{"role": "user", "content": task["question"]}],
        "reference": task["answer"],
        "facts": task["facts"],
    }
    for task in tasks(4096)
]
trainer = CreditGRPOTrainer(
    **credit,
    model=model,
    args=GRPOConfig(**settings),
    train_dataset=Dataset.from_list(rows),
    tools=[manager_of, extension_of],
    reward_funcs=[as_reward_func(outcome(numeric()))],
)
trainer.train()
