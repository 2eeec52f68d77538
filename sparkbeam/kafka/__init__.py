"""Client of Kafka for offsets that Spark's source neither asks for nor commits."""
