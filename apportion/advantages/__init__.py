"""Estimators: pure functions from reward signals to advantages. They observe nothing and import no observer."""
