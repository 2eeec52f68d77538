"""Assumptions about how Beam puts out elements on which a step fails."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms import core
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.common.arguments import shown

Check = Callable[[Any], None]


def check_outputs(handler: Any, check_of: Callable[[Any], Check | None]) -> None:
    """Have the outputs of a step checked where its errors are handled.

    Args:
        check_of: returns the check of the values of a type, which raises an error, or None. It is
            called once the pipeline is built: the types of outputs may be set until then.
    """
    outputs = _Outputs(check_of, handler._dead_letter_tag)
    build, finish = handler._build_pardo, handler._post_process_result

    def build_checked(pcoll: Any) -> Any:
        step = build(pcoll)
        fn = step.fn
        fn._fn = _CheckedDoFn(fn._fn, outputs)
        fn.__class__ = _PrintableDoFn
        if fn.process.__func__ is core._ExceptionHandlingWrapperDoFn.__dict__[_PROCESS]:
            fn.process = getattr(fn, _PROCESS)
        return step

    def finish_noted(pcoll: Any, result: Any) -> Any:
        outputs.by_tag = result._pcolls
        return finish(pcoll, result)

    handler._build_pardo, handler._post_process_result = build_checked, finish_noted


_PROCESS = "exception_handling_wrapper_do_fn_custom_process"


class _Outputs:
    """The outputs of a step; pickled as the checks of their values, by tag."""

    def __init__(self, check_of: Callable[[Any], Check | None], dead_letter_tag: str) -> None:
        self._check_of = check_of
        self._dead_letter_tag = dead_letter_tag
        self.by_tag: dict[str | None, Any] = {}
        self.checks: dict[str | None, Check | None] = {}

    def __getstate__(self) -> dict[str, Any]:
        if "by_tag" not in vars(self):  # It has been pickled before.
            return {"checks": self.checks}
        checks = {
            tag: self._check_of(output.element_type)
            for tag, output in self.by_tag.items()
            if tag != self._dead_letter_tag
        }
        return {"checks": checks}


class _CheckedDoFn(core.DoFn):
    """A DoFn whose ``process`` raises the errors of its outputs; all else is that of another."""

    def __init__(self, fn: Any, outputs: _Outputs) -> None:
        self._fn = fn
        self._outputs = outputs

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("__") or name in self.__dict__ or name in _CheckedDoFn.__dict__:
            return object.__getattribute__(self, name)
        return getattr(self._fn, name)

    def __getstate__(self) -> dict[str, Any]:
        return {"_fn": self._fn, "_outputs": self._outputs}

    @functools.cached_property
    def process(self) -> Any:
        """The method, with the parameters of the other one's."""
        process, checks = self._fn.process, self._outputs.checks

        @functools.wraps(process)
        def checked(*args: Any, **kwargs: Any) -> Iterator[Any]:
            try:
                for element in process(*args, **kwargs) or ():
                    tag, value = None, element
                    if isinstance(value, TaggedOutput):
                        tag, value = value.tag, value.value
                    if isinstance(value, TimestampedValue | WindowedValue):
                        _check_timestamp(value.timestamp)
                        value = value.value
                    check = checks.get(tag)
                    if check is not None:
                        check(value)
                    yield element
            except Exception as error:
                repr(error)  # Beam would fail here, outside of its error handling.
                raise

        return checked


def _check_timestamp(timestamp: Any) -> None:
    if not MIN_TIMESTAMP <= timestamp <= MAX_TIMESTAMP:
        raise ValueError(
            f"the timestamp {shown(timestamp)} is not between {MIN_TIMESTAMP} and {MAX_TIMESTAMP}"
        )


class _PrintableDoFn(core._ExceptionHandlingWrapperDoFn):
    """Beam's DoFn, whose dead letters have texts that a coder takes."""

    def exception_handling_wrapper_do_fn_custom_process(
        self, *args: Any, **kwargs: Any
    ) -> Iterator[Any]:
        """Process an element."""
        for output in super().exception_handling_wrapper_do_fn_custom_process(*args, **kwargs):
            match output:
                case TaggedOutput(
                    value=(element, (type() as kind, str() as text, list() as lines))
                ):
                    letter = element, (kind, _printable(text), [*map(_printable, lines)])
                    yield TaggedOutput(output.tag, letter)
                case _:
                    yield output


def _printable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
