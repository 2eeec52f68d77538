"""Unzipping of Flattens: the reader of one runs in the stages that make its inputs.

The steps behind a Flatten would be a stage that reads rows of several others. Instead, each of
those stages gets a copy of them. The outputs of the copies are flattened in turn, up to the next
shuffle. Inputs that one stage makes are flattened within it. This is the unzipping of Flattens
known from Beam's other runners, after fusion, so that there are never more copies than stages that
make inputs.
"""

from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass

from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.fn_api_runner import translations

from sparkbeam.plan.fused_stages import (
    is_runner_stage,
    main_input,
    makers_of,
    reaches,
    readers_of,
)
from sparkbeam.plan.urns import FLATTEN

_MOST_COPIES = 16
"""Maximum number of copies.

Each copy costs a little in every plan, and with many copies tasks are many and small anyway.
"""


def unzip_flattens(
    stages: list[translations.Stage], context: translations.TransformContext
) -> list[translations.Stage]:
    """Move readers of a Flatten into the stages that make its inputs, wherever possible.

    Args:
        context: its components get the PCollections of the copies.
    """
    graph = _Graph(stages)
    pending = deque(filter(_is_flatten, stages))
    while pending:
        flatten = pending.popleft()
        replacement = _Unzipping(graph, flatten, context).replacement()
        if replacement is not None:
            graph.replace(*replacement)
            # A Flatten of what copies put out goes through the same.
            pending += filter(_is_flatten, replacement[1])
    return list(graph.stages)


def _is_flatten(stage: translations.Stage) -> bool:
    return is_runner_stage(stage) and stage.transforms[0].spec.urn == FLATTEN


class _Graph:
    """Graph of stages, with the makers and readers of PCollections, while some are replaced.

    Attributes:
        stages: in the order in which they came.
        maker: of each PCollection.
        readers: of each PCollection, once for each transform.
    """

    def __init__(self, stages: list[translations.Stage]) -> None:
        self.stages = dict.fromkeys(stages)
        self.maker = makers_of(stages)
        self.readers = readers_of(stages)

    def replace(self, gone: set[translations.Stage], made: list[translations.Stage]) -> None:
        """Replace stages by others; the makers of PCollections that nobody reads stay known."""
        for stage in gone:
            del self.stages[stage]
            for transform in stage.transforms:
                for pcollection in transform.inputs.values():
                    self.readers[pcollection].remove(stage)
        self.stages.update(dict.fromkeys(made))
        self.maker.update(makers_of(made))
        for pcollection, readers in readers_of(made).items():
            self.readers[pcollection] += readers


@dataclass(frozen=True)
class _Branch:
    """Inputs of a Flatten that have the same origin.

    Attributes:
        host: the stage that makes them, or else that reads the only one, which Spark makes; None
            where nothing does yet.
    """

    pcollections: list[str]
    host: translations.Stage | None


