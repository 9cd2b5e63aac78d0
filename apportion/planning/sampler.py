"""`Sampler`: chooses prompts by a planner's scores, keeps a uniform share, and measures what the planner is worth."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from apportion.errors import InvalidArgument
from apportion.planning._batch import equal
from apportion.planning._state import at_least, checked, dumped, generator, restored
from apportion.planning.planner import Planner, Rewards, known_rewards
from apportion.verdicts import LARGEST

__all__ = ["Sampler"]


class Sampler:
    """Selects prompts for the next step.

        ceil(uniform_share * n) prompts uniformly among all candidates, the rest by the largest score; ties at random

    Opt-in: sampling uniformly is a strong default; DataFlex-RL compared data policies and found none that was reliably
    better. The uniform share keeps every prompt in play, and it is the control group: `metrics` compares how many of
    the groups it chose were silent with those that the planner chose.

    Args:
        planner: whose `score` decides, see `Planner`.
        uniform_share: share of every selection that ignores the scores, in [0, 1].
        seed: of the uniform share and of ties.

    Raises:
        InvalidArgument: a share outside [0, 1].

    Example:
        >>> from apportion.planning import InSight
        >>> sampler = Sampler(InSight(), uniform_share=0.0)
        >>> sampler.update({"easy": [1.0] * 8, "half": [1.0, 0.0] * 4, "hard": [0.0] * 8})
        >>> sampler.select(1, ["easy", "half", "hard"])
        ['half']
        >>> sampler.metrics()["planning/silent_share"]
        0.6666666666666666
    """

    def __init__(self, planner: Planner, *, uniform_share: float = 0.1, seed: int = 0) -> None:
        if not 0 <= uniform_share <= 1:
            raise InvalidArgument("uniform_share", uniform_share, "a share in [0, 1]")
        self.planner = planner
        self._uniform_share = uniform_share
        self._rng = generator(seed)
        self._chosen: dict[str, str] = {}
        self._metrics: dict[str, float] = {}

    def select(self, n: int, candidates: Sequence[str]) -> list[str]:
        """The next n prompts.

        Args:
            n: how many.
            candidates: the prompts to choose from, in any order.

        Returns:
            n different candidates, in the candidates' order. Which ones does not depend on that order.

        Raises:
            InvalidArgument: fewer candidates than n, one of them twice, or a planner that scores NaN.
        """
        names = sorted(candidates)
        if len(set(names)) < len(names):
            twice = [name for name, times in Counter(names).items() if times > 1]
            raise InvalidArgument("candidates", twice[:10], "every candidate once; these come more often")
        if not isinstance(n, (int, np.integer)) or not 0 <= n <= len(names):
            raise InvalidArgument("n", n, f"a whole number of at most {len(names)} candidates")
        even = at_least(self._uniform_share, n)
        uniform = [names[i] for i in self._rng.permutation(len(names))[:even]]
        left = sorted(set(names) - set(uniform))
        scores = [float(self.planner.score(name)) for name in left]
        if unknown := [name for name, score in zip(left, scores, strict=True) if math.isnan(score)]:
            raise InvalidArgument("planner", unknown[:10], "a score for every prompt; these got NaN")
        order = np.lexsort((self._rng.random(len(left)), -np.array(scores)))
        self._chosen = dict.fromkeys(uniform, "uniform") | {left[i]: "planned" for i in order[: n - even]}
        self._metrics["planning/uniform_share"] = even / n if n else 0.0
        return [name for name in candidates if name in self._chosen]

    def update(self, rewards: Rewards) -> None:
        """Tell the planner what came of the rollouts, see `rewards_by_prompt`.

        Args:
            rewards: prompt -> rewards, None for what is missing.
        """
        known = known_rewards(rewards, low=-LARGEST, high=LARGEST)
        self.planner.update(rewards)
        self._metrics = {k: v for k, v in self._metrics.items() if k == "planning/uniform_share"}
        self._metrics |= _shares("", list(rewards), known)
        for how in ("uniform", "planned"):
            self._metrics |= _shares(f"_{how}", [name for name in rewards if self._chosen.get(name) == how], known)

    def metrics(self) -> dict[str, float]:
        """What to log, of the last selection and the last update; what has no data is left out.

        `planning/silent_share`: groups of two or more known rewards in which all are equal; with `_uniform` and
        `_planned` those that either half chose. `planning/unknown_share`: groups without a known reward.
        `planning/uniform_share`: the share of the selection that ignored the scores. A group that is silent by its
        rewards may still teach by its turns: `groups/without_credit_share` of `Credit.diagnostics` counts those.
        """
        return dict(self._metrics)

    def state_dict(self) -> dict[str, Any]:
        """The planner's state, the generator and the last selection, as plain data."""
        return {
            "kind": "Sampler",
            "planner": self.planner.state_dict(),
            "rng": dumped(self._rng),
            "chosen": dict(self._chosen),
            "metrics": dict(self._metrics),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state: the next selections are those that would have followed.

        Raises:
            InvalidArgument: the state of another kind of sampler or planner.
        """
        found = checked(state, "Sampler", ["planner", "rng", "chosen", "metrics"])
        rng = restored(found["rng"])
        self.planner.load_state_dict(found["planner"])
        self._rng, self._chosen, self._metrics = rng, dict(found["chosen"]), dict(found["metrics"])


def _shares(suffix: str, prompts: list[str], known: Mapping[str, list[float]]) -> dict[str, float]:
    compared = [known[name] for name in prompts if len(known.get(name, [])) > 1]
    made = {f"planning/silent_share{suffix}": sum(map(equal, compared)) / len(compared)} if compared else {}
    if prompts and not suffix:
        made["planning/unknown_share"] = sum(name not in known for name in prompts) / len(prompts)
    return made
