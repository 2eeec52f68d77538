"""Spark on the driver: the session and its JVM, collecting, cancelling, and failures of Spark."""
