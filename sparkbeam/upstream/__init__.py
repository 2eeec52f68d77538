"""What sparkbeam assumes of the inside of Beam and of Spark, one module for each."""
