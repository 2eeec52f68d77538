"""Queries of Nexmark by number, one module each.

Each is a plain Beam pipeline over the events of an auction site, which any Beam runner can execute.
"""

from beam_nexmark.queries import (
    q00_passthrough,
    q01_currency,
    q02_selection,
    q03_local_items,
    q04_category_price,
    q05_hot_items,
    q06_seller_price,
    q07_highest_bid,
    q08_new_users,
    q09_winning_bids,
    q10_log_files,
    q11_user_sessions,
    q12_processing_time,
    q13_side_input,
    q14_session_side_input,
    q15_portability_batch,
    q16_reshuffle,
)
from beam_nexmark.queries.query import Query

__all__ = ["QUERIES", "Query"]

_MODULES = (
    *(q00_passthrough, q01_currency, q02_selection, q03_local_items, q04_category_price),
    *(q05_hot_items, q06_seller_price, q07_highest_bid, q08_new_users, q09_winning_bids),
    *(q10_log_files, q11_user_sessions, q12_processing_time, q13_side_input),
    *(q14_session_side_input, q15_portability_batch, q16_reshuffle),
)

QUERIES: dict[int, Query] = {module.QUERY.number: module.QUERY for module in _MODULES}
"""All queries by number."""
