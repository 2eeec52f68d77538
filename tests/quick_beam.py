"""Lets Beam's own parts of a pipeline take less of the time of tests; they do the same."""

import argparse
from typing import Any

from apache_beam.options import pipeline_options
from apache_beam.runners.worker import statesampler
from apache_beam.transforms import core

from sparkbeam.upstream.sampler import Sampler
from sparkbeam.upstream.signatures import remembering


def prepare() -> None:
    """Spares pipelines on all runners to inspect methods again, and to wait for a thread."""
    found = remembering(core.get_function_args_defaults, lambda: True)
    core.get_function_args_defaults = found  # type: ignore[assignment]
    statesampler.StateSampler = Sampler  # type: ignore[assignment,misc]
    # Each view of options makes a parser, which asks for translations and the terminal's width.
    parsing: Any = argparse
    parsing._ = str
    formatter = argparse.HelpFormatter("beam")
    parser: Any = pipeline_options._BeamArgumentParser
    parser._get_formatter = lambda self: formatter
