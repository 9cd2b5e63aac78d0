"""The terminal task trained through TRL itself: outcome only against RLVP, from the same imitated weights.

imitate -> CreditGRPOTrainer(rollout_func: Environment + play_all, token by token) -> fresh episodes, measured

python benchmarks/learning/trl_terminal.py            # about three minutes on one core; writes RESULTS-trl-terminal.md
python benchmarks/learning/trl_terminal.py --quick    # a few seconds, into a folder of your choice; no claims
"""

from __future__ import annotations

import argparse
import copy
import platform
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import torch
import trl
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from apportion.environments import Environment, Task, Terminal
from apportion.environments.environment import MOVE_LENGTH
from apportion.environments.policy import play_all, rollouts, tiny_policy
from apportion.environments.training import Metrics, imitate, measure
from apportion.integrations.trl import CreditGRPOTrainer
from apportion.recipe import Recipe
from apportion.recipes import load

HERE = Path(__file__).parent
GROUP_SIZE = 8
ARMS: dict[str, Callable[[], Recipe]] = {
    "outcome only": lambda: load("grpo"),
    "RLVP": lambda: load("rlvp", variant="c2"),
}
COLOURS = {"outcome only": "#b5482f", "RLVP": "#2f6db5"}

PAGE = """# The terminal task through TRL

Written by `python benchmarks/learning/trl_terminal.py`. Means over the seeds, smallest and largest in brackets;
{episodes} fresh episodes per number and seed, of seeds that training never draws.

| arm | success | violations per episode | episodes with a violation | turns | seconds per run |
| --- | --- | --- | --- | --- | --- |
{rows}

![Violations and success while training](trl-terminal.png)

| claim | holds |
| --- | --- |
{claims}

## Every run

| seed | arm | success before | after | violations before | after | seconds |
| --- | --- | --- | --- | --- | --- | --- |
{each}

## How

Both arms start from the same weights: `tiny_policy` after {warm_steps} steps of imitation. Then {steps} steps of
`CreditGRPOTrainer` with {prompts} prompts x {group_size} rollouts from a `rollout_func`, the same prompts and sampling
seeds in both arms; learning rate 2e-3, `loss_type="dapo"`. The arms differ in the recipe only: `grpo`, and `rlvp` with
`variant="c2"`.

{packages}; Python {python}; one thread of an {cpu}.
"""


@dataclass(frozen=True)
class Size:
    """How much is run."""

    seeds: int
    warm_steps: int
    steps: int
    prompts: int
    held_out: int


FULL = Size(seeds=3, warm_steps=150, steps=60, prompts=16, held_out=64)
QUICK = Size(seeds=1, warm_steps=20, steps=3, prompts=4, held_out=8)


@dataclass(frozen=True)
class Run:
    """One arm of one seed; `history` has the measures of every step's own rollouts, before it learned from them."""

    arm: str
    seed: int
    before: Metrics
    after: Metrics
    history: Sequence[Metrics]
    seconds: float


class Sampler:
    """A `rollout_func`: episodes of the seeds that the prompts name, sampled from the policy that is being trained."""

    def __init__(self, task: Task[Any], seed: int) -> None:
        self.task, self.generator = task, torch.Generator().manual_seed(seed)
        self.history: list[Metrics] = []

    def __call__(self, prompts: Sequence[str], trainer: Any) -> dict[str, Any]:
        environments = [Environment(self.task) for _ in prompts]
        for environment, prompt in zip(environments, prompts, strict=True):
            environment.reset(int(prompt))
        logps = play_all(trainer.model, environments, generator=self.generator)
        played = [
            environment.trajectory(id=str(i), group=prompts[i], logps=logps[i])
            for i, environment in enumerate(environments)
        ]
        self.history.append(measure(played))
        return {
            "prompt_ids": [t.prompt_ids.tolist() for t in played],
            "completion_ids": [t.response_ids.tolist() for t in played],
            "logprobs": [np.nan_to_num(t.behaviour_logps).tolist() for t in played],
            "env_mask": [t.policy.astype(int).tolist() for t in played],
            "turn_columns": [[dict(turn.columns) for turn in t.turns] for t in played],
            "rollout_status": [t.status for t in played],
            "solved": [t.columns["reward"] for t in played],
        }


