"""GRPO with TRL on a task with tools, as a plain script: no apportion in it. README.md shows the change to it.

pip install "trl>=1.16" jmespath
python examples/trl_grpo.py Qwen/Qwen3-0.6B
"""

import sys

import torch
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

FILES = ["a.py", "b.py", "c.py"]


class Workshop:
    """One of the files is broken. An edit that did not read the file first works all the same."""

    def reset(self, broken: str, **row: object) -> str:
        self.broken, self.repaired, self.submitted = broken, False, False
        return f" The tests fail because of {broken}."

    def read(self, path: str) -> str:
        """Show a file.

        Args:
            path: The name of the file.

        Returns:
            Its text.
        """
        return "1 + = 2" if path == self.broken and not self.repaired else "1 + 1"

    def edit(self, path: str) -> str:
        """Correct a file.

        Args:
            path: The name of the file.

        Returns:
            What happened.
        """
        self.repaired = self.repaired or path == self.broken
        return "edited"

    def submit(self) -> str:
        """Hand in the work.

        Returns:
            Whether the tests pass.
        """
        self.submitted = True
        return "passed" if self.repaired else "failed"

    def get_reward(self) -> float:
        return float(self.repaired and self.submitted)


prompt = [{"role": "user", "content": f"Repair the files {', '.join(FILES)}, then submit."}]
rows = [{"prompt": prompt, "broken": FILES[i % len(FILES)]} for i in range(300)]
args = GRPOConfig(
    output_dir="trl-grpo",
    max_steps=int(sys.argv[2]) if len(sys.argv) > 2 else 100,
    per_device_train_batch_size=4,
    num_generations=4,
    max_completion_length=512,
    logging_steps=1,
    bf16=torch.cuda.is_available(),
    report_to="none",
)
trainer = GRPOTrainer(
    model=sys.argv[1],
    args=args,
    train_dataset=Dataset.from_list(rows),
    environment_factory=Workshop,
)
trainer.train()
