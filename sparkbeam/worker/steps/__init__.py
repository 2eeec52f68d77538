"""The operations of a bundle."""
