"""Code that runs inside Spark's Python workers; it knows nothing of the driver."""
