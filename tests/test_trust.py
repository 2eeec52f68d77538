"""Where code can come out of bytes or names: all such places are known, with what they read."""

import ast

from own_sources import sources

LOADS = frozenset(
    ["pickle", "pickler", "pickles", "cloudpickle", "marshal", "dill", "shelve", "yaml"]
)

KNOWN = {
    "connectors/delivery.py": "the user's function, out of the plan",
    "pyspark_eventhubs/settings.py": "the user's function or credential, out of the plan",
    "beam_nexmark/events.py": "events that the generator has encoded",
    "plan/events.py": "the events of a TestStream, out of the plan",
    "plan/fingerprint.py": "the functions and windows of the pipeline",
    "plan/pardo_functions.py": "the functions of the pipeline",
    "plan/spark_io.py": "the sources and sinks of the pipeline",
    "plan/source_columns.py": "the coder of a source",
    "upstream/dofn_handover.py": "the functions of the pipeline",
    "wire/environment.py": "the classes of the program, out of the plan",
    "worker/steps/step.py": "the functions of the pipeline",
    "worker/connectors/sink_cells.py": "the user's writer, and elements pickled by the step before",
    "worker/row_formats/type_heads.py": "the classes of elements, pickled by the step before",
    "worker/row_formats/column_cells.py": "the classes of elements, pickled by the step before",
    "worker/steps/processor.py": "the classes of rows, out of the plan",
    "worker/side_inputs.py": "the functions of the pipeline",
    "worker/connectors/spark_rows.py": "the coder of a source, out of the plan",
    "worker/streaming/draining.py": "the functions of the pipeline",
    "worker/streaming/spark_operators.py": "the task of a layer, out of the plan",
    "upstream/beam.py": "the views of the pipeline",
    "worker/streaming/stored_views.py": "the functions of the pipeline",
}

IMPORTS = {
    "pyspark_eventhubs/monitoring.py": "the function that the option slowPartitionMonitor names",
    "observe/sinks/sink_factory.py": "a sink of the package, or the class of --metrics_sink",
    "observe/views/notebook.py": "a module of IPython",
    "common/lazy_names.py": "the modules of public names",
    "inspection/worker_checks.py": "the runner's packages, and what the program of doctor imports",
    "sparkbeam_pubsub/read.py": "Google's client of Pub/Sub",
    "upstream/missing_clients.py": "modules of Beam",
    "upstream/logical_types.py": "the modules of the logical types that the driver has registered",
    "upstream/spark.py": "modules of PySpark",
    "wire/environment.py": "the modules of --beam_plugins, and of the classes in the plan",
}

EVALUATES = {
    "cli/main_program.py": "the program that the command line names",
    "sparkbeam_sql/lowered.py": "expressions of a parsed query, with quoted names and texts",
}


def called(tree: ast.AST) -> set[str]:
    """Functions by their dotted names, as far as a call has one."""
    return {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}


def with_calls(wanted: set[str]) -> set[str]:
    """The modules that call one of the functions."""
    return {
        name for name, path in sources().items() if called(ast.parse(path.read_text())) & wanted
    }


def test_what_is_unpickled_is_the_pipelines_own() -> None:
    wanted = {f"{module}.{name}" for module in LOADS for name in ("load", "loads", "Unpickler")}
    assert with_calls(wanted) == set(KNOWN)


def test_nothing_else_is_evaluated() -> None:
    wanted = {"eval", "exec", "compile", "__import__", "os.system"}
    assert with_calls(wanted) == set(EVALUATES)


def test_nothing_is_imported_by_a_name_that_comes_from_elsewhere() -> None:
    assert with_calls({"import_module", "importlib.import_module"}) == set(IMPORTS)
