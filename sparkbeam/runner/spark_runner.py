"""The runner behind ``beam.Pipeline(runner="sparkbeam.SparkRunner")``."""

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any

from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions, TypeOptions
from apache_beam.options.value_provider import RuntimeValueProvider
from apache_beam.pipeline import Pipeline
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.pvalue import PCollection
from apache_beam.runners.pipeline_utils import group_by_key_input_visitor
from apache_beam.runners.runner import PipelineRunner
from apache_beam.transforms import environments

from sparkbeam.common import arguments, stack_depth
from sparkbeam.common.display_text import printable
from sparkbeam.common.entry_points import prepare
from sparkbeam.common.missing_client import missing_client
from sparkbeam.errors import ConfigurationError, PipelineFailed, UnsupportedTransform
from sparkbeam.explain import describe, eventlog
from sparkbeam.explain.aggregations import aggregations
from sparkbeam.explain.executed_plans import hot_keys, joins, shuffles
from sparkbeam.explain.explanation import Explanation, explanations
from sparkbeam.explain.findings import Finding, findings
from sparkbeam.explain.physical_plans import Rehearsal
from sparkbeam.explain.report import Report, reports
from sparkbeam.operators.registry import operators_of
from sparkbeam.options import metrics_options, spark_options
from sparkbeam.plan import support
from sparkbeam.plan.labels import rename, without_cells
from sparkbeam.plan.memo import memo
from sparkbeam.plan.model import Plan
from sparkbeam.plan.one_task import in_one_task
from sparkbeam.plan.pickling import unpicklable
from sparkbeam.plan.redaction import Redaction, redacted
from sparkbeam.plan.translate import translate
from sparkbeam.plan.urns import TEST_STREAM
from sparkbeam.replaced.yaml.packages import check_installed
from sparkbeam.replaced.yaml.providers import native
from sparkbeam.run.result import SparkPipelineResult
from sparkbeam.run.run import PipelineRun, program
from sparkbeam.runner import carried, interactive, replacement
from sparkbeam.spark import session as sessions
from sparkbeam.spark.interrupts import end_in_order, interruptible
from sparkbeam.upstream import missing_clients, modules_by_value, option_views
from sparkbeam.upstream.spark import (
    active_session,
    has_pandas_state,
    has_row_state,
    no_foreign_types,
)
from sparkbeam.upstream.yaml_scopes import substitute_providers
from sparkbeam.wire.usercode import unfindable


