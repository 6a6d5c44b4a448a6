"""Verifies webhook deliveries of Firm Forms."""

from __future__ import annotations

import hashlib
import hmac
import re
import time
from typing import Iterable, Literal, Optional, Union

from .events import EVENTS, EventPayload

__all__ = ["AGE_MAX_SECONDS", "EVENTS", "EventPayload", "SignatureError", "verify"]

# A signature is at most so far from the current time, in either direction.
AGE_MAX_SECONDS = 300

SignatureProblem = Literal["malformed", "stale", "mismatch"]

_FORM = re.compile("t=([0-9]{1,12}),v1=([0-9a-f]{64})")
_SENTENCES = {
    "malformed": "malformed signature",
    "stale": "stale signature",
    "mismatch": "wrong signature",
}


class SignatureError(ValueError):
    """The request is not from the service, or too old. Answer 401."""

    reason: SignatureProblem

    def __init__(self, reason: SignatureProblem) -> None:
        super().__init__(_SENTENCES[reason])
        self.reason = reason


def verify(
    header: Optional[str],
    body: bytes,
    secrets: Union[str, Iterable[str]],
    now: Optional[float] = None,
) -> None:
    """Raises SignatureError unless one of the secrets signed this body within 5 minutes of now.

    header is the value of X-Service-Signature; none is malformed. body has the bytes as they
    arrived, before anything parsed them. secrets is the firm's secret, or two while one is rotated;
    an empty one verifies nothing. now is in unix seconds; the clock of this machine if left out.
    """
    if not isinstance(body, (bytes, bytearray, memoryview)):
        raise TypeError("verify takes the raw body, before anything parses it")
    parts = _FORM.fullmatch(header or "")
    if not parts:
        raise SignatureError("malformed")
    t, v1 = parts.groups()
    # NaN is no time, so it refuses.
    if not abs((time.time() if now is None else now) // 1 - int(t)) <= AGE_MAX_SECONDS:
        raise SignatureError("stale")
    for secret in [secrets] if isinstance(secrets, str) else secrets:
        signed = hmac.new(secret.encode(), t.encode() + b"." + bytes(body), hashlib.sha256)
        if secret and hmac.compare_digest(signed.hexdigest(), v1):
            return
    raise SignatureError("mismatch")
