"""The support table in the docs is the one in the code."""

from pathlib import Path

from sparkbeam.plan import support


def test_the_documented_table_is_generated_from_the_code() -> None:
    documented = Path(__file__).parents[2] / "docs" / "support.md"
    assert documented.read_text().strip() == support.table().strip()
