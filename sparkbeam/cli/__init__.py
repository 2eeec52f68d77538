"""The command ``sparkbeam``."""
