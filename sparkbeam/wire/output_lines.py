"""What steps print and log, on its way from a worker to the driver."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from sparkbeam.common.display_text import concealed
from sparkbeam.common.secret_patterns import hidden
from sparkbeam.wire.loglevels import LogLevels

STDOUT, STDERR = "stdout", "stderr"
"""The streams that a line may be of."""

AT, IDLE = "at", "idle"
"""What else a worker tells a driver on its machine: at which steps it is, or that it is at none."""

MOST_LINES = 100
"""So many lines of a step travel with reports; the others are only counted."""

_LONGEST_LINE = 2000
"""So many characters of a line do."""


class Line(NamedTuple):
    """A line that a step has written.

    Attributes:
        stream: which of the standard streams it belongs to.
        step: the label of the step.
        text: the line, without its end.
    """

    stream: str
    step: str
    text: str

    def cut(self, hide: Callable[[str], str] = hidden) -> "Line":
        """The line as it travels with a report; secrets are taken out of one that is cut."""
        if len(self.text) <= _LONGEST_LINE:
            return self
        return self._replace(text=concealed(self.text, _LONGEST_LINE, hide))


@dataclass(frozen=True)
class Written:
    """What steps have written that nobody has been told at once.

    Attributes:
        lines: the first ones of each step.
        more: how many others there are, by the label of their step.
    """

    lines: tuple[Line, ...] = ()
    more: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, lines: Iterable[Line], more: Mapping[str, int] | None = None) -> "Written":
        """Of all the lines, those that are worth their way."""
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
        """This and what was written later."""
        if not other:
            return self
        more = Counter(self.more) + Counter(other.more)
        return Written.of((*self.lines, *other.lines), more)

    def counted(self) -> "Written":
        """The same without the lines: two attempts of a task may print different things."""
        return Written((), dict(Counter(line.step for line in self.lines) + Counter(self.more)))

    def __bool__(self) -> bool:
        return bool(self.lines or self.more)


@dataclass(frozen=True)
class Relay:
    """Where a driver on this machine takes lines.

    Attributes:
        port: of the loopback interface.
        token: proves that a connection belongs to the run.
    """

    port: int
    token: str


@dataclass(frozen=True)
class OutputSpec:
    """What becomes of the output of tasks; it travels with them.

    Attributes:
        levels: what is logged.
        relay: where a driver on the same machine takes lines; None where there is none.
    """

    levels: LogLevels = field(default_factory=LogLevels)
    relay: Relay | None = None
