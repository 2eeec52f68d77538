"""Output and logs of steps, on their way from a worker to the driver."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from sparkbeam.common.display_text import concealed
from sparkbeam.common.secret_patterns import hidden
from sparkbeam.wire.loglevels import LogLevels

STDOUT, STDERR = "stdout", "stderr"
"""Streams of a line."""

AT, IDLE = "at", "idle"
"""Other messages of a worker to a local driver: its current steps, or that it has none."""

MOST_LINES = 100
"""Maximum number of lines of a step in reports; the others are only counted."""

_LONGEST_LINE = 2000
"""Maximum number of characters of a line in reports."""


class OutputLine(NamedTuple):
    """An output line of a step.

    Attributes:
        text: the line, without its end.
    """

    stream: str
    step: str
    text: str

    def cut(self, hide: Callable[[str], str] = hidden) -> "OutputLine":
        """Shorten the line for a report; secrets are removed before the cut."""
        if len(self.text) <= _LONGEST_LINE:
            return self
        return self._replace(text=concealed(self.text, _LONGEST_LINE, hide))


@dataclass(frozen=True)
class Written:
    """Output of steps that was not relayed immediately.

    Attributes:
        lines: the first ones of each step.
        more: the number of others, by the label of their step.
    """

    lines: tuple[OutputLine, ...] = ()
    more: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def from_lines(
        cls, lines: Iterable[OutputLine], more: Mapping[str, int] | None = None
    ) -> "Written":
        """Keep the first lines of each step, and count the others."""
        seen, rest = Counter[str](), Counter(more)
        first = []
        for line in lines:
            seen[line.step] += 1
            if seen[line.step] <= MOST_LINES:
                first.append(line.cut())
            else:
                rest[line.step] += 1
        return cls(tuple(first), dict(rest))

    def plus(self, other: "Written") -> "Written":
        """Append later output."""
        if not other:
            return self
        more = Counter(self.more) + Counter(other.more)
        return Written.from_lines((*self.lines, *other.lines), more)

    def counted(self) -> "Written":
        """Return only the counts: two attempts of a task may print different lines."""
        return Written((), dict(Counter(line.step for line in self.lines) + Counter(self.more)))

    def __bool__(self) -> bool:
        return bool(self.lines or self.more)


@dataclass(frozen=True)
class Relay:
    """Receiver of lines in a local driver."""

    port: int
    token: str


@dataclass(frozen=True)
class OutputSpec:
    """Handling of the output of tasks; sent with them.

    Attributes:
        relay: the receiver of lines in a local driver; None without one.
    """

    levels: LogLevels = field(default_factory=LogLevels)
    relay: Relay | None = None
