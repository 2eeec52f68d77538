"""The client over TLS: only to a server whose certificate it trusts."""

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest
from hubs import all_of, connected, numbered

from pyspark_eventhubs.events import BrokenOffError
from pyspark_eventhubs.testing import EventHubsServer

OPENSSL = shutil.which("openssl")


@pytest.mark.skipif(OPENSSL is None, reason="there is no openssl to make a certificate")
def test_it_reads_from_a_server_that_it_trusts_and_from_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    made = f"{OPENSSL} req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out"]
    subprocess.run([*made.split(), *names, str(certificate)], check=True, capture_output=True)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    with EventHubsServer({"clicks": 1}, tls=tls) as server:
        server.send("clicks", numbered(2000), partition=0)
        with pytest.raises(BrokenOffError, match="certificate"):
            connected(server).partitions()
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        client = connected(server)
        receiver = client.receiver("$Default", "0", 0, None, 300)
        assert all_of(receiver, 2000).bodies == numbered(2000)
        client.close()
