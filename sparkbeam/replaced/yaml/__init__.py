"""Providers of Beam's YAML."""
