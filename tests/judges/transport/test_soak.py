"""A small run of `benchmarks/soak_judges.py`: a server that misbehaves and dies, and a judge killed on the way."""

import subprocess
import sys
from pathlib import Path

SOAK = Path(__file__).parents[3] / "benchmarks" / "soak_judges.py"


def test_three_hundred_judgements_through_a_kill_and_a_dying_server() -> None:
    command = [sys.executable, str(SOAK), "--judgements", "300", "--kills", "1", "--death-every", "100"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAILED" not in done.stdout
    assert done.stdout.count("ok     ") == 8
