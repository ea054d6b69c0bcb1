"""Which gate the settings ask for."""

from __future__ import annotations

from handler.access.gate import Gate, IamGate, KeyGate
from retrieval.errors import BedivereError, ErrorCode
from retrieval.settings import Settings


def open_gate(settings: Settings) -> Gate | None:
    """The gate for `settings`, its first reading begun; None where anyone may call.

    Raises `BedivereError` SETTING_INVALID where what it needs is not set.
    """
    gate: Gate
    match settings.access:
        case "public":
            return None
        case "keys":
            from handler.access.current_keys import CurrentKeys
            from handler.access.key_file import place_of_keys

            gate = KeyGate(CurrentKeys(place_of_keys(settings), settings.refresh_seconds), settings.caller_limit)
        case "jwt":
            gate = _token_gate(settings)
        case "iam":
            gate = IamGate(settings.caller_limit)
    gate.start()
    return gate


def _token_gate(settings: Settings) -> Gate:
    if settings.jwt_issuer is None or not settings.jwt_audience:
        raise BedivereError(
            ErrorCode.SETTING_INVALID,
            "BEDIVERE_ACCESS jwt needs BEDIVERE_JWT_ISSUER and BEDIVERE_JWT_AUDIENCE: set both.",
        )
    from handler.access.issuer_keys import is_safe
    from handler.access.token_gate import TokenGate
    from handler.access.tokens import JwtVerifier

    if not is_safe(settings.jwt_issuer):
        raise BedivereError(
            ErrorCode.SETTING_INVALID,
            "BEDIVERE_JWT_ISSUER must be an https:// URL, or http:// on a loopback name: its keys say who is let in.",
        )
    verifier = JwtVerifier(settings.jwt_issuer, settings.jwt_audience)
    return TokenGate(settings, verifier, start=verifier.start)
