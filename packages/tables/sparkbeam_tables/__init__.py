"""Tables of Iceberg, Delta and databases."""
