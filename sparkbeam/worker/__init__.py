"""What runs inside Spark's Python workers; knows nothing of the driver."""
