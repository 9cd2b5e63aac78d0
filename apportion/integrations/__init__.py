"""Where credit meets the outside world: trainers, and the files that rollouts come in.

    actions    tool calls and commands, as the policy wrote them
    files      rollout files: native JSONL and Parquet, message lists, replies with rewards, SWE-agent runs
    ray        scoring in blocks by many workers, in runs that resume
    trl        per-token credit in GRPOTrainer, and rewards as its reward functions
    verl       recipes as advantage estimators, rewards as reward functions, turns in agent loops

Nothing here is imported by the rooms below it: rewards, advantages and recipes know no file and no trainer.
"""
