"""The pipeline options of the runner, and the checks of those that Beam knows too."""
