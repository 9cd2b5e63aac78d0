"""Loaded by `import verl` through the entry point group `verl.plugins`; see `apportion.integrations.verl.plugin`."""

from apportion.integrations.verl.plugin import register

__all__ = ["register"]

register()
