"""What a state is worth, computed or recorded; each is an `apportion.rewards.potential.Potential`."""

from apportion.rewards.potentials.checks import checks_potential
from apportion.rewards.potentials.learned import learned_potential
from apportion.rewards.potentials.monte_carlo import monte_carlo_potential, recorded_continuations
from apportion.rewards.potentials.prefix import prefix
from apportion.rewards.potentials.recorded import recorded_potential
from apportion.rewards.potentials.scale import on_scale

__all__ = [
    "checks_potential",
    "learned_potential",
    "monte_carlo_potential",
    "on_scale",
    "prefix",
    "recorded_continuations",
    "recorded_potential",
]
