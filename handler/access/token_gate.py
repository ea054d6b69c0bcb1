"""Lets in who holds a token of the issuer, and tells who does not where to get one (RFC 9728, RFC 6750)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from mcp.server.auth.provider import AccessToken, TokenVerifier

from handler.access.caller import EVERY_TOOL, Caller
from handler.access.gate import Limits, Values, bearer_token, called_without, scope_missing, unavailable
from handler.guard import EndpointPaths
from handler.refusal import Refused, excerpt
from retrieval.errors import BedivereError, ErrorCode
from retrieval.settings import Settings

if TYPE_CHECKING:
    from starlette.types import Scope

WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"


class TokenGate:
    """Lets in who holds a token that `verifier` finds good."""

    def __init__(
        self, settings: Settings, verifier: TokenVerifier, *, start: Callable[[], None] = lambda: None
    ) -> None:
        self._verifier = verifier
        self._start = start
        self._issuer = settings.jwt_issuer
        self._prefix = settings.jwt_scope_prefix
        self._public_url = settings.public_url
        self._base, self._endpoint = settings.base_path, settings.endpoint
        self._limits = Limits(settings.caller_limit)
        self._pages = (
            EndpointPaths(WELL_KNOWN, self._base),
            EndpointPaths(f"{WELL_KNOWN}{self._endpoint}", self._base),
            EndpointPaths(f"{WELL_KNOWN}{self._base}{self._endpoint}", ""),
        )

    def start(self) -> None:
        self._start()

    async def admit(self, scope: Scope, headers: Values) -> Caller:
        try:
            token = bearer_token(headers)
        except Refused:
            raise self._unauthorized(
                "The Authorization header is not one Bearer token", scope, headers, "invalid_request"
            ) from None
        if token is None:
            raise self._unauthorized("This endpoint takes a token and the request has none", scope, headers)
        try:
            verified = await self._verifier.verify_token(token)
        except BedivereError as error:
            raise unavailable(error) from None
        if verified is None:
            reason = "The token is not good: it has expired, or is of another issuer or for another audience"
            raise self._unauthorized(reason, scope, headers, "invalid_token")
        caller = Caller(_name(verified), frozenset(self._own(verified.scopes)))
        # Where anyone may register a client, whoever signs in has as many names as they like.
        self._limits.spend(caller, _told(verified) if verified.subject else None)
        return caller

    def check_call(self, caller: Caller, message: Mapping[str, Any], scope: Scope, headers: Values) -> None:
        missing = called_without(caller, message)
        if missing is not None:
            # A client asks for all that it is told, so what it has must be told too.
            wanted = [name for name in EVERY_TOOL if name in caller.scopes or name == missing]
            raise scope_missing(missing, self._challenge(scope, headers, wanted, "insufficient_scope"), message)

    def page(self, raw_path: str, stage: str | None, scope: Scope, headers: Values) -> bytes | None:
        """The metadata of the protected resource. Scopes of private collections are not in it: they are names too."""
        if not any(paths.match(raw_path, stage) for paths in self._pages):
            return None
        document = {
            "resource": self._url(scope, headers),
            "authorization_servers": [self._issuer],
            "scopes_supported": self._written(EVERY_TOOL),
            "bearer_methods_supported": ["header"],
            "resource_name": "Bedivere",
        }
        return json.dumps(document, separators=(",", ":")).encode()

    def _own(self, scopes: list[str]) -> list[str]:
        """Those with our prefix, without it."""
        return [scope.removeprefix(self._prefix) for scope in scopes if scope.startswith(self._prefix)]

    def _written(self, scopes: tuple[str, ...] | list[str]) -> list[str]:
        return [f"{self._prefix}{scope}" for scope in scopes]

    def _url(self, scope: Scope, headers: Values) -> str:
        """The endpoint as its clients know it. The Host header has been checked; it is one name and maybe a port."""
        if self._public_url:
            return self._public_url
        return f"{self._root(scope, headers)}{self._base}{self._endpoint}"

    def _root(self, scope: Scope, headers: Values) -> str:
        if self._public_url:
            return "/".join(self._public_url.split("/", 3)[:3])
        return f"{scope.get('scheme', 'http')}://{headers('host')[0]}"

    def _challenge(self, scope: Scope, headers: Values, wanted: tuple[str, ...] | list[str], error: str | None) -> str:
        # Below the base path, because a mapping of API Gateway hands on nothing else.
        page = f"{self._root(scope, headers)}{self._base}{WELL_KNOWN}{self._endpoint}"
        facts = [f'error="{error}"'] if error else []
        facts += [f'resource_metadata="{page}"', f'scope="{" ".join(self._written(wanted))}"']
        return f"Bearer {', '.join(facts)}"

    def _unauthorized(self, reason: str, scope: Scope, headers: Values, error: str | None = None) -> Refused:
        challenge = self._challenge(scope, headers, EVERY_TOOL, error)
        return Refused(
            401,
            ErrorCode.UNAUTHORIZED,
            f"{reason}: sign in at the issuer that the metadata in WWW-Authenticate names.",
            headers=(("www-authenticate", challenge),),
        )


def _name(token: AccessToken) -> str:
    """Tells callers apart in a log without saying who they are: a subject is often an address."""
    told = _told(token)
    return f"jwt:{excerpt(token.client_id)}/{told}" if token.client_id else f"jwt:{told}"


def _told(token: AccessToken) -> str:
    """Of a hash of whom the token is of, as much as tells them from others."""
    return hashlib.sha256((token.subject or token.client_id).encode("utf-8", "surrogatepass")).hexdigest()[:12]
