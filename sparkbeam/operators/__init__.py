"""Operators, one module each.

A module has all that there is to know of its operator: the steps that it matches, the type of its
output, its operation in a worker, and its description. :mod:`sparkbeam.operators.registry` lists
them.
"""
