"""Conversion of elements to cells of rows, and of rows to elements."""
