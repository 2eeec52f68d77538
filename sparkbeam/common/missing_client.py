"""Error for one of Beam's transforms whose client library is not installed."""

from sparkbeam.errors import ConfigurationError


def missing_client(transform: str, package: str) -> ConfigurationError:
    """Return the error.

    Args:
        package: what pip installs.
    """
    return ConfigurationError(
        f"{transform} needs the package {package}, which is not installed: pip install "
        f"'{package}', here and on the workers."
    )
