"""Tables of Iceberg and of Delta in SQL, with Iceberg and Delta themselves."""

from pathlib import Path

import pytest
import sql_tables_program
import table_programs

pytest.importorskip("sqlglot")


@pytest.mark.long("half a minute each; test_iceberg.py, test_managed_delta.py read alike")
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_table_of_ddl_is_written_and_read_in_batch_and_in_a_stream(
    tmp_path: Path, kind: str
) -> None:
    found = table_programs.findings([kind], sql_tables_program.__file__, kind, tmp_path)
    assert "The table 'sales' of ddl has no column 'nothing'" in found.pop("missing")
    none = "'None'"
    at = "Timestamp(1704164645.678901)"
    assert found == {
        "sales": [
            f"['1', \"it's\", '1.250000000000000000', '2024-02-29', '{at}', '7']",
            f"['2', {none}, {none}, {none}, {none}, {none}]",
            f"['3', {none}, {none}, {none}, {none}, '1']",
            f"['4', {none}, {none}, {none}, {none}, {none}]",
        ],
        "sums": ["['1.250000000000000000', '1', '4']"],
        "narrow": ["['1', '7']"],
        "stream": ["['0', 'None']", "['1', \"it's\"]", "['2', 'None']", "['3', 'None']"],
    }
