"""Pub/Sub without its client, in the table beside this module."""

import apache_beam as beam
import misuse
from apache_beam.io import ReadFromPubSub, WriteToPubSub
from misuse import without

from sparkbeam import SparkRunner

TOPIC = "projects/project/topics/clicks"
CLIENT = "google.cloud.pubsub"


@misuse.table(__file__)
def test_a_wrong_call_is_an_error(call: misuse.Call) -> None:
    misuse.check(call, globals())
