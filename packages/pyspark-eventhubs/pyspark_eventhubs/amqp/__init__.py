"""The subset of AMQP 1.0 that Event Hubs uses: values and frames, for clients and servers."""
