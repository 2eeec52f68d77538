"""Beam's transforms for machine learning, in Python and in YAML."""

import pickle
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.ml.inference.base import KeyedModelHandler, ModelHandler, RunInference
from apache_beam.ml.transforms.base import EmbeddingsManager, MLTransform, _EmbeddingHandler
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to

from sparkbeam import SparkRunner

pytestmark = pytest.mark.usefixtures("by_value")

MODES = pytest.mark.parametrize("mode", ["--streaming", "--no_streaming"])


def options(*given: str) -> PipelineOptions:
    return PipelineOptions([each for each in given if each != "--no_streaming"])


class Lengths(ModelHandler[Any, Any, Any]):
    """Model that embeds a text by its length."""

    def load_model(self) -> Any:
        return lambda text: [float(len(text))]

    def run_inference(
        self, batch: Sequence[Any], model: Any, inference_args: Any = None
    ) -> Iterable[Any]:
        return [model(text) for text in batch]


class LengthEmbeddings(EmbeddingsManager):
    """Embeddings by :class:`Lengths`."""

    def get_model_handler(self) -> Any:
        return Lengths()

    def get_ptransform_for_processing(self, **named: Any) -> Any:
        return RunInference(_EmbeddingHandler(self))


def prices(prices: dict[str, int]) -> Any:
    """Return the handler of a service that has the price of an item."""
    enrichment = pytest.importorskip("apache_beam.transforms.enrichment", exc_type=ImportError)

    class Prices(enrichment.EnrichmentSourceHandler):  # type: ignore[misc, name-defined]
        def __call__(self, request: Any, *args: Any, **named: Any) -> Any:
            return request, beam.Row(price=prices[request.item])

    return Prices()


