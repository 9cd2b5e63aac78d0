"""Suite-wide settings: one torch thread per process, no network, and how hard Hypothesis looks."""

import os

import pytest
import torch
from hypothesis import HealthCheck, settings

# The suite runs one process per core; more threads than that only wait for each other.
torch.set_num_threads(1)
# Nothing in the suite may load a model or a data set from a hub; say so at once instead of timing out.
os.environ.setdefault("HF_HUB_OFFLINE", "1")

settings.register_profile(
    "local",
    deadline=None,  # the first call of a kernel is slow on any machine
    max_examples=int(os.environ.get("APPORTION_EXAMPLES", "60")),
    suppress_health_check=[HealthCheck.too_slow],
)
# A build must not fail for a reason that its change did not bring: same examples every time.
settings.register_profile("ci", settings.get_profile("local"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


# Tests with an environment, or a target, of their own: where they are, what they need, how to run them.
ELSEWHERE = (
    ("tests/vllm/", "tests of tests/vllm need vLLM", "make test-vllm"),
    ("tests/integrations/verl_adapter/test_main_ppo.py", "runs of veRL's own trainer take minutes", "make test-verl"),
)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Skipped tests are a dot among thousands: those that run elsewhere are named."""
    for place, what, target in ELSEWHERE:
        skipped = [one for one in terminalreporter.stats.get("skipped", []) if one.nodeid.startswith(place)]
        if skipped:
            terminalreporter.write_line(f"{len(skipped)} {what}: run them with {target}")
