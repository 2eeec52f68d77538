"""The driver's half of the transforms in :mod:`sparkbeam.io`."""
