"""Beam's Pub/Sub transforms, with Google's client."""
