"""How elements become cells of rows, and rows become elements."""
