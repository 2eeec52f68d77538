"""All stages of a small pipeline in one stage of Spark.

Its tasks run the roots, in parallel as ever, and write their rows to files. The task that ends
last goes on: it reads these files, and runs the other stages one after the other, each over the
sorted rows of those before it. If there are more rows than one task should process, it leaves them
in files, and Spark runs the stages that are left.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from sparkbeam.plan.model import Exchange, Stage
from sparkbeam.wire.rows import METRICS_TAG, SCHEMA, tuples
from sparkbeam.wire.side_content import SideInputData
from sparkbeam.worker.batch.spilling import spilled_batches, write_batches
from sparkbeam.worker.batch.stage import StageTask
from sparkbeam.worker.task import task_numbers

SMALL_BYTES = 256 << 10
"""Bytes of rows up to which one task goes on: about as many as Spark puts into a task."""

_CLAIM = "last"


@dataclass(frozen=True)
class SmallPipeline:
    """Input of the tasks that run a small pipeline; it is pickled into the plan.

    Attributes:
        roots: the stages without an input, each with the number of its tasks.
        others: the other stages, in an order in which they can run.
        folder: for files, shared by the tasks and the driver.
    """

    roots: tuple[StageTask, ...]
    others: tuple[StageTask, ...]
    folder: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run a task of a root, and maybe all other stages; the function for ``mapInArrow``.

        Yields:
            The reports, of a pipeline that has run to its end.
        """
        (number,) = task_numbers(batches)
        path = self._path(number)
        if not path.exists():  # An attempt that failed after it may have written it.
            write_batches(path, self._root(number))
        if self._is_last(number):
            yield from self._go_on()

    @property
    def tasks(self) -> int:
        """Number of tasks of all roots."""
        return sum(root.tasks for root in self.roots)

    def left(self) -> "tuple[int, LeftRows]":
        """Return how many of the other stages have run, and the rows that are left for the rest."""
        if self._done.exists():
            return len(self.others), LeftRows(())
        for count in range(len(self.others) + 1):
            if self._left(count).exists():
                return count, LeftRows((str(self._left(count)),))
        return 0, LeftRows(self._paths)

    @property
    def _paths(self) -> tuple[str, ...]:
        return tuple(str(self._path(number)) for number in range(self.tasks))

    @property
    def _done(self) -> Path:
        return Path(self.folder, "done")

    def _left(self, count: int) -> Path:
        return Path(self.folder, f"left-{count}")

    def _path(self, number: int) -> Path:
        return Path(self.folder, f"root-{number}")

    def _root(self, number: int) -> Iterator[pa.RecordBatch]:
        for root in self.roots:
            if 0 <= number < root.tasks:
                yield from root(numbers([number]))
            number -= root.tasks

    def _is_last(self, number: int) -> bool:
        """Return whether this task goes on: all have written their files, and it has seen it first.

        An attempt after a failure has the number of the one that has failed.
        """
        if not all(self._path(other).exists() for other in range(self.tasks)):
            return False
        try:
            with Path(self.folder, _CLAIM).open("x") as claim:
                claim.write(str(number))
        except FileExistsError:
            return Path(self.folder, _CLAIM).read_text() == str(number)
        return True

    def _go_on(self) -> Iterator[pa.RecordBatch]:
        rows = _Rows()
        if not rows.add(spilled_batches(self._paths, numbers(range(self.tasks)))):
            return
        for count, task in enumerate(self.others, start=1):
            side_inputs = {
                (side.transform_id, side.local_name): rows.of_side_input(side.sources)
                for side in task.stage.side_inputs
            }
            output = replace(task, side_inputs=side_inputs)(rows.exchanged(task.stage))
            if not rows.add(output):
                write_batches(self._left(count), chain(rows.all(), output))
                return
        self._done.touch()
        yield from rows.of((METRICS_TAG,))


@dataclass(frozen=True)
class LeftRows:
    """Input of the tasks that give Spark the rows of stages that have run.

    Attributes:
        paths: the files, one for each task; none if all stages have run.
    """

    paths: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file; the function for ``mapInArrow``."""
        return spilled_batches(self.paths, batches)


class _Rows:
    """The rows that stages have put out, by the tags of their ports."""

    def __init__(self) -> None:
        self._batches: dict[int, list[pa.RecordBatch]] = defaultdict(list)
        self._size = 0

    def add(self, batches: Iterator[pa.RecordBatch]) -> bool:
        """Add rows that a task puts out; return whether all have been added, as they are few."""
        for batch in batches:
            tags = batch.column(0)
            for tag in pc.unique(tags).to_pylist():
                self._batches[tag].append(batch.filter(pc.equal(tags, tag)))
            self._size += batch.nbytes
            if self._size > SMALL_BYTES:
                return False
        return True

    def all(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows."""
        return self.of(tuple(self._batches))

    def of(self, tags: tuple[int, ...]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some ports."""
        for tag in tags:
            yield from self._batches[tag]

    def exchanged(self, stage: Stage) -> Iterator[pa.RecordBatch]:
        """Yield the input of a stage, in the order in which it has to be read."""
        if stage.exchange is Exchange.FORWARD:
            return self.of(stage.inputs)
        table = pa.Table.from_batches(self.of(stage.inputs), SCHEMA)
        return iter(table.sort_by([("key", "ascending"), ("ord", "ascending")]).to_batches())

    def of_side_input(self, tags: tuple[int, ...]) -> SideInputData:
        """Return the rows of the ports of a side input as its content."""
        return SideInputData.of_rows(tuples(self.of(tags)))


def numbers(of: Iterable[int]) -> Iterator[pa.RecordBatch]:
    """Return the numbers of tasks as Spark gives them."""
    return iter([pa.record_batch([pa.array(of, pa.int64())], ["id"])])
