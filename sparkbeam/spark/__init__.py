"""Spark on the driver: session, JVM, collecting, cancelling, and errors of Spark."""
