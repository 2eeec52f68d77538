"""Interface for packages that extend sparkbeam; see docs/hooks.md."""

from sparkbeam.hooks.managed_config import ManagedConfig

__all__ = ["ManagedConfig"]
