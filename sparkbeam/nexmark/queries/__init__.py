"""The queries of Nexmark by number, one module each.

Each is a plain Beam pipeline over the events of an auction site, that any Beam
runner can execute.
"""

from sparkbeam.nexmark.queries import q00_passthrough
from sparkbeam.nexmark.queries.query import Query

__all__ = ["QUERIES", "Query"]

QUERIES: dict[int, Query] = {query.number: query for query in (q00_passthrough.QUERY,)}
"""All queries by number."""
