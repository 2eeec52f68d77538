"""The state of a shard, from Spark's state store up to the record of a key."""
