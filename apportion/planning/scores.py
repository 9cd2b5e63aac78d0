"""What a Beta(a, b) belief about a prompt's pass rate is worth, as functions of its two counts.

n = a + b is the evidence, p = a / n the expected pass rate. `learnability` grows with n and `information` falls: of two
prompts with the same p the first prefers the one that is known better, the second the one that is known less.
"""

from __future__ import annotations

import math
from typing import Any

from scipy.special import digamma

from apportion.errors import InvalidArgument

__all__ = ["entropy_information", "information", "learnability"]


def learnability(a: float, b: float) -> float:
    """Expected variance of one outcome: E[p (1 - p)] = a b / (n (n + 1)).

    Example:
        >>> [round(learnability(*beta), 4) for beta in ((2, 2), (8, 8), (1, 3))]
        [0.2, 0.2353, 0.15]

    Source: ThinkPrior, arXiv 2609.09075.
    """
    _check(a, b)
    n = a + b
    return a * b / (n * (n + 1))


def information(a: float, b: float, *, rollouts: int = 1) -> float:
    """How much of the variance of the pass rate k outcomes take away: k p (1 - p) / ((n + 1) (n + k)).

    Args:
        a: successes, the prior's included; > 0.
        b: failures, the prior's included; > 0.
        rollouts: k, at least 1.

    Example:
        >>> round(information(2, 2), 4), round(information(2, 2, rollouts=8), 4)
        (0.01, 0.0333)

    Source: derived from the Beta-Bernoulli model of InSight, arXiv 2603.01907; a reconstruction.
    """
    _check(a, b)
    if not rollouts >= 1:
        raise InvalidArgument("rollouts", rollouts, "a number >= 1")
    n = a + b
    return rollouts * (a / n) * (b / n) / ((n + 1) * (n + rollouts))


def entropy_information(a: float, b: float) -> float:
    """What one outcome tells about the pass rate, in nats: H(p) - E[H(p)].

        E[H] = -(a / n) (psi(a + 1) - psi(n + 1)) - (b / n) (psi(b + 1) - psi(n + 1))

    Example:
        >>> round(entropy_information(2, 2), 4), round(entropy_information(8, 8), 4)
        (0.1098, 0.0303)

    Source: InSight, arXiv 2603.01907, of which a summary was read.
    """
    _check(a, b)
    n = a + b
    psi: Any = digamma([a + 1, b + 1, n + 1])
    expected = -(a / n) * float(psi[0] - psi[2]) - (b / n) * float(psi[1] - psi[2])
    entropy = -sum(p * math.log(p) for p in (a / n, b / n))
    # The two are equal up to rounding where much is known.
    return max(entropy - expected, 0.0)


def _check(a: float, b: float) -> None:
    for name, count in (("a", a), ("b", b)):
        if not 0 < count < math.inf:
            raise InvalidArgument(name, count, "a finite number > 0")
