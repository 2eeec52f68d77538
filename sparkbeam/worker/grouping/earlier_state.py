"""Sessions with the default trigger as checkpoints of the state format 2 have them.

There Beam's trigger driver had kept them. They are taken over when their key is next met.
"""

from collections.abc import Callable

from apache_beam.transforms.timeutil import TimestampCombinerImpl
from apache_beam.utils.timestamp import Timestamp

from sparkbeam.worker.grouping.session_state import KeptSession, KeptSessions
from sparkbeam.worker.grouping.trigger_state import Parts, TriggerState
from sparkbeam.worker.state.records import Record


class EarlierSessions:
    """Reads what the trigger driver has kept of a key.

    Args:
        parts: how it is encoded.
        stamps: combines timestamps.
        combined: makes one accumulator of several, encoded; None if values are kept.
    """

    def __init__(
        self,
        parts: Parts,
        stamps: TimestampCombinerImpl,
        combined: Callable[[list[bytes]], bytes] | None,
    ) -> None:
        self._parts = parts
        self._stamps = stamps
        self._combined = combined

    def take_over(self, record: Record, kept: KeptSessions) -> KeptSession | None:
        """Stores the sessions of a record in the new form; the first that waits for its end."""
        state = TriggerState(record, self._parts)
        waiting = {payload[0] for _, (*_, payload) in record.timers() if payload is not None}
        sessions, values, ends = [], [], []
        for window in state.windows():
            found = state.kept_of(window)
            stored = found.values
            start = window.start.micros
            if self._combined is None:
                values += [(start, value) for value in stored]
            session = KeptSession(
                start,
                window.end.micros,
                found.panes,
                self._stamp(found.stamps),
                self._combined(stored) if self._combined is not None and stored else None,
                None,
            )
            sessions.append(session)
            if waiting.intersection(found.ids):
                ends.append(session)
        record.clear()
        kept.add(sessions)
        kept.add_values(values)
        return min(ends, default=None)

    def _stamp(self, stamps: list[int]) -> int | None:
        found = self._stamps.combine_all([Timestamp(micros=stamp) for stamp in stamps])
        return None if found is None else int(found.micros)
