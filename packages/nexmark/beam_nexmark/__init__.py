"""Nexmark: a benchmark of Beam pipelines that also checks their results."""
