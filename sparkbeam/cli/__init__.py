"""The command ``sparkbeam``."""

from sparkbeam.cli.commands import main

__all__ = ["main"]
