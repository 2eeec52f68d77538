"""Reasons why a function or a block does not run over columns."""


class NotCompiled(Exception):
    """A function cannot be compiled; the text completes "…, because"."""


class UnknownShape(NotCompiled):
    """No column can hold the values."""


class FallBack(Exception):
    """Columns may differ from Python for this block, which must go element by element.

    The text is the reason, such as "an int exceeds 64 bits".
    """
