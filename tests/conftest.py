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


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Skipped tests are a dot among thousands: what has an environment of its own is named."""
    elsewhere = [one for one in terminalreporter.stats.get("skipped", []) if one.nodeid.startswith("tests/vllm/")]
    if elsewhere:
        terminalreporter.write_line(f"{len(elsewhere)} tests of tests/vllm need vLLM: run them with make test-vllm")
