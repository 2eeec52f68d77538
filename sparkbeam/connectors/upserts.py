"""Upserts of rows into a table, by key."""

from typing import Any

from sparkbeam.common.entry_points import UPSERTS, function, registered
from sparkbeam.connectors.commits import merge_settings
from sparkbeam.connectors.latest import quoted
from sparkbeam.plan.source_hooks import Upserts
from sparkbeam.plan.spark_io import WriteSpec
from sparkbeam.spark.capabilities import settings_for_now


def upserts_of(source: str) -> Upserts | None:
    """Return the upserts of a data source; None if no installed package has any."""
    found: Upserts | None = function(UPSERTS, source)
    return found


def with_upserts(*, of_tables: bool) -> list[str]:
    """Return the data sources with upserts: by options, or of tables of a catalog."""
    every = {name: function(UPSERTS, name) for name in sorted(registered(UPSERTS))}
    return [n for n, each in every.items() if (each.merges_tables if of_tables else each.write)]


def into_table(rows: Any, spec: WriteSpec) -> None:
    """Merge rows into an existing table of a catalog, in one transaction.

    Columns that the rows lack keep their values, and are null in rows that are new.
    """
    names = [quoted(name) for name in rows.columns]
    update = f"UPDATE SET {', '.join(f'old.{name} = new.{name}' for name in names)}"
    values = ", ".join(f"new.{name}" for name in names)
    insert = f"INSERT ({', '.join(names)}) VALUES ({values})"
    merge(rows, spec.table, spec, update, insert)


def merge(rows: Any, table: str, spec: WriteSpec, update: str, insert: str) -> None:
    """Merge rows into a table by the key of a write, in one transaction.

    Args:
        table: as it is named in SQL.
        update, insert: the actions of ``MERGE INTO`` for rows that it has, and for others.
    """
    session = rows.sparkSession
    same = " AND ".join(f"old.{name} <=> new.{name}" for name in map(quoted, spec.key))
    query = f"MERGE INTO {_braced(table)} AS old USING {{rows}} AS new ON {_braced(same)} "
    query += f"WHEN MATCHED THEN {_braced(update)} WHEN NOT MATCHED THEN {_braced(insert)}"
    with settings_for_now(session, merge_settings(dict(spec.options))):
        session.sql(query, rows=rows)


def _braced(text: str) -> str:
    """Escape braces of a query."""
    return text.replace("{", "{{").replace("}", "}}")
