"""HTTP posts to servers that may be down, slow or misconfigured."""

from collections.abc import Mapping

import requests

from sparkbeam.plan.redaction import Redaction, shown_url

_TIMEOUT = (3.0, 5.0)
"""Timeout for connecting and for the response, in seconds."""


def post(url: str, body: bytes, kind: str, headers: Mapping[str, str] | None = None) -> None:
    """Post a body, without following redirects or reading the response.

    Raises:
        OSError: the server cannot be reached in time, or its status is not 200. The message
            contains no secrets.
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
        raise TimeoutError(f"{shown_url(url)} did not respond in time.") from None
    except (requests.RequestException, ValueError) as error:
        cause: BaseException = error
        while cause.__context__ is not None:  # Messages of requests repeat whole URLs.
            cause = cause.__context__
        reason = redaction(f"{type(cause).__name__}: {cause}")
        raise ConnectionError(f"{shown_url(url)}: {reason}") from None
    if status != requests.codes.ok:
        raise ConnectionError(f"{shown_url(url)} returned status {status}, not 200.")
