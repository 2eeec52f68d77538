"""Beam's ``ReadFromKafka`` on Spark's source."""

from collections.abc import Mapping
from typing import Any

import apache_beam as beam
from apache_beam.io.kafka import ReadFromKafka
from apache_beam.options.pipeline_options import StandardOptions
from apache_beam.pipeline import Pipeline
from apache_beam.pvalue import PBegin, PCollection
from pyspark.sql.types import IntegerType, StringType, StructType, TimestampType

from sparkbeam.common.step_errors import errors_naming
from sparkbeam.errors import ConfigurationError
from sparkbeam.hooks import SourceHooks
from sparkbeam.io.read import ReadFromSpark
from sparkbeam.options.spark_options import SparkBeamOptions
from sparkbeam.plan.labels import applied_label
from sparkbeam.plan.spark_io import ReadSpec
from sparkbeam.upstream.external import arguments_of, urn_of
from sparkbeam_kafka import arguments as kafka_arguments
from sparkbeam_kafka.bounded import ReadRanges
from sparkbeam_kafka.hooks import KafkaHooks
from sparkbeam_kafka.policies import TIME, Policy, policy
from sparkbeam_kafka.records import RecordForm
from sparkbeam_kafka.subscription import EARLIEST, LATEST, Subscription
from sparkbeam_kafka.values import format_of

_BYTES_REMEDY = "Read bytes, the default, and decode them in a pipeline step."


def read(transform: Any, pipeline: Pipeline) -> beam.PTransform[Any, Any]:
    """Return the replacement of a ``ReadFromKafka``.

    Raises:
        ConfigurationError: an argument has no meaning here.
    """
    given = kafka_arguments.checked_read(arguments_of(transform))
    key, value = (
        format_of(name, given[name], "Deserializer", _BYTES_REMEDY)
        for name in ("key_deserializer", "value_deserializer")
    )
    form = RecordForm(key, value, urn_of(transform) == ReadFromKafka.URN_WITH_METADATA)
    bounded = given.keys() & kafka_arguments.BOUNDS
    found = ReadRanges(given, form) if bounded else _ReadTopics(given, form)
    found.label = transform.label
    return found


class _ReadTopics(beam.PTransform[PBegin, PCollection[Any]]):
    """Reads all records of topics, in batch those that are there at the start."""

    def __init__(self, given: Mapping[str, Any], form: RecordForm) -> None:
        super().__init__()
        self._given = given
        self._form = form

    def default_label(self) -> str:
        return "ReadFromKafka"

    def expand(self, pbegin: PBegin) -> PCollection[Any]:
        options = pbegin.pipeline.options
        streaming = options.view_as(StandardOptions).streaming
        label = applied_label(pbegin.pipeline)
        with errors_naming(label):
            asked = _required_subscription(self._given, streaming=streaming)
        rows = pbegin | "Records" >> _ReadKafka(
            self._options(options, streaming=streaming),
            self._form,
            self._form.derived(self.label),
            policy(self._given["timestamp_policy"], self.label, streaming=streaming),
            asked,
        )
        records = rows
        if not self._form.with_metadata:
            records = rows | "Pairs" >> beam.Map(_pair).with_output_types(self._form.type)
        return kafka_arguments.redistributed(records, self._given)

    def _options(self, options: Any, *, streaming: bool) -> dict[str, Any]:
        given = self._given
        config = given["consumer_config"]
        found = kafka_arguments.spark_options(config)
        if given.get("topic_pattern"):
            found["subscribePattern"] = given["topic_pattern"]
        else:
            found["subscribe"] = ",".join(given["topics"])
        reset = config.get(kafka_arguments.RESET, LATEST)
        if "start_read_time" in given:
            found["startingTimestamp"] = str(given["start_read_time"])
            found["startingOffsetsByTimestampStrategy"] = "latest"
        else:
            found["startingOffsets"] = EARLIEST if reset == EARLIEST or not streaming else LATEST
        found["includeHeaders"] = str(self._form.with_metadata).lower()
        most = options.view_as(SparkBeamOptions).max_batch_elements
        if streaming and most is not None:
            found["maxOffsetsPerTrigger"] = str(most)
        # The next record that there is, as Kafka's consumers continue.
        found["failOnDataLoss"] = str(reset != EARLIEST).lower()
        return found


def _required_subscription(given: Mapping[str, Any], *, streaming: bool) -> Subscription | None:
    """Return the subscription if its start offsets are looked up, or offsets are committed."""
    found = kafka_arguments.subscription(given)
    if found.commits and not streaming:
        raise ConfigurationError(
            "Offsets are committed (commit_offset_in_finalize, enable.auto.commit) only in "
            "streaming, or with max_num_records or max_read_time: use --streaming "
            "--trigger=available-now to read the available records and stop."
        )
    starts = found.start_time is None and (found.group is not None or found.reset not in _BY_SPARK)
    if not starts and not streaming and found.start_time is None and found.reset == LATEST:
        raise ConfigurationError(
            "A batch read from auto.offset.reset=latest, the default, finds no records: set "
            "auto.offset.reset=earliest or a group.id with offsets in consumer_config, or "
            "start_read_time, max_num_records or max_read_time; or read a stream with --streaming."
        )
    if starts and given.get("topic_pattern"):
        raise ConfigurationError("group.id needs topics= instead of topic_pattern=.")
    if not starts and not found.commits:
        return None
    found.check()
    return found


_BY_SPARK = (EARLIEST, LATEST)


def _pair(row: Any) -> Any:
    return row.key, row.value


class _ReadKafka(ReadFromSpark):
    """Read of records with a known schema, so that Spark need not be asked."""

    def __init__(
        self,
        options: dict[str, Any],
        form: RecordForm,
        derived: tuple[tuple[str, str], ...],
        policy: Policy,
        subscription: Subscription | None,
    ) -> None:
        time = None if policy.expression is None else TIME
        super().__init__("kafka", options, timestamp_column=time, columns=form.schema.names)
        self._form = form
        self._derived = derived
        self._policy = policy
        self._subscription = subscription

    def _hooks(self) -> SourceHooks:
        # With the subscription; a ReadFromSpark("kafka") gets KafkaHooks.from_options.
        return KafkaHooks(self._origin.options, self._subscription)

    def _ask(self, spec: Any, pipeline: Pipeline, *, streaming: bool) -> StructType:
        hidden = {"topic": StringType(), "partition": IntegerType(), TIME: TimestampType()}
        known = self._form.schema.names
        found = self._form.schema
        for name, kind in hidden.items():
            if name not in known:
                found = found.add(name, kind)
        return found

    def _with_details(self, spec: ReadSpec, **more: Any) -> ReadSpec:
        of_policy = self._policy
        derived = self._derived
        if of_policy.expression is not None:
            derived = (*derived, (TIME, of_policy.expression))
        more |= {"derived": derived, "idle": of_policy.idle, "idle_lag": of_policy.lag}
        return super()._with_details(spec, **more)
