"""Expected results: number and digest of the results of each query.

The file contains them by configuration, named by the differences from the defaults of
:class:`~beam_nexmark.configuration.Configuration` and by the number of events::

    {"events=1000": {"0": [1000, "1f..."], "1": [920, "c3..."], ...}, ...}
"""

import json
from functools import cache
from importlib.resources import files

from beam_nexmark.configuration import Configuration
from beam_nexmark.queries import Query
from beam_nexmark.result_digest import Summary


def stored(query: Query, configuration: Configuration) -> Summary | None:
    """Return the expected summary of a query and its configuration; None if none is stored."""
    answer = _answers().get(key(configuration), {}).get(str(query.number))
    return None if answer is None else Summary(*answer)


def key(configuration: Configuration) -> str:
    """Return the name of a configuration in the file."""
    usual = Configuration().as_dict()
    return ",".join(
        f"{name}={value}"
        for name, value in configuration.as_dict().items()
        if name == "events" or value != usual[name]
    )


@cache
def _answers() -> dict[str, dict[str, tuple[int, str]]]:
    text = files(__package__).joinpath("expectations.json").read_text(encoding="utf-8")
    answers: dict[str, dict[str, tuple[int, str]]] = json.loads(text)
    return answers