@pytest.fixture
def line(tmp_path: Path) -> str:
    """The file of a linear model that has learnt y = 2x + 1."""
    linear_model = pytest.importorskip("sklearn.linear_model")
    model = linear_model.LinearRegression().fit([[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0])
    file = tmp_path / "line.pickle"
    file.write_bytes(pickle.dumps(model))
    return str(file)


@pytest.mark.part(2)
@MODES
def test_run_inference_asks_a_model_of_scikit_learn(spark: Any, line: str, mode: str) -> None:
    from apache_beam.ml.inference.sklearn_inference import SklearnModelHandlerNumpy

    with beam.Pipeline(runner=SparkRunner(spark), options=options(mode)) as pipeline:
        answers = (
            pipeline
            | beam.Create([np.array([3.0]), np.array([10.0])])
            | RunInference(SklearnModelHandlerNumpy(model_uri=line))
            | beam.Map(lambda found: (float(found.example[0]), round(float(found.inference))))
        )
        assert_that(answers, equal_to([(3.0, 7), (10.0, 21)]))


@pytest.mark.part(2)
@MODES
def test_run_inference_keeps_keys_and_its_errors_apart(spark: Any, mode: str) -> None:
    with beam.Pipeline(runner=SparkRunner(spark), options=options(mode)) as pipeline:
        right, wrong = (
            pipeline
            | beam.Create([("a", "x"), ("b", "xyz")])
            | RunInference(KeyedModelHandler(Lengths())).with_exception_handling()
        )
        assert_that(right, equal_to([("a", [1.0]), ("b", [3.0])]), label="right")
        assert_that(wrong.failed_inferences, equal_to([]), label="wrong")


@pytest.mark.part(2)
@MODES
def test_enrichment_joins_the_answers_of_a_service(spark: Any, mode: str) -> None:
    enrichment = pytest.importorskip("apache_beam.transforms.enrichment", exc_type=ImportError)
    with beam.Pipeline(runner=SparkRunner(spark), options=options(mode)) as pipeline:
        rows = (
            pipeline
            | beam.Create([beam.Row(item="cup", n=2), beam.Row(item="pen", n=1)])
            | enrichment.Enrichment(prices({"cup": 4, "pen": 3}))
        )
        assert_that(
            rows,
            equal_to([beam.Row(item="cup", n=2, price=4), beam.Row(item="pen", n=1, price=3)]),
        )


def test_ml_transform_applies_the_transforms_that_it_has_written(
    spark: Any, tmp_path: Path
) -> None:
    place = str(tmp_path / "artifacts")
    written: Any = MLTransform(write_artifact_location=place)
    read: Any = MLTransform(read_artifact_location=place)
    for transform, text, length in (
        (written.with_transform(LengthEmbeddings(columns=["text"])), "xyz", 3.0),
        (read, "x", 1.0),
    ):
        with beam.Pipeline(runner=SparkRunner(spark)) as pipeline:
            rows = pipeline | beam.Create([{"text": text, "n": 1}]) | transform
            assert_that(rows, equal_to([{"text": [length], "n": 1}]))


YAML = """
type: chain
transforms:
  - {type: Create, config: {elements: [{item: cup, n: 2}]}}
  - TRANSFORM
  - type: MapToFields
    config:
      language: python
      fields:
        item: {callable: 'lambda row: row.item'}
        n: {callable: 'lambda row: row.n'}
        answer: {callable: 'lambda row: ANSWER'}
"""


def check(spark: Any, transform: str, answer: str, expected: Any) -> None:
    yaml_transform = pytest.importorskip("apache_beam.yaml.yaml_transform")
    features = [f"--yaml_experimental_features={name}" for name in ("ML", "Enrichment")]
    with beam.Pipeline(runner=SparkRunner(spark), options=options(*features)) as pipeline:
        spec = YAML.replace("TRANSFORM", transform).replace("ANSWER", answer)
        rows = pipeline | yaml_transform.YamlTransform(spec)
        assert_that(rows | "Tuples" >> beam.Map(tuple), equal_to([expected]))


def test_run_inference_in_yaml_asks_the_model_of_a_handler(
    spark: Any, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    yaml_ml = pytest.importorskip("apache_beam.yaml.yaml_ml")
    from apache_beam.ml.inference.sklearn_inference import SklearnModelHandlerNumpy

    class Sklearn(yaml_ml.ModelHandlerProvider):  # type: ignore[misc, name-defined]
        def __init__(self, model_uri: str, **functions: Any) -> None:
            super().__init__(SklearnModelHandlerNumpy(model_uri), **functions)

        @staticmethod
        def validate(model_handler_spec: Any) -> None:
            pass

    monkeypatch.setitem(yaml_ml.ModelHandlerProvider.handler_types, "Sklearn", Sklearn)
    function = "{callable: 'lambda row: __import__(\"numpy\").array([float(row.n)])'}"
    config = f"{{model_uri: '{line}', preprocess: {function}}}"
    transform = (
        "{type: RunInference, config: "
        f"{{inference_tag: found, model_handler: {{type: Sklearn, config: {config}}}}}}}"
    )
    check(spark, transform, "round(float(row.found.inference))", ("cup", 2, 5))


def test_ml_transform_in_yaml_applies_transforms(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    yaml_ml = pytest.importorskip("apache_beam.yaml.yaml_ml")
    monkeypatch.setitem(yaml_ml._transform_constructors, "LengthEmbeddings", LengthEmbeddings)
    transform = (
        f"{{type: MLTransform, config: {{write_artifact_location: '{tmp_path}/artifacts', "
        "transforms: [{type: LengthEmbeddings, config: {columns: [item]}}]}}"
    )
    check(spark, transform, "row.item", ([3.0], 2, [3.0]))


def test_enrichment_in_yaml_joins_the_answers_of_a_service(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    enrichment = pytest.importorskip("apache_beam.transforms.enrichment", exc_type=ImportError)
    yaml_enrichment = pytest.importorskip("apache_beam.yaml.yaml_enrichment")
    monkeypatch.setattr(yaml_enrichment, "Enrichment", enrichment.Enrichment)
    monkeypatch.setattr(yaml_enrichment, "BigTableEnrichmentHandler", prices)
    transform = (
        "{type: Enrichment, config: "
        "{enrichment_handler: BigTable, handler_config: {prices: {cup: 4}}}}"
    )
    check(spark, transform, "row.price", ("cup", 2, 4))
