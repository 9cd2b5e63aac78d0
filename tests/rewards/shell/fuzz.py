"""Mutates the corpora and looks for an analysis that raises or does not come to an end.

    python -m tests.rewards.shell.fuzz SECONDS [SEED]

Inputs that lead somewhere new (a node, a deed or a reason not seen before, or much time) are kept in fuzz_corpus.json,
which the suite replays.
"""

from __future__ import annotations

import json
import random
import signal
import sys
import time
from pathlib import Path

from apportion.rewards.shell import Effect, State, Workspace, analyse
from apportion.rewards.shell.marks import UNKNOWN
from tests.rewards.shell.test_corpus import GROUPS, INNOCENT

CORPUS = Path(__file__).with_name("fuzz_corpus.json")
SLOW = 2.0
HANG = 20
KEPT = 300
TOKENS = ["'", '"', '`', '$(', ')', '${', '}', '{', '|', '||', '&&', ';', '\n', '<<E\n', '\nE\n', '<<<',
          '>', '>>', '<(', '$x', '${x:-', '${!x}', '${x//a/b}', '$((', '))', '[[', ']]', '*', '?',
          '[a]', '{1..9}', '{a,b}', '\\', '~', '/', '..', 'eval ', 'sh -c ', 'xargs ', 'find . -exec ',
          'git ', 'python3 -c ', 'exec(', 'for i in ', '; do ', '; done', 'f() {', 'if ', 'then ', 'fi',
          'case x in ', 'esac', 'x=$x$x', '\x00', '\ue000', '\ud800', '\xe9', '\t', '#', '!', '%s', '&',
          'alias f=f;f', 'f(){ f;};f', 'a=(b c)', '$@', '-rf', '--', '=', '+=', 'base64 -d', '((((']  # fmt: skip


def seeds() -> list[str]:
    """Every command line of the corpora."""
    groups = [*(entries for _, entries in GROUPS.values()), INNOCENT]
    return ["\n".join((entry,) if isinstance(entry, str) else entry) for group in groups for entry in group]


def mutate(text: str, pool: list[str], chance: random.Random) -> str:
    """One to four random edits."""
    for _ in range(chance.randint(1, 4)):
        at = chance.randint(0, len(text))
        upto = min(len(text), at + chance.randint(0, 12))
        choice = chance.randrange(7)
        if choice == 0:
            text = text[:at] + chance.choice(TOKENS) + text[at:]
        elif choice == 1:
            text = text[:at] + text[upto:]
        elif choice == 2:
            text = text[:at] + text[at:upto] * chance.choice([2, 3, 40]) + text[upto:]
        elif choice == 3:
            other = chance.choice(pool)
            text = text[:at] + other[chance.randint(0, len(other)) :]
        elif choice == 4:
            text = chance.choice(
                ["sh -c '{}'", 'eval "{}"', "({})", "$({})", "x=`{}`", "f() {{ {}; }}; f", "{} | sh"]
            ).format(text)
        elif choice == 5:
            text = text[:at] + chr(chance.choice([0, 9, 10, 39, 34, 92, 127, 0x2028, 0xE003, 0x10FFFF])) + text[at:]
        else:
            text = chance.choice(TOKENS) * chance.choice([1, 1, 50, 400]) + text
    return text[:8_000]


def signature(effects: list[Effect]) -> frozenset[str]:
    """What an analysis found, without the words of its input."""
    return frozenset(
        f"{effect.kind}/{effect.node}/{UNKNOWN in effect.path}/{effect.how.split()[0] * (effect.kind == 'unknown')}"
        for effect in effects
    )


def run(text: str) -> tuple[frozenset[str], float]:
    """Analyses one input twice in one rollout, under an alarm."""
    started = time.process_time()
    signal.alarm(HANG)
    try:
        state = State(Workspace())
        effects = analyse(text, state)
        analyse(text, state, language="python" if len(text) % 2 else "shell")
    finally:
        signal.alarm(0)
    return signature(effects), time.process_time() - started


def _hangs(*_: object) -> None:
    raise TimeoutError(f"still running after {HANG} s")


def main(seconds: float, seed: int) -> int:
    """Runs for so long; returns the number of failures."""
    signal.signal(signal.SIGALRM, _hangs)
    chance = random.Random(seed)
    pool, seen, kept = seeds(), set[str](), list[str]()
    failures = runs = 0
    slowest, until = 0.0, time.monotonic() + seconds
    for text in pool:
        seen |= run(text)[0]
    while time.monotonic() < until:
        text = mutate(chance.choice(pool), pool, chance)
        runs += 1
        try:
            found, took = run(text)
        except Exception as error:  # noqa: BLE001 - whatever it raises is what the fuzzer looks for
            failures += 1
            kept.append(text)
            sys.stdout.write(f"{type(error).__name__}: {error}: {text!r}\n")
            continue
        slowest = max(slowest, took)
        if took > SLOW:
            failures += 1
            sys.stdout.write(f"{took:.1f} s: {text!r}\n")
        if found - seen or took > SLOW / 4:
            seen |= found
            pool.append(text)
            kept.append(text)
    kept = kept[-KEPT:]
    CORPUS.write_text(json.dumps(sorted(set(kept)), indent=0, ensure_ascii=True) + "\n", encoding="utf-8")
    sys.stdout.write(f"{runs} inputs, {failures} failures, slowest {slowest:.2f} s, {len(set(kept))} kept\n")
    return failures


if __name__ == "__main__":
    sys.exit(min(main(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0), 1))
