"""Posting to a server that may be down, slow, or another one than thought."""

from collections.abc import Mapping

import requests

from sparkbeam.plan.redaction import Redaction, shown_url

_TIMEOUT = (3.0, 5.0)
"""To connect, and to wait for an answer; in seconds."""


def post(url: str, body: bytes, kind: str, headers: Mapping[str, str] | None = None) -> None:
    """Posts a body; redirects are not followed, and the answer is not read.

    Args:
        url: where to; it may hold secrets.
        body: the content.
        kind: its media type.
        headers: further ones, which may hold secrets.

    Raises:
        OSError: the server cannot be reached in time, or answers otherwise than with 200. The
            message has no secret in it.
    """
    redaction = Redaction(
        [("address", url), *(("token", value) for value in (headers or {}).values())]
    )
    try:
        with requests.post(
            url,
            data=body,
            headers={"Content-Type": kind, **(headers or {})},
            timeout=_TIMEOUT,
            allow_redirects=False,
            stream=True,
        ) as answer:
            status = answer.status_code
    except requests.Timeout:
        raise TimeoutError(f"{shown_url(url)} does not answer in time.") from None
    except (requests.RequestException, ValueError) as error:
        raise ConnectionError(f"{shown_url(url)}: {redaction(_reason(error))}") from None
    if status != requests.codes.ok:
        raise ConnectionError(f"{shown_url(url)} answers with the status {status}, not 200.")


def _reason(error: BaseException) -> str:
    """What lies at the bottom of an error of ``requests``, which repeats whole URLs."""
    while error.__context__ is not None:
        error = error.__context__
    return f"{type(error).__name__}: {error}"
