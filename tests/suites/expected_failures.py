"""Beam's tests that fail over this runner, each with the reason.

All of them have to fail for as long as they stand here, so the list can only
shrink. A key is a test's id without ``apache_beam.``, and may end in ``*``.
"""

from fnmatch import fnmatchcase

EXPECTED_FAILURES: dict[str, str] = {}


def reason(test_id: str) -> str | None:
    """Why the test fails; None for one that has to pass."""
    name = test_id.removeprefix("apache_beam.")
    return next(
        (why for pattern, why in EXPECTED_FAILURES.items() if fnmatchcase(name, pattern)), None
    )
