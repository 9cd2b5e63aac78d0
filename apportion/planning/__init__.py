"""What to sample next: prompts and rollouts, chosen by what was observed of them. Opt-in, with a uniform share."""

from apportion.planning.beta import BetaPosterior
from apportion.planning.dps import DPS
from apportion.planning.insight import InSight
from apportion.planning.mass_change import MassChange, mass_change
from apportion.planning.mopps import MoPPS
from apportion.planning.planner import Planner, Rewards, rewards_by_prompt
from apportion.planning.sampler import Sampler
from apportion.planning.scores import entropy_information, information, learnability
from apportion.planning.spo import SPO
from apportion.planning.thinkprior import ThinkPrior
from apportion.planning.vigor import Vigor
from apportion.planning.xrpo import XRPO

__all__ = [
    "DPS",
    "SPO",
    "XRPO",
    "BetaPosterior",
    "InSight",
    "MassChange",
    "MoPPS",
    "Planner",
    "Rewards",
    "Sampler",
    "ThinkPrior",
    "Vigor",
    "entropy_information",
    "information",
    "learnability",
    "mass_change",
    "rewards_by_prompt",
]
