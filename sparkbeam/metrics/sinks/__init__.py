"""The sinks that come with sparkbeam, one to a module."""
