"""What packages beside sparkbeam may add to it; see docs/hooks.md."""

from sparkbeam.hooks.managed_config import ManagedConfig

__all__ = ["ManagedConfig"]