def solved(solved: Sequence[float], **_: Any) -> list[float]:
    """The outcome, as a reward function of TRL."""
    return list(solved)


def words_of(task: Task[Any]) -> PreTrainedTokenizerFast:
    """The task's vocabulary as a tokenizer; TRL decodes completions for its tables and never encodes anything here."""
    listed = {word: i for i, word in enumerate(task.vocabulary.words)}
    made = Tokenizer(models.WordLevel(vocab=listed, unk_token="malformed"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    # What pads is masked; the end of an episode comes from the environment, not from a token.
    return PreTrainedTokenizerFast(tokenizer_object=made, pad_token="nothing", eos_token="nothing")


def trained(
    policy: PreTrainedModel, task: Task[Any], recipe: Recipe, *, seed: int, size: Size, folder: Path
) -> Sampler:
    """The policy, trained in place by TRL."""
    sampler = Sampler(task, seed)
    drawn = np.random.default_rng(seed).choice(2**31, size=size.steps * size.prompts, replace=False)
    config = trl.GRPOConfig(
        output_dir=str(folder),
        max_steps=size.steps,
        per_device_train_batch_size=size.prompts * GROUP_SIZE,
        num_generations=GROUP_SIZE,
        max_completion_length=task.max_turns * (MOVE_LENGTH + task.observation_length),
        learning_rate=2e-3,
        lr_scheduler_type="constant",
        loss_type="dapo",
        # Saves memory that a model of this size does not need.
        gradient_checkpointing=False,
        seed=seed,
        bf16=False,
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
    )
    trainer = CreditGRPOTrainer(
        recipe=recipe,
        model=policy,
        reward_funcs=solved,
        args=config,
        train_dataset=datasets.Dataset.from_dict({"prompt": [str(number) for number in drawn]}),
        processing_class=words_of(task),
        rollout_func=sampler,
    )
    trainer.train()
    return sampler


def held_out(policy: PreTrainedModel, task: Task[Any], size: Size) -> Metrics:
    """Fresh episodes of seeds that training never draws."""
    generator = torch.Generator().manual_seed(0)
    seeds = [2**31 + number for number in range(size.held_out)]
    return measure(rollouts(policy, task, seeds, group_size=GROUP_SIZE, generator=generator))


def runs(size: Size) -> list[Run]:
    """Every arm from the same weights, for every seed."""
    task, done = Terminal(), []
    for seed in range(size.seeds):
        base = tiny_policy(task, seed=seed)
        imitate(base, task, seed=seed, steps=size.warm_steps)
        before = held_out(base, task, size)
        for arm, recipe in ARMS.items():
            policy, began = copy.deepcopy(base), time.perf_counter()
            with tempfile.TemporaryDirectory() as folder:
                sampler = trained(policy, task, recipe(), seed=seed, size=size, folder=Path(folder))
            seconds = time.perf_counter() - began
            made = Run(arm, seed, before, held_out(policy, task, size), sampler.history, seconds)
            print(f"seed {seed}, {arm}: {shown(before)} -> {shown(made.after)}, {seconds:.0f} s", flush=True)
            done.append(made)
    return done


def shown(metrics: Metrics) -> str:
    return f"success {metrics.success:.3f}, violations {metrics.violations:.2f}"


def holds(done: Sequence[Run]) -> dict[str, bool]:
    """The claims, each over all seeds."""
    by_arm = {arm: [run for run in done if run.arm == arm] for arm in ARMS}
    return {
        "RLVP: at most 0.1 violations per episode, on every seed": all(
            r.after.violations <= 0.1 for r in by_arm["RLVP"]
        ),
        "RLVP: success at least 0.9, on every seed": all(r.after.success >= 0.9 for r in by_arm["RLVP"]),
        "outcome only: at least 1 violation per episode, on every seed": all(
            r.after.violations >= 1.0 for r in by_arm["outcome only"]
        ),
        "outcome only: success at least 0.95, on every seed": all(
            r.after.success >= 0.95 for r in by_arm["outcome only"]
        ),
    }


def report(done: Sequence[Run], size: Size) -> str:
    """The page, as Markdown."""
    starts = [run.before for run in done if run.arm == "RLVP"]
    rows = [row("imitation only", starts, "")]
    for arm in ARMS:
        seconds = [run.seconds for run in done if run.arm == arm]
        rows.append(row(arm, [run.after for run in done if run.arm == arm], f"{np.mean(seconds):.0f}"))
    each = [
        f"| {r.seed} | {r.arm} | {r.before.success:.3f} | {r.after.success:.3f} | {r.before.violations:.2f} "
        f"| {r.after.violations:.2f} | {r.seconds:.0f} |"
        for r in done
    ]
    packages = ", ".join(f"{name} {version(name)}" for name in ("trl", "transformers", "torch", "apportion"))
    claims = [f"| {claim} | {'yes' if true else 'NO'} |" for claim, true in holds(done).items()]
    return PAGE.format(
        episodes=size.held_out * GROUP_SIZE,
        rows="\n".join(rows),
        claims="\n".join(claims),
        each="\n".join(each),
        warm_steps=size.warm_steps,
        steps=size.steps,
        prompts=size.prompts,
        group_size=GROUP_SIZE,
        packages=packages,
        python=platform.python_version(),
        cpu=cpu(),
    )


def row(name: str, measured: Sequence[Metrics], seconds: str) -> str:
    def cell(what: str, digits: int) -> str:
        values = [asdict(one)[what] for one in measured]
        spread = f" ({min(values):.{digits}f} to {max(values):.{digits}f})" if len(values) > 1 else ""
        return f"{np.mean(values):.{digits}f}{spread}"

    cells = [cell("success", 3), cell("violations", 2), cell("violating", 2), cell("turns", 1)]
    return f"| {name} | {' | '.join(cells)} | {seconds} |"


def cpu() -> str:
    """The processor's model, where the system tells."""
    listed = Path("/proc/cpuinfo")
    lines = listed.read_text().splitlines() if listed.is_file() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


def plot(done: Sequence[Run], path: Path) -> None:
    """Violations and success of every step's own rollouts; thin lines are seeds, thick ones their mean."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
    for axis, what, title in zip(axes, ("violations", "success"), ("violations per episode", "success"), strict=True):
        for arm, colour in COLOURS.items():
            curves = np.array([[asdict(step)[what] for step in run.history] for run in done if run.arm == arm])
            axis.plot(curves.T, color=colour, linewidth=0.6, alpha=0.4)
            axis.plot(curves.mean(0), color=colour, linewidth=2, label=arm)
        axis.set(title=title, xlabel="optimiser step", ylim=(0, None))
        axis.spines[["top", "right"]].set_visible(False)
    axes[1].legend(frameon=False, loc="lower right")
    figure.savefig(path, dpi=100)
    plt.close(figure)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few steps, to see that it runs")
    parser.add_argument("--out", type=Path, help="folder for the page and the plot; default: beside this file")
    given = parser.parse_args(arguments)
    if given.quick and given.out is None:
        parser.error("--quick needs --out, so that it does not replace the results")
    size, out = (QUICK, given.out) if given.quick else (FULL, given.out or HERE)
    warnings.filterwarnings("ignore", message="You are using 'rollout_func'")
    torch.set_num_threads(1)
    done = runs(size)
    out.mkdir(parents=True, exist_ok=True)
    (out / "RESULTS-trl-terminal.md").write_text(report(done, size), encoding="utf-8")
    plot(done, out / "trl-terminal.png")
    missed = [] if given.quick else [claim for claim, true in holds(done).items() if not true]
    for claim in missed:
        print(f"does not hold: {claim}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
