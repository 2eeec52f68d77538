"""Arguments of Beam's Kafka transforms, checked."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection

from sparkbeam.common.arguments import listed, shown
from sparkbeam.errors import ConfigurationError
from sparkbeam_kafka.client_config import GROUP
from sparkbeam_kafka.constructors import ARGUMENTS
from sparkbeam_kafka.setting_checks import check_settings
from sparkbeam_kafka.subscription import LATEST, RESETS, Subscription
from sparkbeam_kafka.transactions import TRANSACTIONAL_ID, producer_config

RESET, AUTO_COMMIT = "auto.offset.reset", "enable.auto.commit"
SERVERS = "bootstrap.servers"

BOUNDS = frozenset(["max_num_records", "max_read_time", "stop_read_time"])
"""Arguments that make a read a bounded one."""

_OF_SPARK = frozenset(
    [RESET, AUTO_COMMIT, "auto.commit.interval.ms", "key.deserializer", "value.deserializer"]
)
"""Settings of a consumer that Spark's source refuses, and does in another way."""


def checked_read(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments of a read that are given.

    Raises:
        ConfigurationError: one has no meaning here, or a wrong value.
    """
    found = _known(given, "ReadFromKafka")
    config = found["consumer_config"]
    _check_config("consumer_config", config)
    if "interceptor.classes" in config:
        raise ConfigurationError(
            "consumer_config: interceptor.classes is not supported, because Spark's source does "
            "not allow Java classes that change records: leave it out, and change the records in "
            "a pipeline step."
        )
    if config.get(RESET, LATEST) not in RESETS:
        raise ConfigurationError(
            f"consumer_config: {RESET}={shown(config[RESET])} must be one of {listed(RESETS)}. "
            "To start at a time, use start_read_time, in milliseconds."
        )
    if bool(found.get("topics")) == bool(found.get("topic_pattern")):
        raise ConfigurationError("topics= must name at least one topic.")
    _check_topics("topics", found.get("topics") or ())
    for name in BOUNDS & found.keys():
        if found[name] <= 0:
            raise ConfigurationError(f"{name}={found[name]} must be above 0, or None for no limit.")
        if found.get("topic_pattern"):
            raise ConfigurationError(f"{name} needs topics= instead of topic_pattern=.")
    if found.get("commit_offset_in_finalize") and GROUP not in config:
        raise ConfigurationError(
            "commit_offset_in_finalize=True needs a consumer group for committed offsets: set "
            "group.id in consumer_config."
        )
    return found


def checked_write(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments of a write that are given; raises like :func:`checked_read`."""
    found = _known(given, "WriteToKafka")
    config = found["producer_config"]
    _check_config("producer_config", config)
    _check_topics("topic", [found["topic"]] if found.get("topic") else [])
    if TRANSACTIONAL_ID in config:
        producer_config(config)
        if not found.get("topic"):
            raise ConfigurationError(
                f"producer_config: {TRANSACTIONAL_ID} needs topic=, for which the numbers of "
                "micro-batches are committed."
            )
    return found


def subscription(given: Mapping[str, Any]) -> Subscription:
    """Return the topics of a read, and the offsets at which it starts."""
    config = given["consumer_config"]
    automatic = str(config.get(AUTO_COMMIT, "false")).lower() == "true" and GROUP in config
    return Subscription(
        tuple(given.get("topics") or ()),
        tuple(sorted(config.items())),
        config.get(RESET, LATEST),
        given.get("start_read_time"),
        commits=automatic or bool(given.get("commit_offset_in_finalize")),
    )


def redistributed(records: PCollection[Any], given: Mapping[str, Any]) -> PCollection[Any]:
    """Return the records of a read, behind a Reshuffle if it is asked for."""
    return records | "Redistribute" >> beam.Reshuffle() if given.get("redistribute") else records


def spark_options(config: Mapping[str, str], without: Iterable[str] = _OF_SPARK) -> dict[str, str]:
    """Return the settings of a client of Kafka as options of Spark's source or sink."""
    left_out = frozenset(without)
    return {f"kafka.{name}": value for name, value in config.items() if name not in left_out}


def _known(given: Mapping[str, Any], transform: str) -> Mapping[str, Any]:
    found = {name: value for name, value in given.items() if value is not None}
    for name in found:
        if name not in ARGUMENTS:
            raise ConfigurationError(
                f"{transform}({name}=…) is not supported: Spark's Kafka source cannot load Java "
                "classes. Leave it out."
            )
    return found


_TOPIC = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
_LETTERS = 3
"""Topics of a single letter from which a list is taken for the letters of a text."""


def _check_topics(argument: str, topics: Sequence[str]) -> None:
    if len(topics) >= _LETTERS and all(len(topic) == 1 for topic in topics):
        raise ConfigurationError(
            f"{argument}={shown(list(topics))} are single letters, as if from a string: use a "
            f"list, {argument}=[{shown(''.join(topics))}]."
        )
    wrong = next((topic for topic in topics if not _TOPIC.fullmatch(topic)), None)
    if wrong is not None:
        what = "…" if "@" in wrong else shown(wrong)  # Perhaps a URL with a password.
        raise ConfigurationError(
            f"{argument}: {what} is not a valid topic name. Use up to 249 letters "
            "(A to Z, a to z), digits, dots, underscores and hyphens."
        )


def _check_config(argument: str, config: Mapping[str, str]) -> None:
    check_settings(argument, config)
    if not config.get(SERVERS):
        raise ConfigurationError(
            f"{argument} lacks {SERVERS}: give the addresses of brokers, such as 'broker:9092'."
        )
