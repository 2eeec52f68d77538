"""Vectorized forms of CombineFns: accumulators as numbers in columns, where these are exact."""
