"""What driver and workers say to each other: it knows neither Spark nor a bundle processor."""
