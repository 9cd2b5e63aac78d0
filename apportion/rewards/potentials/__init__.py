"""What a state is worth, by what can be computed or was recorded; each is an `apportion.rewards.potential.Potential`."""

from apportion.rewards.potentials.recorded import recorded_potential

__all__ = ["recorded_potential"]
