"""The public keys of an issuer of tokens: found by its metadata, kept, and asked for again for a key that is new.

Only public keys are ever taken, and only from where nobody could have changed them on the way.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from http.client import HTTPException, HTTPResponse
from typing import Any, Final, cast
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from jwt import PyJWK
from jwt.exceptions import PyJWTError

from handler.access.rereading import PAUSE_SECONDS, Moment, Reread
from retrieval.errors import BedivereError, ErrorCode

KEPT_SECONDS: Final = 86_400.0
"""How long keys stay good while the issuer does not answer; then nobody is let in."""

_FRESH_SECONDS: Final = 3_600.0
_UNKNOWN_SECONDS: Final = 30.0
"""Tokens that name keys there are not make us ask the issuer once in this time at most."""

_TIMEOUT_SECONDS: Final = 4.0
_WHOLE_SECONDS: Final = 8.0
"""For all of an answer: as long as one is read, none is asked for again."""

_MAX_BYTES: Final = 512 * 1024
_MAX_KEYS: Final = 100
_LEAST_RSA_BITS: Final = 2048

_KINDS: Final = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}
"""The kind of key that each family of algorithms takes, by the first letters of the algorithm."""

_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})

KeySet = tuple[Mapping[str, Any], ...]


class IssuerKeys:
    """The keys of `issuer`, which may be asked from any event loop."""

    def __init__(
        self,
        issuer: str,
        *,
        fetch: Callable[[str], object] | None = None,
        now: Callable[[], Moment] = Moment.now,
    ) -> None:
        self._issuer = issuer
        self._fetch = fetch or fetch_json
        self._now = now
        self._asked_for_unknown: Moment | None = None
        self._held: Reread[KeySet] = Reread("The keys of the issuer of tokens", self._read, now=now)

    def start(self) -> None:
        """Begins to fetch them, in a thread. Never raises."""
        self._held.begin()

    async def find(self, kid: str | None, algorithm: str) -> PyJWK | None:
        """The key called `kid`, for tokens signed by `algorithm`; without a name, the only one that fits.

        Raises `BedivereError` ACCESS_UNAVAILABLE where no keys could be fetched.
        """
        if self._held.age >= _FRESH_SECONDS:
            await self._held.again(_FRESH_SECONDS)
        found = self._named(kid, algorithm)
        now, before = self._now(), self._asked_for_unknown
        if found is None and (before is None or before.seconds_to(now) >= _UNKNOWN_SECONDS):
            # The issuer may have taken a new key into use since.
            self._asked_for_unknown = now
            await self._held.again(_UNKNOWN_SECONDS)
            found = self._named(kid, algorithm)
        return found

    def _named(self, kid: str | None, algorithm: str) -> PyJWK | None:
        keys = self._held.value
        if keys is None or self._held.age >= KEPT_SECONDS:
            raise BedivereError(
                ErrorCode.ACCESS_UNAVAILABLE,
                "The keys of the issuer of tokens cannot be fetched now, so nobody is let in: call again in "
                f"{PAUSE_SECONDS:.0f} seconds.",
            )
        named = [one for one in keys if _fits(one, algorithm) and (kid is None or one.get("kid") == kid)]
        return _usable(named[0], algorithm) if len(named) == 1 else None

    def _read(self, before: KeySet | None) -> KeySet:
        del before
        metadata = self._metadata()
        if metadata.get("issuer") != self._issuer:
            raise _unusable("its metadata names another issuer: set BEDIVERE_JWT_ISSUER exactly as its tokens have it")
        address = metadata.get("jwks_uri")
        if not isinstance(address, str) or not is_safe(address):
            raise _unusable("its metadata names no https address of keys")
        keys = _object(self._fetch(address)).get("keys")
        if not isinstance(keys, list):
            raise _unusable("what its jwks_uri leads to is no set of keys")
        # One that is no key does not make the others unusable (RFC 7517, 5).
        listed = cast("list[object]", keys)[:_MAX_KEYS]
        return tuple(cast("dict[str, Any]", key) for key in listed if isinstance(key, dict))

    def _metadata(self) -> Mapping[str, Any]:
        """By OpenID Connect's address, and else by that of RFC 8414."""
        parts = urlsplit(self._issuer)
        path = parts.path.rstrip("/")
        try:
            return _object(self._fetch(f"{self._issuer.rstrip('/')}/.well-known/openid-configuration"))
        except LookupError:
            root = f"{parts.scheme}://{parts.netloc}"
        try:
            return _object(self._fetch(f"{root}/.well-known/oauth-authorization-server{path}"))
        except LookupError:
            raise _unusable("it has no metadata at either of the well-known addresses") from None


def is_safe(address: str) -> bool:
    """Whether what comes from `address` cannot have been changed on the way: https, or this machine itself."""
    try:
        parts = urlsplit(address)
        encrypted = parts.scheme == "https" and bool(parts.hostname)
        return encrypted or (parts.scheme == "http" and parts.hostname in _LOOPBACK)
    except ValueError:
        return False


def fetch_json(address: str) -> object:
    """The JSON at `address`. Follows no redirect, and takes no more than it should.

    Raises `LookupError` for 404, `BedivereError` STORE_UNREACHABLE for any other failure.
    """
    request = Request(address, headers={"accept": "application/json", "user-agent": "bedivere"})  # noqa: S310 - is_safe was asked
    try:
        with build_opener(_NoRedirects).open(request, timeout=_TIMEOUT_SECONDS) as answer:
            data = _whole(answer)
    except HTTPError as error:
        with error:
            if error.code == 404:
                raise LookupError(address) from None
            raise _unusable(f"it answered {error.code}") from None
    except (OSError, ValueError, HTTPException) as error:
        raise _unusable(f"it did not answer ({type(error).__name__})") from None
    if len(data) > _MAX_BYTES:
        raise _unusable("its answer is too large")
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise _unusable("its answer is no JSON") from None


def _whole(answer: HTTPResponse) -> bytes:
    """At most a byte more than there may be. Raises `OSError` where it trickles in, however soon each piece comes."""
    give_up = time.monotonic() + _WHOLE_SECONDS
    data = bytearray()
    while len(data) <= _MAX_BYTES and (piece := answer.read1(_MAX_BYTES + 1 - len(data))):
        data += piece
        if time.monotonic() >= give_up:
            raise TimeoutError
    return bytes(data)


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *args: object, **kwargs: object) -> None:
        """None makes an error of the redirect."""
        del args, kwargs


def _fits(key: Mapping[str, Any], algorithm: str) -> bool:
    return (
        key.get("kty") == _KINDS.get(algorithm[:2])
        # Of a key whose private half is published, anyone could have signed.
        and "d" not in key
        and key.get("use", "sig") == "sig"
        and key.get("alg", algorithm) == algorithm
    )


def _usable(key: Mapping[str, Any], algorithm: str) -> PyJWK | None:
    try:
        made = PyJWK(dict(key), algorithm=algorithm)
    except PyJWTError:
        return None
    bits = getattr(made.key, "key_size", _LEAST_RSA_BITS)
    return None if key.get("kty") == "RSA" and bits < _LEAST_RSA_BITS else made


def _object(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _unusable("it answered something else than a JSON object")
    return cast("dict[str, Any]", value)


def _unusable(reason: str) -> BedivereError:
    return BedivereError(ErrorCode.STORE_UNREACHABLE, f"The issuer of tokens cannot be asked: {reason}.")
