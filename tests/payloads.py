"""Payloads of the primitives of pipelines."""

import apache_beam as beam


def payload(urn: str, pipeline: beam.Pipeline) -> bytes:
    """That of the only transform with a URN."""
    (found,) = (
        part.spec.payload
        for part in pipeline.to_runner_api().components.transforms.values()
        if part.spec.urn == urn
    )
    return bytes(found)
