"""Interface for packages that extend sparkbeam; see docs/hooks.md."""

from sparkbeam.hooks.managed_config import ManagedConfig
from sparkbeam.plan.source_hooks import QueryStart, SourceClient, SourceHooks, Upserts

__all__ = ["ManagedConfig", "QueryStart", "SourceClient", "SourceHooks", "Upserts"]
