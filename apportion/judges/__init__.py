"""Observers that ask a model.

- `apportion.judges.scoring`: log-probabilities of given tokens under a model, and potentials built on them
"""
