"""In-memory server of Event Hubs: AMQP 1.0 over plain TCP on the loopback interface."""
