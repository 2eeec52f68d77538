"""A join of two sides as Spark does it: adaptively, by the sizes that it finds.

Beside the elements there are reports of tasks among the rows of a side, and they have to come out
of the join too, each once. So each report has a key of its side, which no element has, and the
other side has one row with that key, a *partner*. Where a side is divided, because there is more of
a key than a task should have, a report still meets one partner.
"""

from typing import Any

from pyspark.sql import functions as sf

from sparkbeam.plan.join_payload import LEFT, NEVER, RIGHT, JoinSpec
from sparkbeam.upstream.spark import of_unknown_size
from sparkbeam.wire.rows import AS_ELEMENT, METRICS_TAG

_LEFT_REPORT, _RIGHT_REPORT, _NO_REPORT = b"\1", b"\2", b"\3"
"""Keys of reports of the left side and of the right one, and of a partner that is to find none."""

_PARTNER_TAG = (1 << 31) - 1

_TYPES = {
    "inner": "inner",
    "left": "left_outer",
    "right": "right_outer",
    "outer": "full_outer",
    "semi": "left_semi",
    "anti": "left_anti",
}


def joined(session: Any, left: Any, right: Any, spec: JoinSpec, *, repeatable: bool) -> Any:
    """The rows of a join: ``tag``, ``key``, ``other``, ``value`` and ``kinds``.

    Of the last one the first bit has ``ord`` of the left side, the second that of the right one.

    Args:
        session: the Spark session.
        left: the rows of the left side.
        right: those of the right side; without reports if nothing of it comes out.
        spec: how they are joined.
        repeatable: each attempt of a task sees its rows in the same order.
    """
    for_left = _NO_REPORT if spec.how == "anti" else _LEFT_REPORT
    lefts = _side(session, left, LEFT, spec, own=_LEFT_REPORT, others=_RIGHT_REPORT)
    rights = _side(session, right, RIGHT, spec, own=_RIGHT_REPORT, others=for_left)
    pairs = lefts.join(rights, sf.col("left_key") == sf.col("right_key"), _TYPES[spec.how])
    if spec.keeps_right:
        value, other = sf.col("left_value"), sf.col("right_value")
        tag = sf.least("left_tag", "right_tag")
        key = sf.coalesce("left_key", "right_key")
        value = sf.when(tag == METRICS_TAG, sf.coalesce(value, other)).otherwise(value)
        kinds = _or_none("left_ord") + 2 * _or_none("right_ord")
    else:
        tag, key, value = (sf.col(f"left_{name}") for name in ("tag", "key", "value"))
        kinds = sf.col("left_ord")
        other = sf.lit(None).cast("binary")
    rows = pairs.select(
        tag.alias("tag"),
        key.alias("key"),
        other.alias("other"),
        value.alias("value"),
        kinds.alias("kinds"),
    ).where(sf.col("tag") != _PARTNER_TAG)
    if not repeatable:
        return rows
    return rows.sortWithinPartitions("tag", "key", "kinds", "value", "other")


def _or_none(kind: str) -> Any:
    return sf.coalesce(kind, sf.lit(AS_ELEMENT))


def _side(session: Any, rows: Any, side: str, spec: JoinSpec, *, own: bytes, others: bytes) -> Any:
    """A side with columns that are named after it.

    Args:
        session: the Spark session.
        rows: its rows.
        side: which one it is.
        spec: how it is joined.
        own: the key that its reports get.
        others: that of the partner of the other side's.
    """
    key = sf.when(sf.col("tag") == METRICS_TAG, sf.lit(own)).otherwise(sf.col("key"))
    partner = (
        sf.lit(_PARTNER_TAG),
        sf.lit(others),
        sf.lit(None).cast("binary"),
        sf.lit(AS_ELEMENT),
    )
    found = rows.select("tag", key, "value", sf.col("ord").cast("int")).unionAll(
        of_unknown_size(session).select(*partner)
    )
    named = found.toDF(f"{side}_tag", f"{side}_key", f"{side}_value", f"{side}_ord")
    if spec.broadcast == NEVER:
        return named.hint("merge")
    return named.hint("broadcast") if spec.broadcast == side else named
