"""Database servers of Debian's packages on loopback, each in a folder that goes with it."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from listening import answers, free_port
from waiting import until

POSTGRESQL = sorted(Path("/usr/lib/postgresql").glob("*/bin"))


@dataclass(frozen=True)
class Server:
    """A running server.

    Attributes:
        url: the JDBC URL of its database.
        driver: the class of the driver.
        user: a user that may do everything.
        password: of the user.
    """

    url: str
    driver: str
    user: str
    password: str

    def arguments(self) -> dict[str, str]:
        """The arguments of Beam's transforms."""
        return {
            "driver_class_name": self.driver,
            "jdbc_url": self.url,
            "username": self.user,
            "password": self.password,
        }


@dataclass
class Sql:
    """A server with a connection to it.

    Attributes:
        server: the server.
        connection: one of Java's.
    """

    server: Server
    connection: Any

    def __call__(self, statement: str) -> None:
        self.connection.createStatement().execute(statement)

    def rows(self, query: str) -> list[tuple[str | None, ...]]:
        """The rows of a query, as texts."""
        found, rows = self.connection.createStatement().executeQuery(query), []
        count = found.getMetaData().getColumnCount()
        while found.next():
            rows.append(tuple(found.getString(number + 1) for number in range(count)))
        return rows


def as_other_user(*names: str) -> list[str]:
    """The prefix of a command that root gives: the servers do not run as root."""
    if os.getuid():
        return []
    users = {line.split(":")[0] for line in Path("/etc/passwd").read_text().splitlines()}
    return ["runuser", "-u", next(name for name in names if name in users), "--"]


@contextmanager
def _folder(prefix: list[str]) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="db", dir="/tmp"))
    if prefix:
        shutil.chown(folder, prefix[2])
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def postgresql() -> Iterator[Server]:
    """A PostgreSQL server with a password of hostile characters."""
    if not POSTGRESQL:
        pytest.skip("needs PostgreSQL (Debian's package postgresql)")
    prefix, port, password = as_other_user("postgres", "nobody"), free_port(), "s3cr'et &;=word"
    with _folder(prefix) as folder:

        def run(program: str, *arguments: object) -> None:
            command = [*prefix, str(POSTGRESQL[-1] / program), *map(str, arguments)]
            subprocess.run(command, check=True, cwd="/", stdout=subprocess.DEVNULL)

        secret = folder / "password"
        secret.write_text(password)
        secret.chmod(0o644)
        own = ("-D", folder / "data")
        run("initdb", *own, "-N", "-U", "beam", "-A", "scram-sha-256", "--pwfile", secret)
        options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        run("pg_ctl", *own, "-w", "-o", options, "-l", folder / "log", "start")
        try:
            url = f"jdbc:postgresql://127.0.0.1:{port}/postgres"
            yield Server(url, "org.postgresql.Driver", "beam", password)
        finally:
            run("pg_ctl", *own, "-m", "immediate", "stop")


@contextmanager
def mariadb() -> Iterator[Server]:
    """A MariaDB server."""
    program = shutil.which("mariadbd", path="/usr/sbin:/usr/bin")
    install = shutil.which("mariadb-install-db")
    if program is None or install is None:
        pytest.skip("needs MariaDB (Debian's package mariadb-server)")
    prefix, port = as_other_user("mysql", "nobody"), free_port()
    with _folder(prefix) as folder:
        own = ["--no-defaults", f"--datadir={folder}/data"]
        subprocess.run(
            [*prefix, install, *own, "--auth-root-authentication-method=normal"],
            check=True,
            cwd="/",
            capture_output=True,
        )
        start = folder / "start.sql"
        start.write_text(
            "CREATE DATABASE IF NOT EXISTS test;\n"
            "CREATE USER beam@'127.0.0.1' IDENTIFIED BY 'hidden-word';\n"
            "GRANT ALL ON *.* TO beam@'127.0.0.1';\n"
        )
        start.chmod(0o644)
        listening = [f"--port={port}", "--bind-address=127.0.0.1", f"--socket={folder}/socket"]
        more = [
            f"--init-file={start}",
            "--skip-log-bin",
            "--skip-name-resolve",
            "--innodb-flush-log-at-trx-commit=0",
        ]
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(
                [*prefix, program, *own, *listening, *more], cwd="/", stdout=log, stderr=log
            )
        try:
            until(lambda: server.poll() is not None or answers(port), seconds=60)
            assert server.poll() is None, "the server has ended"
            yield Server(
                f"jdbc:mariadb://127.0.0.1:{port}/test",
                "org.mariadb.jdbc.Driver",
                "beam",
                "hidden-word",
            )
        finally:
            server.terminate()
            server.wait()
