"""Beam's ``SqlTransform``: Calcite's SQL for Spark, row by row, and in windows.

- :func:`with_sql_functions`: a query that can call functions in Python
- :func:`with_sql_dead_letters`: a query on which no row fails the pipeline

Both are loaded on first use, as workers need neither.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sparkbeam_sql.dead_letters import with_sql_dead_letters
    from sparkbeam_sql.user_functions import with_sql_functions

__all__ = ["with_sql_dead_letters", "with_sql_functions"]
_HOMES = {"with_sql_dead_letters": "dead_letters", "with_sql_functions": "user_functions"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"sparkbeam_sql.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'sparkbeam_sql' has no attribute {name!r}")
