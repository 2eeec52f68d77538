"""Beam's tests that fail over this runner, each with the reason.

All but those :data:`BY_CHANCE` have to fail for as long as they stand here, so
the list can only shrink. A key is a test's id without ``apache_beam.``, and may have a ``*``.
"""

from fnmatch import fnmatchcase

Failures = dict[str, str]
"""Reasons by patterns of ids."""

_DRIVER = "asserts on objects in the driver's process that only the workers' copies see change"
_ONE_BUNDLE = "assumes that the elements of a Create are one bundle"
_PART_OF_VALUES = (
    "its function fails for a part of the values, and Beam applies it to those of each bundle"
)
_MADE_IN_DRIVER = "its class is in no other process than the driver's, where the test makes it"
_ORDER = "asserts on the order of elements, which Beam leaves open"
_NO_PANES = "asks for the loss of panes that earlier versions of Beam's Reshuffle had"
_EARLIEST_TRANSFORMED = "Beam cannot translate OUTPUT_AT_EARLIEST_TRANSFORMED"
_NO_LAST_PANE = (
    "asserts that what no trigger lets out is lost, which is a bug of Beam's own runner: "
    "https://github.com/apache/beam/issues/21260"
)
_ANY_RUNNER = "fails over Beam's own runner as well"
_COUNTS = "counts in a global variable of a process in which other tests count too"
_PRINTS = "asserts on the order of what several tasks print, which is that in which they run"
_RECORDS = "asserts on the order of what several tasks put out, which depends on their number"
BY_CHANCE = frozenset([_COUNTS, _PRINTS, _RECORDS])
"""Whether such a test passes depends on what ran before it or beside it."""

_ENDLESS_SIDE_INPUT = (
    "asks for all of a side input whose window has no end; in streaming it is what has arrived"
)
_RECORDING = "is about the recordings of Interactive Beam, which its own runner makes"
_CLOUD = "needs Google Cloud"
_OTHER_WINDOWS = (
    "flattens a stream in windows with one in others, which Beam warns of, and which its "
    "FnApiRunner cannot decode either"
)
_IN_JAVA = "joins with Beam's SQL, which is in Java"

