"""Transforms and hooks of Event Hubs, over the data source of :mod:`sparkbeam.eventhubs`."""
