"""MoPPS: draw a pass rate from every prompt's belief, take the prompts whose draw is nearest to a half."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apportion.errors import InvalidArgument
from apportion.planning._state import checked, dumped, generator, restored
from apportion.planning.beta import BetaPosterior

__all__ = ["MoPPS"]


class MoPPS(BetaPosterior):
    """Thompson sampling of the pass rate.

        score = -distance(p, band),   p ~ Beta(a, b)

    Every call of `score` draws, so two calls differ: exploration comes from the width of the belief.

    Args:
        band: the pass rates that are wanted; (0.5, 0.5) takes the nearest to a half, (0.3, 0.7) any inside.
        prior: see `BetaPosterior`.
        discount: see `BetaPosterior`.
        seed: of the draws.

    Example:
        >>> planner = MoPPS(seed=1)
        >>> planner.update({"easy": [1.0] * 30, "half": [1.0, 0.0] * 15})
        >>> planner.score("half") > planner.score("easy")
        True

    Source: MoPPS and its released code. The code's update line lacks brackets: with one rollout the whole right side
    becomes 8, whatever came before. Here one success raises a by 1.
    """

    def __init__(
        self,
        *,
        band: tuple[float, float] = (0.5, 0.5),
        prior: tuple[float, float] = (1.0, 1.0),
        discount: float = 1.0,
        seed: int = 0,
    ) -> None:
        super().__init__(prior=prior, discount=discount)
        if len(band) != 2 or not 0 <= band[0] <= band[1] <= 1:
            raise InvalidArgument("band", band, "(low, high) with 0 <= low <= high <= 1")
        self._band = band
        self._rng = generator(seed)

    def score(self, prompt: str) -> float:
        """0 for a draw inside the band, otherwise minus its distance to it."""
        rate = float(self._rng.beta(*self.counts(prompt)))
        low, high = self._band
        return -max(low - rate, rate - high, 0.0)

    def state_dict(self) -> dict[str, Any]:
        """The counts and the generator."""
        return {**super().state_dict(), "rng": dumped(self._rng)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state: the next draws are those that would have followed."""
        found = checked(state, type(self).__name__, ["counts", "rng"])
        rng = restored(found["rng"])
        self._restore(found["counts"])
        self._rng = rng
