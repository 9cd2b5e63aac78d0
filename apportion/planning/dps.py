"""DPS: a hidden state per prompt (all fail, some pass, all pass) that moves, with learnt transitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from apportion.errors import InvalidArgument
from apportion.planning._state import checked
from apportion.planning.planner import Rewards, known_rewards

__all__ = ["DPS"]

_FAIL, _PARTIAL, _PASS = range(3)
Array = npt.NDArray[np.float64]


class DPS:
    """Dynamics-predictive sampling: how likely a prompt's next group is mixed.

        P = A with columns that sum to 1,  A[to, from] counts, all ones at first        score = (P b)[partial]
        visited, state e seen     A <- discount A + (1 - discount) + (e b') * P / sum,   b <- e
        not visited               A <- discount A + (1 - discount),                       b <- P b

    b is the belief about the present state, uniform at first. A prompt counts as visited when at least one reward of it
    is known; all others that were ever visited drift at every update.

    Args:
        discount: xi in [0, 1]; the released scripts use 0.5, its configuration file 1.

    Raises:
        InvalidArgument: a discount outside [0, 1].

    Example:
        >>> planner = DPS(discount=0.5)
        >>> planner.update({"q": [1.0, 0.0]})
        >>> [round(v, 4) for v in planner.predicted("q")]
        [0.3, 0.4, 0.3]
        >>> planner.update({"q": [1.0, 1.0]})
        >>> [round(v, 4) for v in planner.predicted("q")]
        [0.3158, 0.3684, 0.3158]

    Source: arXiv 2603.10887 and its code, which offers 8 times as many candidates as it selects. The order of the two
    steps for a prompt that was not visited is a reconstruction.
    """

    def __init__(self, *, discount: float = 0.5) -> None:
        if not 0 <= discount <= 1:
            raise InvalidArgument("discount", discount, "a number in [0, 1]")
        self._discount = discount
        self._row: dict[str, int] = {}
        self._counts: Array = np.ones((0, 3, 3))
        self._belief: Array = np.ones((0, 3))

    def predicted(self, prompt: str) -> tuple[float, float, float]:
        """The probabilities that the next group fails as a whole, is mixed, and passes as a whole."""
        if prompt not in self._row:
            return (1 / 3, 1 / 3, 1 / 3)
        row = self._row[prompt]
        fail, partial, passed = (_transitions(self._counts[row]) @ self._belief[row]).tolist()
        return fail, partial, passed

    def score(self, prompt: str) -> float:
        """The probability that the next group is mixed."""
        return self.predicted(prompt)[_PARTIAL]

    def update(self, rewards: Rewards) -> None:
        """See the states of the visited prompts, and let all others drift.

        Args:
            rewards: prompt -> rewards in [0, 1], None for what is missing.

        Raises:
            InvalidArgument: a reward outside [0, 1].
        """
        seen = known_rewards(rewards)
        new = [prompt for prompt in seen if prompt not in self._row]
        self._row |= {prompt: len(self._row) + i for i, prompt in enumerate(new)}
        counts = np.concatenate([self._counts, np.ones((len(new), 3, 3))])
        belief = np.concatenate([self._belief, np.full((len(new), 3), 1 / 3)])
        moves = _transitions(counts)
        counts = self._discount * counts + (1 - self._discount)
        after = np.einsum("ptf,pf->pt", moves, belief)
        rows = np.array([self._row[prompt] for prompt in seen], dtype=np.int64)
        states = np.array([_state(row) for row in seen.values()], dtype=np.int64)
        joint = belief[rows] * moves[rows, states]
        counts[rows, states] += joint / joint.sum(1, keepdims=True)
        after[rows] = np.eye(3)[states]
        self._counts, self._belief = counts, after

    def state_dict(self) -> dict[str, Any]:
        """Transition counts and beliefs of every prompt ever visited."""
        return {
            "kind": "DPS",
            "prompts": list(self._row),
            "counts": self._counts.tolist(),
            "belief": self._belief.tolist(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state.

        Raises:
            InvalidArgument: the state of another planner, or arrays of the wrong shape.
        """
        found = checked(state, "DPS", ["prompts", "counts", "belief"])
        n = len(found["prompts"])
        try:
            counts = np.array(found["counts"], dtype=np.float64).reshape(n, 3, 3)
            belief = np.array(found["belief"], dtype=np.float64).reshape(n, 3)
        except ValueError as error:
            raise InvalidArgument("state", n, f"3 x 3 counts and 3 beliefs of each of the {n} prompts") from error
        self._row = {prompt: i for i, prompt in enumerate(found["prompts"])}
        self._counts, self._belief = counts, belief


def _transitions(counts: Array) -> Array:
    made: Array = counts / counts.sum(-2, keepdims=True)
    return made


def _state(row: list[float]) -> int:
    if all(r >= 1 for r in row):
        return _PASS
    return _FAIL if all(r <= 0 for r in row) else _PARTIAL
