"""Driver side of the transforms in :mod:`sparkbeam.io`."""
