"""Join of two sides by Spark: adaptive, based on actual sizes.

The rows of a side include reports of tasks, and each report has to pass the join exactly once. A
report gets a key reserved for its side, which no element has, and the other side gets one row with
this key, its *partner*. If a skewed side is split, a report still meets one partner.
"""

from typing import Any

from pyspark.sql import functions as sf

from sparkbeam.plan.join_payload import LEFT, NEVER, RIGHT, JoinSpec
from sparkbeam.upstream.spark import of_unknown_size
from sparkbeam.wire.rows import AS_ELEMENT, METRICS_TAG

_LEFT_REPORT, _RIGHT_REPORT, _NO_REPORT = b"\1", b"\2", b"\3"
"""Keys of the left reports, of the right ones, and of a partner that matches none."""

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
    """Return the rows of a join: ``tag``, ``key``, ``other``, ``value`` and ``kinds``.

    Bit 0 of the last one is ``ord`` of the left side, bit 1 that of the right one.

    Args:
        right: the rows of the right side; without reports if the join outputs none of its rows.
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
    """Return a side with columns prefixed by its name.

    Args:
        others: the key of the partner for the other side's reports.
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
