"""Live progress of a running pipeline: from the workers' signals to a program or a terminal.

Progress is lossy by design. Nothing in here may fail a pipeline, or hold one up.
"""
