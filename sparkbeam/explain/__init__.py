"""What a pipeline becomes on Spark, in words and as a picture."""
