"""Beam's own examples and what else makes pipelines, in batch and in process."""

from beam_suites import suite

RUNNER = "in_process_batch.BatchRunner"

EXAMPLES = (
    "avro_nyc_trips_test",
    "complete.autocomplete_test",
    "complete.distribopt_test",
    "complete.estimate_pi_test",
    "complete.game.game_stats_test",
    "complete.game.hourly_team_score_test",
    "complete.game.leader_board_test",
    "complete.game.user_score_test",
    "complete.juliaset.juliaset.juliaset_test",
    "complete.tfidf_test",
    "complete.top_wikipedia_sessions_test",
    "cookbook.bigquery_side_input_test",
    "cookbook.bigquery_tornadoes_test",
    "cookbook.coders_test",
    "cookbook.combiners_test",
    "cookbook.custom_ptransform_test",
    "cookbook.filters_test",
    "cookbook.mergecontacts_test",
    "cookbook.multiple_output_pardo_test",
    "dataframe.taxiride_test",
    "dataframe.wordcount_test",
    "matrix_power_test",
    "snippets.snippets_test",
    "snippets.util_test",
    "wordcount_debugging_test",
    "wordcount_minimal_test",
    "wordcount_test",
)

SNIPPETS = {
    "aggregation": (
        "approximatequantiles",
        "approximateunique",
        "batchelements",
        "cogroupbykey",
        "combineglobally",
        "combineperkey",
        "combinevalues",
        "count",
        "distinct",
        "groupby",
        "groupbykey",
        "groupintobatches",
        "latest",
        "max",
        "mean",
        "min",
        "sample",
        "sum",
        "tolist",
        "top",
    ),
    "elementwise": (
        "filter",
        "flatmap",
        "keys",
        "kvswap",
        "map",
        "pardo",
        "partition",
        "regex",
        "tostring",
        "values",
        "withtimestamps",
    ),
    "other": ("create", "flatten", "window"),
}

OTHERS = (
    "ml.inference.base_test",
    "ml.inference.utils_test",
    "ml.rag.chunking.base_test",
    "ml.transforms.base_test",
    "transforms.fully_qualified_named_transform_test",
    "transforms.periodicsequence_test",
    "transforms.transforms_keyword_only_args_test",
    "typehints.typecheck_test",
    "yaml.main_test",
)

for module in (
    *(f"examples.{name}" for name in EXAMPLES),
    *(
        f"examples.snippets.transforms.{kind}.{name}_test"
        for kind, names in SNIPPETS.items()
        for name in names
    ),
    *OTHERS,
):
    # Two of the modules have the same name.
    place = module.rpartition(".")[0]
    cases = suite(f"apache_beam.{module}")
    globals().update({f"{place}.{name}": case for name, case in cases.items()})