class _Unzipping:
    """One Flatten, and the stage that reads it.

    Args:
        graph: of all stages.
    """

    def __init__(
        self, graph: _Graph, flatten: translations.Stage, context: translations.TransformContext
    ) -> None:
        self._graph = graph
        self._flatten = flatten
        self._context = context
        (self._transform,) = flatten.transforms
        (self._output,) = self._transform.outputs.values()

    def replacement(self) -> tuple[set[translations.Stage], list[translations.Stage]] | None:
        """Return the stages that go and those that come instead.

        None if the Flatten stays as it is.
        """
        inputs = [pcollection for _, pcollection in sorted(self._transform.inputs.items())]
        reader = self._reader_of(self._output)
        if reader is None or len(set(inputs)) < len(inputs):
            return None
        branches = self._branches(inputs)
        if len(branches) > _MOST_COPIES or not all(self._takes(b, reader) for b in branches):
            return None
        gone = {reader, *(branch.host for branch in branches if branch.host is not None)}
        if len(branches) == 1:
            (branch,) = branches
            assert branch.host is not None
            joined = branch.host.fuse(self._flatten, self._context)
            return gone | {self._flatten}, [joined.fuse(reader, self._context)]
        copies: dict[str, list[str]] = defaultdict(list)
        made = [self._joined(branch, reader, copies) for branch in branches]
        made += [
            self._flatten_of(copied, pcollection)
            for pcollection, copied in copies.items()
            if self._is_read(pcollection, reader)
        ]
        if not self._is_read(self._output, reader):
            gone.add(self._flatten)
        return gone, made

    def _reader_of(self, pcollection: str) -> translations.Stage | None:
        """Return the stage of workers that reads a PCollection as it comes, if there is one."""
        for stage in self._graph.readers.get(pcollection, ()):
            is_workers = not is_runner_stage(stage) and not stage.forced_root
            if is_workers and main_input(stage) == pcollection:
                return stage
        return None

    def _branches(self, inputs: Iterable[str]) -> list[_Branch]:
        branches: dict[object, _Branch] = {}
        for pcollection in inputs:
            maker = self._graph.maker[pcollection]
            if is_runner_stage(maker):
                branches[pcollection] = _Branch([pcollection], self._reader_of(pcollection))
            else:
                branches.setdefault(maker, _Branch([], maker)).pcollections.append(pcollection)
        return list(branches.values())

    def _takes(self, branch: _Branch, reader: translations.Stage) -> bool:
        """Return whether the reader may become a part of the host of a branch."""
        host = branch.host
        if host is None:
            return True
        if host.environment != reader.environment:
            return False
        # The steps of a stage are told apart by their names.
        if not _names(host).isdisjoint(_names(reader) | _names(self._flatten)):
            return False
        sides = {self._graph.maker[pcollection] for pcollection in reader.side_inputs()}
        return not any(reaches(self._graph.readers, host, side) for side in sides)

    def _joined(
        self, branch: _Branch, reader: translations.Stage, copies: dict[str, list[str]]
    ) -> translations.Stage:
        """Return the host of a branch with a copy of the reader in it, or the copy alone."""
        host, source = branch.host, branch.pcollections[0]
        if len(branch.pcollections) > 1:
            source = self._copied(self._output)
            flatten = self._flatten_of(branch.pcollections, source)
            assert host is not None
            host = host.fuse(flatten, self._context)
        renamed = {self._output: source}
        for transform in reader.transforms:
            for _, pcollection in sorted(transform.outputs.items()):
                renamed[pcollection] = self._copied(pcollection)
                copies[pcollection].append(renamed[pcollection])
        copy = translations.Stage(
            reader.name,
            [_renamed(transform, renamed) for transform in reader.transforms],
            reader.downstream_side_inputs,
            reader.must_follow,
            parent=reader.parent,
            environment=reader.environment,
        )
        return copy if host is None else host.fuse(copy, self._context)

    def _copied(self, pcollection: str) -> str:
        """Return a new PCollection that is like another one."""
        pcollections = self._context.components.pcollections
        copy: str = translations.unique_name(pcollections, pcollection)
        pcollections[copy].CopyFrom(pcollections[pcollection])
        return copy

    def _flatten_of(self, inputs: list[str], output: str) -> translations.Stage:
        transform = beam_runner_api_pb2.PTransform(
            unique_name=self._transform.unique_name,
            spec=self._transform.spec,
            inputs={str(number): pcollection for number, pcollection in enumerate(inputs)},
            outputs={"out": output},
            environment_id=self._transform.environment_id,
        )
        return translations.Stage(
            self._flatten.name,
            [transform],
            parent=self._flatten.parent,
            environment=self._flatten.environment,
        )

    def _is_read(self, pcollection: str, reader: translations.Stage) -> bool:
        """Return whether any other stage reads a PCollection."""
        return any(stage is not reader for stage in self._graph.readers.get(pcollection, ()))


def _names(stage: translations.Stage) -> set[str]:
    return {transform.unique_name for transform in stage.transforms}


def _renamed(
    transform: beam_runner_api_pb2.PTransform, pcollections: dict[str, str]
) -> beam_runner_api_pb2.PTransform:
    """Return a copy of a transform with other PCollections."""
    copy = beam_runner_api_pb2.PTransform()
    copy.CopyFrom(transform)
    for ends in (copy.inputs, copy.outputs):
        for tag in list(ends):
            ends[tag] = pcollections.get(ends[tag], ends[tag])
    return copy
