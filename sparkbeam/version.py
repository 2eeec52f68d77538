"""The version of sparkbeam."""

__version__ = "0.1.0"
