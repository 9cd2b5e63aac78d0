"""RLVP: what the outcome cannot see, as a rule over the calls."""

from apportion.rewards import before, called

rules = [before(called("manager_of"), called("extension_of"), name="manager_first")]
