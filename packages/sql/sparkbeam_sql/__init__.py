"""Beam's ``SqlTransform``: Calcite's SQL, by Spark SQL and as steps of Beam; see :mod:`.transform`.

- :func:`with_sql_functions`: a query that can call functions in Python
- :func:`with_sql_dead_letters`: a query on which no row fails the pipeline
"""

from typing import TYPE_CHECKING

from sparkbeam.common.lazy_names import loader

if TYPE_CHECKING:
    from sparkbeam_sql.dead_letters import with_sql_dead_letters
    from sparkbeam_sql.user_functions import with_sql_functions

__all__ = ["with_sql_dead_letters", "with_sql_functions"]

_HOMES = {
    "with_sql_dead_letters": "sparkbeam_sql.dead_letters",
    "with_sql_functions": "sparkbeam_sql.user_functions",
}
__getattr__ = loader(__name__, _HOMES)
