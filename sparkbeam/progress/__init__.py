"""Live progress of a running pipeline: from worker signals to an API or a terminal.

Progress is lossy by design. Nothing here may fail or delay a pipeline.
"""
