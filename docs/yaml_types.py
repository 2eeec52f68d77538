"""Writes the table of types in docs/yaml.md from Beam YAML's catalogue; a test compares the two.

Run with ``python docs/yaml_types.py`` after a change of Beam's version or of the providers.
"""

from collections import defaultdict
from pathlib import Path

from apache_beam.yaml import yaml_provider

from sparkbeam.replaced.yaml.providers import native, system_of
from sparkbeam.upstream.yaml_scopes import runs_elsewhere

PAGE = Path(__file__).with_name("yaml.md")

_HEAD = "| types | run |\n|---|---|\n"
_PYTHON = "as in Python"
_JAVA = "not: an error before Java or a download starts"
_SQL = "as [Spark SQL](sql.md)"
_SYSTEMS = {
    "kafka": "on [Spark's source and sink](kafka.md#rows)",
    "iceberg": "on [Spark's tables](iceberg.md)",
    "iceberg_cdc": "on [Spark's tables](iceberg.md)",
    "delta": "on [Spark's tables](delta.md)",
    "delta_cdc": "on [Spark's tables](delta.md)",
}
_JDBC = "[over JDBC](jdbc.md)"


def renewed(text: str) -> str:
    """Return the page with the table of the catalogue."""
    kinds: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for kind in yaml_provider.standard_providers():
        name, _, language = kind.partition("-")
        kinds[_how(kind)][name] += [language] * bool(language)
    rows = (
        f"| {', '.join(_shown(*each) for each in names.items())} | {how} |\n"
        for how, names in sorted(kinds.items(), key=lambda part: part[0] == _JAVA)
    )
    begin, end = text.index(_HEAD), text.index("\n\n", text.index(_HEAD)) + 1
    return text[:begin] + _HEAD + "".join(rows) + text[end:]


def _how(kind: str) -> str:
    """Return how a type runs."""
    theirs = yaml_provider.standard_providers()[kind]
    ours = [native(kind, provider) for provider in theirs]
    if all(map(runs_elsewhere, ours)):
        return _JAVA
    found = system_of(kind)
    if found is not None:
        return _SYSTEMS.get(found[0], _JDBC)
    return _SQL if ours[0] is not theirs[0] else _PYTHON


def _shown(name: str, languages: list[str]) -> str:
    return f"`{name}`" + f" ({', '.join(languages)})" * bool(languages)


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text()))
