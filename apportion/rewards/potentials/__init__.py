"""What a state is worth, computed or recorded; each is an `apportion.rewards.potential.Potential`."""

from apportion.rewards.potentials.recorded import recorded_potential

__all__ = ["recorded_potential"]