class SparkRunner(PipelineRunner, sessions.HasSession):
    """Runs Beam pipelines on Spark.

    Args:
        session: the Spark session to use, classic or Connect. It is neither stopped nor
            reconfigured. By default, the active session is used, or one is created from the
            options; see :class:`~sparkbeam.options.spark_options.SparkBeamOptions`.
        drain: truncate unbounded restrictions, so that the pipeline ends.
    """

    def __init__(self, session: Any = None, *, drain: bool = False) -> None:
        super().__init__()
        self._session = sessions.checked(session)
        self._drain = arguments.flag("drain", drain)
        self._seen: Any = None
        replacement.guard(_is_ours)
        carried.register()
        missing_clients.before_constructors(missing_client)
        prepare()
        substitute_providers(_is_ours, native, check_installed)

    def apply(self, transform: Any, input: Any, options: PipelineOptions) -> Any:
        """Beam's hook for a transform that is applied.

        Raises:
            ConfigurationError: with the first transform, if an option has a wrong name or value.
            UnsupportedTransform: it is a cross-language transform that nothing replaces.
        """
        substitute_providers(_is_ours, native, check_installed)
        transform = replacement.replaced(transform, input)
        if options is not self._seen:
            option_views.remember(options)
            spark_options.checked(options)
            self._seen = options
        # Beam finds and caches the windowing of a PCollection recursively through its inputs.
        for part in input if isinstance(input, tuple | list) else (input,):
            if isinstance(part, PCollection) and part.producer is not None:
                with contextlib.suppress(Exception):
                    _ = part.windowing
        return super().apply(transform, input, options)

    def run_pipeline(self, pipeline: Pipeline, options: PipelineOptions) -> SparkPipelineResult:
        """Start the pipeline and return at once.

        Raises:
            UnsupportedTransform: a transform cannot run.
            ConfigurationError: an option or the environment is wrong.
        """
        try:
            end_in_order()
            with interruptible():
                return self._run(pipeline, options)
        finally:
            option_views.forget(options)

    def _run(self, pipeline: Pipeline, options: PipelineOptions) -> SparkPipelineResult:
        if findings:
            return self._examined(pipeline, options)
        checked = spark_options.checked(options)
        if checked.spark_explain or explanations:
            explanation = self.explain(pipeline, options)
            print(explanation)
            explanations.add(explanation)
            return _nothing(lambda: explanation)
        interactive.check(pipeline)
        plan = self._plan(pipeline, checked)
        session = self.session(options)
        result = self._start(
            plan, session, checked, lambda: describe.outline(self._proto(pipeline), plan)
        )
        if interactive.is_read_at_once(pipeline):
            result.wait_until_finish()
        return result

    def _start(
        self,
        plan: Plan,
        session: Any,
        options: spark_options.SparkBeamOptions,
        outline: Callable[[], str] = str,
    ) -> SparkPipelineResult:
        redaction = self._redaction(plan, options)
        port = spark_options.page_port(options)
        if port is not None:
            from sparkbeam.observe.page import opening as page

            page.check()
        run = PipelineRun(
            plan, session, options, redaction, partial(_explained, outline, plan, redaction)
        )
        if port is not None:
            page.show(port, plan, run, redaction, spark_options.name_of(options))
        title = spark_options.name_of(options) or program()
        if eventlog.is_on(session):
            run.companions.append(eventlog.EventLog(session, plan, run, redaction, title))
        if plan.streaming and options.checkpoint_location:
            from sparkbeam.observe.page.page_address import Beacon

            run.companions.append(Beacon(plan, run, redaction, title))
        reports.add(partial(_report, redacted(plan, redaction), run))
        return run.start()

    def has_session(self, options: PipelineOptions) -> bool:
        """Return whether a pipeline with these options runs on a session that is there already."""
        return self._session is not None or active_session() is not None

    def session(self, options: PipelineOptions) -> Any:
        """Return the Spark session for a pipeline with these options; create it if needed.

        Raises:
            ConfigurationError: an option or the environment is wrong.
        """
        sessions.warn_of_version()
        with interruptible():
            return self._session or sessions.obtain(spark_options.checked(options))

    @memo()
    def explain(self, pipeline: Pipeline, options: PipelineOptions | None = None) -> Explanation:
        """Explain how the pipeline would run, without running user code or a Spark job.

        Args:
            options: None for those of the pipeline.

        Raises:
            UnsupportedTransform: a transform cannot run.
            ConfigurationError: an option is wrong.
        """
        if not isinstance(pipeline, Pipeline):
            raise ConfigurationError(
                f"pipeline={arguments.shown(pipeline)} is not a pipeline: give a beam.Pipeline."
            )
        options = pipeline.options if options is None else options
        if not isinstance(options, PipelineOptions):
            raise ConfigurationError(
                f"options={arguments.shown(options)} must be PipelineOptions or None."
            )
        checked = spark_options.checked(options)
        plan = self._plan(pipeline, checked)
        files: set[str] = set()
        spark = self._spark_plan(plan, checked, files.add)
        hide = self._redaction(plan, checked)
        return Explanation(
            _plan=redacted(plan, hide),
            pipeline=hide(describe.outline(self._proto(pipeline), plan)),
            stages=hide(describe.stages(plan, files)),
            spark=printable(hide(spark)),
            aggregations=hide(aggregations(plan)),
        )

    @staticmethod
    def _redaction(plan: Plan, options: spark_options.SparkBeamOptions) -> Redaction:
        settings = spark_options.settings(options).items()
        return Redaction.of(plan, settings, metrics_options.addresses(options))

    def _spark_plan(
        self,
        plan: Plan,
        options: spark_options.SparkBeamOptions,
        reads_files: Callable[[str], None],
    ) -> str:
        if plan.streaming:
            return describe.layers(plan)
        try:
            session = self._session or sessions.obtain(options)
            rehearsal = Rehearsal(
                session, plan, parallelism=options.spark_parallelism, reads_files=reads_files
            )
            with no_foreign_types():
                return rehearsal.explain()
        except ConfigurationError as error:
            # The rest needs neither Java nor the cluster.
            return f"Not available without a Spark session. {error}"

    def _examined(self, pipeline: Pipeline, options: PipelineOptions) -> SparkPipelineResult:
        """Plan the pipeline, and note what keeps it from running."""
        found: list[Exception] = []
        try:
            checked = spark_options.checked(options)
            interactive.check(pipeline)
            self._plan(pipeline, checked)
        except UnsupportedTransform as error:
            found += [*support.problems(self._proto(pipeline))] or [error]
        except Exception as error:  # Whatever a pipeline's own classes do as they are pickled.
            found.append(error)
        findings.add(tuple(map(Finding.of, found)))
        return _nothing(lambda: self.explain(pipeline, options))

    def _plan(
        self,
        pipeline: Pipeline,
        options: spark_options.SparkBeamOptions,
        part: Callable[[Any, PipelineOptions], Any] = lambda proto, _: proto,
    ) -> Plan:
        """Return the plan of a pipeline, or of the part that a function selects from its proto."""
        RuntimeValueProvider.set_runtime_options({})
        modules_by_value.register(unfindable())
        pipeline.visit(
            group_by_key_input_visitor(
                not options.view_as(TypeOptions).allow_non_deterministic_key_coders
            )
        )
        proto = part(self._proto(pipeline), options)
        streaming = self._is_streaming(proto, options)
        if streaming and not (has_row_state() or has_pandas_state()):
            raise ConfigurationError(
                "A streaming pipeline needs Spark's transformWithState, which the installed "
                "pyspark does not have; batch pipelines run on it. Install pyspark 4.0 or newer."
            )
        with stack_depth.allowed(len(proto.components.transforms)):
            plan = translate(
                proto,
                operators_of,
                drain=self._drain,
                streaming=streaming,
                sessions=spark_options.session_aggregator(options),
                in_columns=options.columns != "off",
                local=not streaming and sessions.will_be_local(self._session, options),
            )
        return in_one_task(plan) if options.spark_parallelism == 1 and not streaming else plan

    @staticmethod
    def _is_streaming(proto: beam_runner_api_pb2.Pipeline, options: PipelineOptions) -> bool:
        components, unbounded = proto.components, beam_runner_api_pb2.IsBounded.UNBOUNDED
        return (
            options.view_as(StandardOptions).streaming
            or any(one.spec.urn == TEST_STREAM for one in components.transforms.values())
            or any(one.is_bounded == unbounded for one in components.pcollections.values())
        )

    @staticmethod
    def _proto(pipeline: Pipeline) -> beam_runner_api_pb2.Pipeline:
        try:
            proto = pipeline.to_runner_api(
                default_environment=environments.EmbeddedPythonEnvironment.default()
            )
        except UnicodeEncodeError as error:
            raise ConfigurationError(
                "A label has a character that cannot be encoded: "
                f"{arguments.shown(error.object)}. Give the transform a label of valid Unicode."
            ) from error
        except Exception as error:
            found = unpicklable(pipeline)
            if found is None:
                raise
            label, reason = without_cells(found[0]), found[1]
            raise PipelineFailed(
                f"Step '{label}' cannot be pickled: {type(reason).__name__}: {reason}\n"
                "Its function is sent to the workers: create unpicklable objects "
                "(connections, locks, generators) in setup(), not in the constructor.",
                label,
            ) from error
        rename(proto)
        return proto


