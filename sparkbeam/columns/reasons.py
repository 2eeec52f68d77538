"""Why a function or a block does not run over columns."""


class NotCompiled(Exception):
    """A function cannot be compiled; the text says why, as the end of "…, because"."""


class UnknownShape(NotCompiled):
    """No column holds such values."""


class NotExact(Exception):
    """For this block columns may not give what Python gives; it goes element by element.

    The text says why, such as "an int leaves 64 bits".
    """
