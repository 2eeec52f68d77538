"""Runs without the operations on blocks: what is over columns is compared with that."""

from collections.abc import Callable

import pytest

from sparkbeam.operators import registry


def as_elements(monkeypatch: pytest.MonkeyPatch, run: Callable[[], list[str]]) -> list[str]:
    """What a call gives where Beam's own operations take the elements one by one."""
    with monkeypatch.context() as patch:
        patch.setattr(registry, "OPERATORS", registry.ELEMENTWISE)
        return run()
