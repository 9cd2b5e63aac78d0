"""Small embedded multi-turn tasks with a token-exact record: what the demo, the benchmarks and the tests train on.

Task           a seeded state machine over actions: `Terminal`, `Notebook`
Environment    plays a task token by token and records a `Trajectory`; snapshot, restore, resume from a prefix
trl            the same tasks as tool environments for TRL's `environment_factory`
policy         a tiny transformers model, batched sampling, scoring
training       imitation of scripted demonstrations, then policy gradient through a `Recipe`
"""

from __future__ import annotations

from apportion.environments.environment import Environment, Episode, Step
from apportion.environments.notebook import Notebook
from apportion.environments.task import Effect, Task, play
from apportion.environments.terminal import Terminal
from apportion.environments.vocabulary import Vocabulary

__all__ = ["Effect", "Environment", "Episode", "Notebook", "Step", "Task", "Terminal", "Vocabulary", "play"]
