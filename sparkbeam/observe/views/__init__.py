"""Views of the figures: terminal, notebook, lines of a log."""
