"""What a micro-batch tells the source about when and how the next one is to run.

The sink writes it as a small file under the checkpoint, and the source reads it when it
plans. A micro-batch that runs again writes its file again.
"""

import json
from dataclasses import asdict, dataclass

from apache_beam.io.filesystems import FileSystems

_KEPT = 20


@dataclass(frozen=True)
class Feedback:
    """The end of a micro-batch.

    Attributes:
        number: of the tick of the micro-batch.
        finished: nothing is left to do, whatever the clock says.
        due: when the clock has something to do, in microseconds since the epoch.
    """

    number: int
    finished: bool
    due: int | None


class FeedbackFiles:
    """The files with the feedback of the latest micro-batches.

    Args:
        checkpoint: the checkpoint location of the query.
    """

    def __init__(self, checkpoint: str) -> None:
        self._folder = f"{checkpoint.rstrip('/')}/sparkbeam/feedback"

    def write(self, feedback: Feedback) -> None:
        """Writes the feedback of a micro-batch, and removes an old one."""
        if not FileSystems.exists(self._folder):
            FileSystems.mkdirs(self._folder)
        temporary = self._path(feedback.number) + ".tmp"
        with FileSystems.create(temporary, "application/json") as file:
            file.write(json.dumps(asdict(feedback)).encode())
        if FileSystems.exists(self._path(feedback.number)):
            FileSystems.delete([self._path(feedback.number)])
        FileSystems.rename([temporary], [self._path(feedback.number)])
        old = self._path(feedback.number - _KEPT)
        if FileSystems.exists(old):
            FileSystems.delete([old])

    def read(self, number: int) -> Feedback | None:
        """The feedback of the micro-batch of a tick; None where there is none."""
        if not FileSystems.exists(self._path(number)):
            return None
        with FileSystems.open(self._path(number)) as file:
            return Feedback(**json.loads(file.read()))

    def _path(self, number: int) -> str:
        return f"{self._folder}/{number}.json"
