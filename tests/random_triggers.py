"""Triggers of whatever parts, as strategies of Hypothesis."""

from apache_beam.transforms import trigger
from apache_beam.transforms.trigger import (
    AfterAll,
    AfterAny,
    AfterCount,
    AfterEach,
    AfterProcessingTime,
    AfterWatermark,
    DefaultTrigger,
    OrFinally,
    Repeatedly,
    TriggerFn,
)
from apache_beam.transforms.window import TimestampCombiner
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

LEAVES = st.one_of(
    st.builds(AfterCount, st.integers(1, 4)),
    st.builds(AfterProcessingTime, st.sampled_from([1, 3, 8, 20])),
    st.sampled_from([AfterWatermark(), DefaultTrigger(), trigger.Always(), trigger._Never()]),
)


def _composites(part: st.SearchStrategy[TriggerFn]) -> st.SearchStrategy[TriggerFn]:
    parts = st.lists(part, min_size=2, max_size=3)
    none_or = st.one_of(st.none(), part)
    return st.one_of(
        st.builds(AfterWatermark, early=none_or, late=none_or),
        st.builds(AfterWatermark, early=part),
        st.builds(Repeatedly, part),
        *(
            parts.map(lambda parts, kind=kind: kind(*parts))  # type: ignore[misc]
            for kind in (AfterAny, AfterAll, AfterEach)
        ),
        st.builds(OrFinally, part, part),
    )


TRIGGERS = st.recursive(LEAVES, _composites, max_leaves=5)
STAMPS = st.sampled_from(
    [
        TimestampCombiner.OUTPUT_AT_EOW,
        TimestampCombiner.OUTPUT_AT_EARLIEST,
        TimestampCombiner.OUTPUT_AT_LATEST,
    ]
)


def bounded(examples: int) -> settings:
    """So many examples, the same ones each time."""
    return settings(
        max_examples=examples,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],  # To shrink a case takes minutes.
    )
