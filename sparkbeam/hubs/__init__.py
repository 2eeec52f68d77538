"""Event Hubs in pipelines, over the data source of :mod:`sparkbeam.eventhubs`."""
