"""Loaded by `import verl` through the entry point group `verl.plugins`; see `apportion.integrations.verl.plugin`."""

from apportion.integrations.verl.plugin import register
from apportion.integrations.verl.trainer_hook import watch

__all__ = ["register", "watch"]

register()
watch()