EXPECTED_FAILURES: Failures = {
    "dataframe.io_test.ReadGbqTransformTests.test_bad_schema_public_api_direct_read": _CLOUD,
    "dataframe.io_test.ReadGbqTransformTests.test_unsupported_callable": _CLOUD,
    "examples.complete.autocomplete_test.AutocompleteTest.test_autocomplete_it": _CLOUD,
    "examples.complete.game.leader_board_test.LeaderBoardTest.test_leader_board_users": (
        _NO_LAST_PANE
    ),
    "examples.streaming_wordcount_debugging_test.StreamingWordcountDebugging."
    "test_streaming_wordcount_debugging": _OTHER_WINDOWS,
    "examples.cookbook.filters_test.FiltersTest.test_filters_output_bigquery_matcher": _CLOUD,
    "io.fileio_test.MatchIntegrationTest.test_transform_on_gcs": _CLOUD,
    "io.iobase_it_test.IOBaseITTest.test_unbounded_pcoll_without_global_window": _CLOUD,
    "io.textio_test.CsvTest.test_csv_read_with_filename": _ONE_BUNDLE,
    "io.watch_test.WatchEndToEndTest.test_multi_round_dedups_stops_and_is_per_input": _COUNTS,
    "io.watch_test.WatchEndToEndTest.test_timestamp_cursor_dedups_growing_source": _COUNTS,
    "ml.inference.base_test.RunInferenceBaseTest"
    ".test_run_inference_impl_with_keyed_examples_many_mhs_max_models_hint": _ORDER,
    "ml.inference.base_test.RunInferenceBaseTest"
    ".test_runinference_loads_same_model_with_identifier_multi_process_shared": _ONE_BUNDLE,
    "ml.transforms.base_test.TextEmbeddingHandlerTest.test_handler_with_inconsistent_keys": (
        _ONE_BUNDLE
    ),
    "runners.common_test.DoFnProcessTest.test_dofn_process_keyparam_error_no_key": (
        "asks for the error itself, which is the cause of PipelineFailed here"
    ),
    "runners.common_test.DoFnProcessTest.test_dofn_yielding_str_is_not_flagged": _DRIVER,
    "testing.test_stream_test.ReverseTestStreamTest.test_*": _RECORDING,
    "testing.test_stream_test.TestStreamTest.test_basic_execution_sideinputs": _ENDLESS_SIDE_INPUT,
    "testing.test_stream_test.TestStreamTest.test_basic_execution_with_service": _RECORDING,
    "testing.test_stream_test.TestStreamTest.test_windowed_values_interpreted_correctly": (
        _RECORDING
    ),
    "transforms.error_handling_test.ErrorHandlingTest"
    ".test_error_handling_pardo_with_exception_handling_kwargs": _DRIVER,
    "transforms.ptransform_test.PTransformTest.test_combine_per_key_with_side_input_as_arg": (
        _PART_OF_VALUES
    ),
    "transforms.ptransform_test.PTransformTest.test_combine_with_side_input_as_arg": (
        _PART_OF_VALUES
    ),
    "transforms.ptransform_test.PTransformTest.test_do_fn_with_finish": _ONE_BUNDLE,
    "transforms.ptransform_test.PTransformTest.test_do_fn_with_start": _ONE_BUNDLE,
    "transforms.ptransform_test.PTransformTest.test_group_by_key_allow_unsafe_triggers": _ORDER,
    "transforms.ptransform_test.PTransformTest.test_group_by_key_deterministic_coder": (
        _MADE_IN_DRIVER
    ),
    "transforms.ptransform_test.PTransformTypeCheckTestCase"
    ".test_combine_runtime_type_check_violation_using_decorators": _ONE_BUNDLE,
    "transforms.trigger_test.*TestStreamTranscriptTest"
    ".test_timestamp_combiner_custom_timestamping_earliest_1": _EARLIEST_TRANSFORMED,
    "transforms.util_test.BatchElementsTest.test_constant_batch": _ONE_BUNDLE,
    "transforms.util_test.BatchElementsTest.test_constant_batch_no_metrics": _ONE_BUNDLE,
    "transforms.util_test.BatchElementsTest.test_length_fn_without_stateful_is_ignored": (
        _ONE_BUNDLE
    ),
    "transforms.util_test.LogElementsTest.test_setting_level_uses_*": _DRIVER,
    "transforms.util_test.LogElementsTest.test_stdout_logs*": _PRINTS,
    "transforms.util_test.ReshuffleTest.test_reshuffle_*_window_preserves_metadata_1": _NO_PANES,
    "transforms.util_test.ReshuffleTest.test_reshuffle_custom_window_preserves_metadata_0": (
        _ANY_RUNNER
    ),
    "transforms.util_test.TeeTest.test_tee": _COUNTS,
    "transforms.util_test.WaitOnTest.test_find": _DRIVER,
    "typehints.typed_pipeline_test.MainInputTest.test_typed_ptransform_fn*": _ANY_RUNNER,
    "yaml.yaml_testing_test.YamlTestingTest.test_fixes": _RECORDS,
    "yaml.yaml_testing_test.YamlTestingTest.test_join_transform_serialization": _IN_JAVA,
}


_USER_STATE = "transforms.userstate_test.StatefulDoFnOnDirectRunnerTest."

ON_SPARK_FAILURES: Failures = EXPECTED_FAILURES | {
    f"{_USER_STATE}{test}": _DRIVER
    for test in (
        "test_clearing_*",
        "test_dynamic_timer_and_simple_timer",
        "test_dynamic_timer_clear_timer",
        "test_dynamic_timer_multiple",
        "test_dynamic_timer_simple_dofn",
        "test_hash_join",
        "test_index_assignment",
        "test_simple_*",
        "test_timer_*",
        "test_two_timers_one_function",
    )
}
"""As above, of the tests with streaming queries where those run on Spark."""

STREAMING_FAILURES: Failures = {
    "transforms.util_test.ReshuffleTest.test_reshuffle_*_window_preserves_metadata_1": _NO_PANES,
    "transforms.util_test.ReshuffleTest.test_reshuffle_custom_window_preserves_metadata_0": (
        _ANY_RUNNER
    ),
}
"""As above, of the tests whose pipelines are made streaming queries, whatever they hold."""


def reason(test_id: str, failures: Failures) -> str | None:
    """Why the test fails; None for one that has to pass."""
    name = test_id.removeprefix("apache_beam.")
    return next((why for pattern, why in failures.items() if fnmatchcase(name, pattern)), None)
