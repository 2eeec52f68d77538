"""Number of bytes that a pipeline reads for its PCollections, as far as known before it runs."""

from collections.abc import Callable, Sequence
from typing import Any

from apache_beam.runners.portability.fn_api_runner import translations

from sparkbeam.plan.model import Exchange, Plan, Source, Stage
from sparkbeam.plan.pardo_functions import dofn_of, one_to_one
from sparkbeam.plan.parsed_stage import parsed
from sparkbeam.upstream.beam import function_of_filter, is_of_create
from sparkbeam.upstream.beam_files import size_of_read


class ReadBytes:
    """Sizes in bytes of the input of one plan's PCollections.

    Args:
        of_source: the bytes of a root that is not a stage; None if they are not known.
    """

    def __init__(self, plan: Plan, of_source: Callable[[Source], float | None]) -> None:
        self._plan = plan
        self._of_source = of_source

    def of(self, tags: tuple[int, ...]) -> float | None:
        """Return the size of all that is read for some ports.

        This covers files, rows of Spark's sources and values of a Create. None if the size is not
        known, or says nothing of the amount at the ports: if a join comes before them, or a step
        that may make many elements of a value of a Create.
        """
        stages, sources = _before(self._plan, tags)
        if any(stage.join is not None for stage in stages):
            return None
        sizes = [self._of_source(source) for source in sources]
        roots = [stage for stage in stages if stage.exchange is Exchange.IMPULSE]
        multiplies = any(map(_multiplies, stages))
        sizes += [bytes_of_root(stage, multiplies=multiplies) for stage in roots]
        return total_of(sizes)


def total_of(sizes: Sequence[float | None]) -> float | None:
    """Return the sum of sizes; None if one of them is not known."""
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def _before(plan: Plan, tags: tuple[int, ...]) -> tuple[list[Stage], list[Source]]:
    """Return the stages that ports depend on, side inputs included, and roots without a stage."""
    stages: dict[str, Stage] = {}
    sources: dict[str, Source] = {}
    pending = [*tags]
    while pending:
        tag = pending.pop()
        source = plan.source(tag)
        if source is not None:
            sources[source.label] = source
            continue
        stage = plan.producer(tag)
        if stage.id not in stages:
            stages[stage.id] = stage
            pending += stage.inputs
            pending += [tag for side_input in stage.side_inputs for tag in side_input.sources]
    return list(stages.values()), list(sources.values())


def bytes_of_root(stage: Stage, *, multiplies: bool = False) -> float | None:
    """Return the bytes read by a stage that has no input; None if they are not known.

    Args:
        multiplies: a step may make many elements of one, so values of a Create tell nothing.
    """
    sizes: list[float | None] = []
    for transform in parsed(stage).transforms.values():
        fn = dofn_of(transform)
        if is_of_create(fn):
            sizes.append(None if multiplies else float(len(transform.spec.payload)))
            continue
        size = size_of_read(fn)
        if size is not None:
            sizes.append(size)
    return total_of(sizes) if sizes else None


def _multiplies(stage: Stage) -> bool:
    """Return whether a step of a stage may make many elements of one."""
    for transform in parsed(stage).transforms.values():
        fn = dofn_of(transform)
        if transform.spec.urn not in translations.PAR_DO_URNS or is_of_create(fn):
            continue
        process: Any = getattr(fn, "process", None)
        if one_to_one(process) is None and function_of_filter(process) is None:
            return True
    return False
