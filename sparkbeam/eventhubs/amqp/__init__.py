"""AMQP 1.0 as far as Event Hubs speaks it: values and frames, for a client and for a server."""
