"""The runner that is the default of Beam's suites."""

from typing import Any

from in_process import Spark

from sparkbeam import SparkRunner
from sparkbeam.plan.model import Plan
from sparkbeam.run.result import SparkPipelineResult


class BatchOnSpark(SparkRunner):
    """Runs batch pipelines on Spark. Streaming ones, which take seconds there, run in process."""

    def _start(self, plan: Plan, session: Any, *rest: Any, **named: Any) -> SparkPipelineResult:
        return super()._start(plan, Spark() if plan.streaming else session, *rest, **named)
