"""Conversion of the proto of a TestStream to its events."""

from apache_beam.coders import coders
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.pipeline_context import PipelineContext
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.plan.events import Elapse, ElementsAdded, Event, Watermark, packed
from sparkbeam.plan.urns import TEST_STREAM, own_payload


def encoded_events(
    transform: beam_runner_api_pb2.PTransform,
    components: beam_runner_api_pb2.Components,
    context: PipelineContext,
) -> bytes:
    """Return the events of a TestStream; see :func:`~sparkbeam.plan.events.unpacked`.

    Its elements are encoded as the PCollections of its outputs are, which need not be the
    coder that it has itself.
    """
    payload = own_payload(TEST_STREAM, transform.spec.payload)
    coder = context.coders.get_by_id(payload.coder_id)
    windowed = {
        output: coders.WindowedValueCoder(
            context.coders.get_by_id(components.pcollections[pcollection].coder_id),
            coders.GlobalWindowCoder(),
        ).get_impl()
        for output, pcollection in transform.outputs.items()
    }
    found: list[Event] = []
    for event in payload.events:
        match event.WhichOneof("event"):
            case "element_event":
                output = _output(event.element_event.tag)
                encoded = b"".join(
                    windowed[output].encode_nested(
                        WindowedValue(
                            coder.decode(element.encoded_element),
                            Timestamp(micros=element.timestamp * 1000),
                            (GlobalWindow(),),
                        )
                    )
                    for element in event.element_event.elements
                )
                found.append(ElementsAdded(output, encoded))
            case "watermark_event":
                advance = event.watermark_event
                found.append(Watermark(_output(advance.tag), advance.new_watermark * 1000))
            case _:
                found.append(Elapse(event.processing_time_event.advance_duration * 1000))
    return packed(found)


def _output(tag: str) -> str:
    """Return the name of an output in its transform, by the tag that an event has."""
    return tag or str(None)
