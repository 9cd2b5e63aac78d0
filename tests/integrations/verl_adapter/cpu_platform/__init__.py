"""A platform on which veRL's own trainer runs without a GPU: everything but the sampling engine is veRL's.

plugin    what every process loads: the platform, the training engines, the rollout engine
rollout   a transformers model behind veRL's interface of an inference server
tiny      a random two-layer Qwen3, a tokenizer made in code, a data set
loops     a scripted agent loop of one to three turns
harness   `run_main_ppo`: a real `verl.trainer.main_ppo` in a process of its own, and what its actor was given
"""

HERE = __name__
# The name of the rollout engine in veRL's settings, and the variable with the folder that mini-batches are kept in.
ROLLOUT = "cpu"
CAPTURE = "VERL_CPU_CAPTURE"
# In it: what the agent loop saw, a line per session.
SESSIONS = "sessions.jsonl"
