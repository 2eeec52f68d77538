"""Choice of the transform that stands in for one of Beam's.

Beam tells the runner of each transform before it expands it. Of cross-language transforms the
outermost one is replaced, since those of Beam start an expansion service in their expansion, some
already where they construct the next inner one.
"""

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from apache_beam.pipeline import Pipeline
from apache_beam.transforms import PTransform

from sparkbeam.plan.labels import applied_label
from sparkbeam.upstream.dead_letters import HANDLER

REPLACEMENTS: Mapping[str, str] = {
    "apache_beam.io.fileio.WriteToFiles": "sparkbeam.cross_language.file_writes:to_files",
    "apache_beam.io.gcp.pubsub.ReadFromPubSub": "sparkbeam.cross_language.pubsub.read:read",
    "apache_beam.io.gcp.pubsub.WriteToPubSub": "sparkbeam.cross_language.pubsub.write:write",
    "apache_beam.io.iobase.WriteImpl": "sparkbeam.cross_language.file_writes:to_sink",
    "apache_beam.io.jdbc.ReadFromJdbc": "sparkbeam.cross_language.tables.jdbc:read",
    "apache_beam.io.jdbc.WriteToJdbc": "sparkbeam.cross_language.tables.jdbc:write",
    "apache_beam.io.kafka.ReadFromKafka": "sparkbeam.cross_language.kafka.read:read",
    "apache_beam.io.kafka.WriteToKafka": "sparkbeam.cross_language.kafka.write:write",
    HANDLER: "sparkbeam.cross_language.dead_letters:checked",
    "apache_beam.transforms.managed.Read": "sparkbeam.cross_language.managed:read",
    "apache_beam.transforms.managed.Write": "sparkbeam.cross_language.managed:write",
    "apache_beam.transforms.sql.SqlTransform": "sparkbeam.cross_language.sql.transform:replacing",
}
"""Function that makes the replacement, as ``module:function``, by the class of Beam's transform.

The function gets Beam's transform and the pipeline, and returns None for one that Beam is to apply
itself. It raises a ``ConfigurationError`` that names the argument which has no meaning here.
"""


def replacement(transform: Any, pipeline: Pipeline) -> PTransform[Any, Any] | None:
    """Return the transform to apply instead; None if this one is applied itself."""
    for kind in type(transform).__mro__:
        name = REPLACEMENTS.get(f"{kind.__module__}.{kind.__qualname__}")
        if name is not None:
            module, _, function = name.partition(":")
            make: Callable[[Any, Pipeline], PTransform[Any, Any] | None] = getattr(
                importlib.import_module(module), function
            )
            # Loaded with the first of them alone.
            from sparkbeam.io.output_modes import errors_naming

            with errors_naming(applied_label(pipeline)):
                return make(transform, pipeline)
    return None
