"""Assumptions about how Beam puts out elements on which a step fails."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms.core import DoFn
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.windowed_value import WindowedValue

Check = Callable[[Any], None]


def check_outputs(handler: Any, check_of: Callable[[Any], Check | None]) -> None:
    """Have the outputs of a step checked where its errors are handled.

    Args:
        handler: the transform.
        check_of: returns the check of the values of a type, which raises an error, or None. It is
            called once the pipeline is built: the types of outputs may be set until then.
    """
    output = _Output(check_of)
    build, finish = handler._build_pardo, handler._post_process_result

    def build_checked(pcoll: Any) -> Any:
        plain = handler._fn
        handler._fn = _CheckedDoFn(plain, output)
        try:
            return build(pcoll)
        finally:
            handler._fn = plain

    def finish_noted(pcoll: Any, result: Any) -> Any:
        output.main = result[handler._main_tag]
        return finish(pcoll, result)

    handler._build_pardo, handler._post_process_result = build_checked, finish_noted


class _Output:
    """The main output of a step; pickled as the check of its values."""

    def __init__(self, check_of: Callable[[Any], Check | None]) -> None:
        self._check_of = check_of
        self.main: Any = None
        self.check: Check | None = None

    def __getstate__(self) -> dict[str, Any]:
        check = None if self.main is None else self._check_of(self.main.element_type)
        return {"main": None, "check": check}


class _CheckedDoFn(DoFn):
    """A DoFn whose ``process`` raises the errors of its outputs; all else is that of another."""

    def __init__(self, fn: Any, output: _Output) -> None:
        self._fn = fn
        self._output = output

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("__") or name in self.__dict__ or name in _CheckedDoFn.__dict__:
            return object.__getattribute__(self, name)
        return getattr(self._fn, name)

    def __getstate__(self) -> dict[str, Any]:
        return {"_fn": self._fn, "_output": self._output}

    @functools.cached_property
    def process(self) -> Any:
        """The method, with the parameters of the other one's."""
        process, output = self._fn.process, self._output

        @functools.wraps(process)
        def checked(*args: Any, **kwargs: Any) -> Iterator[Any]:
            try:
                for element in process(*args, **kwargs) or ():
                    value = element
                    while isinstance(value, TimestampedValue | WindowedValue):
                        value = value.value
                    if output.check is not None and not isinstance(value, TaggedOutput):
                        output.check(value)
                    yield element
            except Exception as error:
                # A dead letter has the text of the error, which a coder has to take as well.
                error.args = tuple(map(_printable, error.args))
                raise

        return checked


def _printable(part: Any) -> Any:
    return part.encode("utf-8", "backslashreplace").decode() if isinstance(part, str) else part
