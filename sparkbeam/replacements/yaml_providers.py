"""Providers of transforms in Beam YAML, in place of those that run Java."""

import functools
from typing import Any

from sparkbeam.upstream.yaml_scopes import runs_query_in_java, transforms_of_queries


def native(kind: str, provider: Any) -> Any:
    """Return the provider to use for a type of transform.

    Args:
        kind: the type, such as ``Join``.
        provider: the one that Beam or the pipeline has.
    """
    if kind == "Sql":
        return _queries() if runs_query_in_java(provider) else provider
    transforms = transforms_of_queries(provider)
    return provider if transforms is None else _made_of_queries(provider)


@functools.cache
def _queries() -> Any:
    """Return the provider of ``Sql``."""
    from apache_beam.yaml import yaml_provider

    def sql(query: str, dialect: str | None = None) -> Any:
        """Run a query in Beam SQL, in Calcite's dialect.

        Args:
            query: the query.
            dialect: "calcite".
        """
        from sparkbeam.replacements.sql import SparkSql

        return "Sql" >> SparkSql(query, dialect)

    return yaml_provider.InlineProvider({"Sql": sql})


@functools.cache
def _made_of_queries(provider: Any) -> Any:
    """Return the provider with queries of Spark's."""
    from apache_beam.yaml import yaml_provider

    return yaml_provider.SqlBackedProvider(transforms_of_queries(provider) or {}, _queries())
