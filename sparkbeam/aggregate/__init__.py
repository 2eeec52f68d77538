"""Aggregation by key and window: one form of partial results, before and behind a shuffle.

Rows of :class:`.aggregates.Aggregates` have the number of a key, the start and the end of a window
or slice, a timestamp, an element count and an accumulator. Accumulators are numbers of a vectorized
form, or objects in an array of objects; what merges them takes both. The operations are:

- add: elements to aggregates (``columnar_sessions.SessionColumns.reduce``, and the tables of
  ``worker/steps/column_tables.py``, where pairs wait for many others);
- merge: aggregates of equal keys and windows (``WindowColumns``), or of overlapping windows of a
  key (``SessionColumns``; ``ordered_sessions`` and ``canonical_sessions`` go element by element);
- slice and unslice: sliding windows are merged out of the slices that they share
  (``worker/steps/combine_windows.py``, ``worker/grouping/combined.py``);
- extract: accumulators, and their outputs (``worker/steps/combine_phases.py``).
"""