def _nothing(explain: Callable[[], Explanation]) -> SparkPipelineResult:
    """Return the result of a pipeline that is not executed."""
    result = SparkPipelineResult(cancel_work=lambda: None, explain=explain)
    result._finish(None)
    return result


def _is_ours(pipeline: Pipeline) -> bool:
    return isinstance(pipeline.runner, SparkRunner)


@memo()
def _explained(
    outline: Callable[[], str], plan: Plan, hide: Redaction, run: PipelineRun
) -> Explanation:
    """Return the explanation of a run, with the figures so far."""
    plans = run.monitor.spark.plans() or ["Spark reports no executed plans."]
    summary, graphs = run.result.summary(), run.monitor.spark.graphs()
    shuffled = {} if plan.streaming else shuffles(plan, graphs)
    hot = hot_keys(plan, graphs, summary.stages)
    return Explanation(
        _plan=redacted(plan, hide),
        pipeline=hide(outline()),
        stages=hide(describe.stages(plan, run.files, summary.stages, shuffled, hot)),
        spark=printable(
            hide("\n\n".join([*([describe.layers(plan)] if plan.streaming else []), *plans]))
        ),
        aggregations=hide(aggregations(plan, summary, shuffled)),
        joins=hide(joins(plan, graphs)),
    )


def _report(plan: Plan, run: PipelineRun) -> Report:
    """Return the report of a run, after waiting for its end."""
    with contextlib.suppress(Exception):  # The report contains the error.
        run.result.wait_until_finish()
    return Report(plan, run.result.state, run.problem, run.result.summary())
