"""The threads in which the DoFns of stages live, kept for the life of the Python worker.

Building a bundle processor takes milliseconds and runs the user's ``setup``, so a worker keeps it
for the next task of the same stage. A DoFn may depend on its thread: a database connection, a
decimal context and the content of a ``threading.local`` belong to the thread that made them.
Therefore each processor has its own thread, in which it is built, runs all its bundles, and is torn
down.

Spark does not signal a worker's last task. A processor that has been idle for a while is torn down.
"""

import _thread
import queue
import threading
import traceback
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from sparkbeam.common import stack_depth
from sparkbeam.plan.model import Stage
from sparkbeam.wire.failure import remember_operation
from sparkbeam.worker import logs
from sparkbeam.worker.garbage import GARBAGE
from sparkbeam.worker.steps.processor import StageProcessor

IDLE_SECONDS = 20.0
"""Idle time after which a processor is torn down, in seconds."""

_MAX_KEPT = 32

_Result = TypeVar("_Result")


class Work(Generic[_Result]):
    """A call to run in another thread."""

    def __init__(self, do: Callable[[], _Result]) -> None:
        self._do: Callable[[], _Result] | None = do
        self._running = _thread.allocate_lock()
        self._running.acquire()
        self._outcome: list[_Result] = []
        self._error: BaseException | None = None

    def __call__(self) -> None:
        """Run the call; called once, by the thread that runs it."""
        assert self._do is not None
        try:
            self._outcome.append(self._do())
        except BaseException as error:
            self._error = error
            remember_operation(error)
            clear_frames(error)
        finally:
            self._do = None
            self._running.release()

    def wait(self, seconds: float = -1) -> bool:
        """Wait until the call is done; return whether it is."""
        done = self._running.acquire(timeout=seconds)
        if done:
            self._running.release()
        return done

    def result(self) -> _Result:
        """Return the result of the call, or raise its error, once it is done."""
        self.wait()
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None
        return self._outcome.pop()


def clear_frames(error: BaseException | None) -> None:
    """Let this thread free what the frames of an error keep, such as iterators of user code."""
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


class StageThread:
    """A thread with the bundle processor of a stage that lives in it."""

    def __init__(self, stage: Stage, kept: "IdleThreads") -> None:
        self._stage = stage
        self._kept = kept
        self._works: queue.SimpleQueue[Callable[[], Any] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._ended = False
        self._processor: StageProcessor | None = None
        self._thread = threading.Thread(target=self._run, name="sparkbeam-bundle", daemon=True)
        stack_depth.start(stage.steps, self._thread)

    @property
    def processor(self) -> StageProcessor:
        """The processor, built on first access; in this thread alone."""
        if self._processor is None:
            self._processor = StageProcessor(self._stage)
        return self._processor

    def start(self, do: Callable[[], _Result]) -> Work[_Result]:
        """Enqueue a call.

        Raises:
            RuntimeError: the thread has ended.
        """
        work = Work(do)
        # Where the driver is the worker it may have lowered it.
        stack_depth.allow(self._stage.steps)
        with self._lock:
            if self._ended:
                raise RuntimeError("The thread of the stage has ended.")
            self._works.put(work)
        return work

    def call(self, do: Callable[[], _Result]) -> _Result:
        """Enqueue a call and wait for it."""
        return self.start(do).result()

    def bound(self, callback: Callable[[], Any]) -> Callable[[], Any]:
        """Return a callback that runs in this thread while it lives, whoever calls it."""

        def call_back() -> Any:
            if threading.current_thread() is self._thread:
                return callback()
            try:
                work = self.start(callback)
            except RuntimeError:
                return callback()
            return work.result()

        return call_back

    def end(self) -> None:
        """Enqueue the teardown of the DoFns."""
        with self._lock:
            self._ended = True
            self._works.put(None)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the thread has ended; return whether it has."""
        if threading.current_thread() is self._thread:
            return True  # It frees a task that nobody has finished, and ends after that.
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        logs.works_on(self._stage)
        while (work := self._next()) is not None:
            work()
            del work
        if self._processor is not None:
            self._processor.shutdown()
            self._processor = None
        self._kept.swept()

    def _next(self) -> Callable[[], Any] | None:
        while True:
            try:
                return self._works.get(timeout=IDLE_SECONDS)
            except queue.Empty:
                # Else a task has it, which is slow to come with something.
                if self._kept.forget(self):
                    self.end()


class IdleThreads:
    """The idle threads of this worker, by the run and the stage."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: OrderedDict[tuple[str, str], StageThread] = OrderedDict()

    def take(self, run_id: str, stage: Stage) -> StageThread:
        """Return a thread for a task, which owns it until it gives it back or ends it."""
        with self._lock:
            kept = self._idle.pop((run_id, stage.id), None)
        return kept or StageThread(stage, self)

    def give_back(self, run_id: str, stage: Stage, thread: StageThread) -> None:
        """Keep a thread for the next task of the stage."""
        with self._lock:
            surplus = [self._idle.pop((run_id, stage.id), None)]
            self._idle[run_id, stage.id] = thread
            if len(self._idle) > _MAX_KEPT:
                surplus.append(self._idle.popitem(last=False)[1])
        for old in surplus:
            if old is not None:
                old.end()

    def forget(self, thread: StageThread) -> bool:
        """Forget a thread that is to end, which calls this; return whether no task is using it."""
        with self._lock:
            found = [key for key, kept in self._idle.items() if kept is thread]
            for key in found:
                del self._idle[key]
        return bool(found)

    def swept(self) -> None:
        """Free garbage if no later task may do so; called by a thread that has ended."""
        # Without the lock: whoever has it may be collecting garbage, and wait for this thread.
        if not self._idle:
            GARBAGE.sweep()


THREAD_POOL = IdleThreads()
"""Idle threads of this process."""
