"""Beam's Kafka transforms, over Spark's source and sink.

A read passes :mod:`.constructors`, :mod:`.arguments` and :mod:`.read`, with the :mod:`.hooks` of
its source; a write :mod:`.write`, and :mod:`.transactions` in its task. Managed transforms are in
:mod:`.rows`. :mod:`.client` asks a broker for offsets.
"""
