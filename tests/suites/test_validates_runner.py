"""Every test that Beam itself means for every runner."""

from beam_suites import validates_runner_suite

globals().update(validates_runner_suite())
