"""Checks of JSON Web Tokens: signature, issuer, audience and times, as API Gateway checks them in front.

This is the SDK's `TokenVerifier`; it takes only signatures that nobody who can check them could make.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import jwt
from jwt.exceptions import PyJWTError
from mcp.server.auth.provider import AccessToken

from handler.access.issuer_keys import IssuerKeys

ALGORITHMS: Final = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)
"""No `none`, and no HMAC, whose key a public key could be passed off as."""

LEEWAY_SECONDS: Final = 30
"""What two clocks may differ."""


class JwtVerifier:
    """Verifies access tokens of one issuer for any of `audience`."""

    def __init__(self, issuer: str, audience: Collection[str], *, keys: IssuerKeys | None = None) -> None:
        self._issuer = issuer
        self._audience = frozenset(audience)
        self._keys = keys or IssuerKeys(issuer)

    def start(self) -> None:
        """Begins to fetch the issuer's keys, in a thread. Never raises."""
        self._keys.start()

    async def verify_token(self, token: str) -> AccessToken | None:
        """What `token` says, or None where it is not good. Raises `BedivereError` ACCESS_UNAVAILABLE."""
        try:
            header = jwt.get_unverified_header(token)
            algorithm, kid = header.get("alg"), header.get("kid")
            if algorithm not in ALGORITHMS or "crit" in header or not isinstance(kid, str | None):
                return None
            key = await self._keys.find(kid, algorithm)
            if key is None:
                return None
            claims = jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                issuer=self._issuer,
                leeway=LEEWAY_SECONDS,
                # The audience is checked below, as API Gateway does it.
                options={"require": ["exp", "iss"], "verify_aud": False},
            )
        except (PyJWTError, ValueError, TypeError):
            return None
        # Cognito gives its ID tokens the same signature, and they are for showing who signed in.
        if not self._is_for_us(claims) or claims.get("token_use") == "id":
            return None
        subject, client = claims.get("sub"), claims.get("client_id", claims.get("azp"))
        return AccessToken(
            token=token,
            client_id=client if isinstance(client, str) else "",
            scopes=_scopes(claims),
            expires_at=int(claims["exp"]),
            subject=subject if isinstance(subject, str) else None,
        )

    def _is_for_us(self, claims: dict[str, Any]) -> bool:
        """`client_id` counts where there is no `aud`: Cognito's access tokens have none."""
        given = claims["aud"] if "aud" in claims else claims.get("client_id")
        named = given if isinstance(given, list) else [given]  # pyright: ignore[reportUnknownVariableType]
        return any(isinstance(one, str) and one in self._audience for one in named)  # pyright: ignore[reportUnknownVariableType]


def _scopes(claims: dict[str, Any]) -> list[str]:
    """Of `scope` or `scp`, a text with spaces or a list."""
    told: Any = claims.get("scope", claims.get("scp"))
    if isinstance(told, str):
        return told.split()
    return [one for one in told if isinstance(one, str)] if isinstance(told, list) else []  # pyright: ignore[reportUnknownVariableType]
