"""Which tokens are good: those of the issuer, for us, in their time, and signed as nobody else could have."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, RSAAlgorithm
from mcp.server.auth.provider import AccessToken, TokenVerifier

from handler.access.issuer_keys import IssuerKeys
from handler.access.tokens import LEEWAY_SECONDS, JwtVerifier

ISSUER = "https://issuer.example"
AUDIENCE = "https://docs.example.com/mcp"

RSA = rsa.generate_private_key(65537, 2048)
EC = ec.generate_private_key(ec.SECP256R1())
WEAK = rsa.generate_private_key(65537, 1024)

Jwk = dict[str, Any]


def jwk(key: Any, kid: str, **facts: Any) -> Jwk:
    public = key.public_key()
    made = ECAlgorithm.to_jwk(public) if isinstance(key, ec.EllipticCurvePrivateKey) else RSAAlgorithm.to_jwk(public)
    return {**json.loads(made), "kid": kid, **facts}


KEYS = [jwk(RSA, "rsa"), jwk(EC, "ec", alg="ES256"), jwk(WEAK, "weak"), jwk(RSA, "for-secrets", use="enc")]


def published(*keys: Jwk) -> Callable[[str], object]:
    def fetch(address: str) -> object:
        if address.endswith("/jwks"):
            return {"keys": list(keys)}
        return {"issuer": ISSUER, "jwks_uri": f"{ISSUER}/jwks"}

    return fetch


def claims(**changed: Any) -> dict[str, Any]:
    """Those of a good token but for `changed`; `exp` and `nbf` are in seconds from now, and None leaves one out."""
    told: dict[str, Any] = {"iss": ISSUER, "aud": AUDIENCE, "exp": 600, "sub": "me", "scope": "search hr.read"}
    told |= changed
    for name in ("exp", "nbf"):
        if isinstance(told.get(name), int):
            told[name] += int(time.time())
    return {name: value for name, value in told.items() if value is not None}


def signed(
    told: dict[str, Any], *, kid: str | None = "rsa", key: Any = RSA, algorithm: str = "RS256", **header: Any
) -> str:
    return jwt.encode(told, key, algorithm, headers={**({"kid": kid} if kid else {}), **header})


def verified(token: str, *keys: Jwk, audience: tuple[str, ...] = (AUDIENCE, "other")) -> AccessToken | None:
    verifier: TokenVerifier = JwtVerifier(ISSUER, audience, keys=IssuerKeys(ISSUER, fetch=published(*(keys or KEYS))))
    return asyncio.run(verifier.verify_token(token))


def test_a_good_token_says_who_and_what_for() -> None:
    token = verified(signed(claims(client_id="app")))
    assert token is not None
    assert (token.subject, token.client_id, token.scopes) == ("me", "app", ["search", "hr.read"])


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512", "PS256", "PS512"])
def test_every_rsa_signature_is_checked(algorithm: str) -> None:
    assert verified(signed(claims(), algorithm=algorithm))


def test_an_elliptic_signature_is_checked() -> None:
    assert verified(signed(claims(), key=EC, kid="ec", algorithm="ES256"))


@pytest.mark.parametrize(
    ("told", "scopes"),
    [
        ({"scope": "a b"}, ["a", "b"]),
        ({"scope": ["a", "b", 3]}, ["a", "b"]),
        ({"scope": None, "scp": "a b"}, ["a", "b"]),
        ({"scope": None, "scp": ["a"]}, ["a"]),
        ({"scope": None}, []),
        ({"scope": 7}, []),
    ],
)
def test_scopes_are_read_as_issuers_write_them(told: dict[str, Any], scopes: list[str]) -> None:
    token = verified(signed(claims(**told)))
    assert token is not None
    assert token.scopes == scopes


@pytest.mark.parametrize(
    "told",
    [
        {"aud": "other"},
        {"aud": ["elsewhere", AUDIENCE]},
        {"aud": None, "client_id": "other"},
        {"exp": -LEEWAY_SECONDS + 10},
        {"nbf": LEEWAY_SECONDS - 10},
    ],
    ids=["another of ours", "one of several", "the client's", "just expired", "just not yet"],
)
def test_what_is_for_us_and_in_its_time_is_good(told: dict[str, Any]) -> None:
    assert verified(signed(claims(**told)))


@pytest.mark.parametrize(
    "told",
    [
        {"aud": "https://elsewhere.example/mcp"},
        {"aud": []},
        {"aud": None},
        {"aud": "elsewhere", "client_id": "other"},
        {"aud": {"https://docs.example.com/mcp": 1}},
        {"iss": "https://evil.example"},
        {"iss": f"{ISSUER}/"},
        {"iss": None},
        {"exp": None},
        {"exp": -LEEWAY_SECONDS - 5},
        {"exp": "soon"},
        {"nbf": LEEWAY_SECONDS + 60},
        {"token_use": "id"},
    ],
)
def test_what_is_of_others_for_others_or_out_of_its_time_is_not_good(told: dict[str, Any]) -> None:
    assert verified(signed(claims(**told))) is None


def _unsigned() -> str:
    parts = ({"alg": "none", "kid": "rsa"}, claims())
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + "."


def _hmac_of_the_public_key() -> str:
    """The old trick: what verifies an RSA signature is public, and as a secret it would sign."""
    secret = RSA.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    header, body = (
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=")
        for part in ({"alg": "HS256", "kid": "rsa"}, claims())
    )
    mark = base64.urlsafe_b64encode(hmac.digest(secret, header + b"." + body, hashlib.sha256)).rstrip(b"=")
    return b".".join((header, body, mark)).decode()


FORGED: dict[str, Callable[[], str]] = {
    "unsigned": _unsigned,
    "an HMAC of the public key": _hmac_of_the_public_key,
    "signed by another": lambda: signed(claims(), key=rsa.generate_private_key(65537, 2048)),
    "an unknown key": lambda: signed(claims(), kid="unknown"),
    "a key for encryption": lambda: signed(claims(), kid="for-secrets"),
    "a weak key": lambda: signed(claims(), key=WEAK, kid="weak"),
    "another algorithm than the key's": lambda: signed(claims(), kid="ec"),
    "a critical extension": lambda: signed(claims(), crit=["exp"]),
    "changed": lambda: signed(claims())[:-8] + "AAAAAAAA",
    "no token": lambda: "bdv_key",
    "empty parts": lambda: "..",
    "not ascii": lambda: "é.é.é",
}


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
@pytest.mark.filterwarnings("ignore::jwt.warnings.InsecureKeyLengthWarning")
def test_what_the_issuer_did_not_sign_is_not_good(forged: Callable[[], str]) -> None:
    assert verified(forged()) is None


def test_a_token_that_names_no_key_is_checked_by_the_only_one_there_is() -> None:
    token = signed(claims(), kid=None)
    assert verified(token, jwk(RSA, "rsa"))
    assert verified(token, jwk(RSA, "one"), jwk(RSA, "two")) is None
