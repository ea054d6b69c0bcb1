"""The way in where not everyone may call: a credential becomes a caller, or a refusal that says how to ask."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Protocol

from handler.access.caller import EVERY_TOOL, Caller, missing_scope
from handler.access.limits import Buckets, Limit, parse_limit
from handler.refusal import Headers, Refused
from retrieval.errors import BedivereError, ErrorCode

if TYPE_CHECKING:
    from starlette.types import Scope

    from handler.access.current_keys import CurrentKeys

Values = Callable[[str], list[str]]
"""Every value of a request's header."""

_REALM: Final = 'Bearer realm="bedivere"'
_MAX_CREDENTIAL: Final = 16_384


class Gate(Protocol):
    """One of the ways to let callers in. Nothing of a credential is ever logged or repeated."""

    def start(self) -> None:
        """Begins what takes time, in a thread. Cheap, may be called often, never raises."""
        ...

    async def admit(self, scope: Scope, headers: Values) -> Caller:
        """Who sends a request, one more of which it may send. Raises `Refused` 401, 403, 429 or 503."""
        ...

    def check_call(self, caller: Caller, message: Mapping[str, Any], scope: Scope, headers: Values) -> None:
        """Raise `Refused` 403 where `message` calls a tool that `caller` lacks the scope for."""
        ...

    def page(self, raw_path: str, stage: str | None, scope: Scope, headers: Values) -> bytes | None:
        """The JSON that everyone may read at a path, None where there is none."""
        ...


class Limits:
    """Spends of each caller's own limit, or of the one for all."""

    def __init__(self, common: str | None) -> None:
        self._common = parse_limit(common) if common else None
        self._buckets = Buckets()

    def spend(self, caller: Caller, whose: str | None = None) -> None:
        """`whose` says whom callers of several names are to share their limit with."""
        limit = self._of(caller)
        seconds = self._buckets.take(whose or caller.name, limit) if limit else 0
        if seconds:
            raise Refused(
                429,
                ErrorCode.RATE_LIMITED,
                f"The limit of this key or token is spent: call again in {seconds} seconds.",
                headers=(("retry-after", str(seconds)),),
            )

    def _of(self, caller: Caller) -> Limit | None:
        return parse_limit(caller.limit) if caller.limit else self._common


class KeyGate:
    """Lets in who holds an API key."""

    def __init__(
        self, keys: CurrentKeys, common_limit: str | None, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._keys = keys
        self._limits = Limits(common_limit)
        self._now = now

    def start(self) -> None:
        self._keys.start()

    async def admit(self, scope: Scope, headers: Values) -> Caller:
        del scope
        key = _key_in(headers)
        try:
            record = (await self._keys.get()).find(key)
        except BedivereError as error:
            raise unavailable(error) from None
        # One sentence for all of these: what a key was is for its owner to know.
        if record is None or record.is_expired(self._now()):
            raise _unauthorized("The API key is not known, or was revoked, or has expired", error="invalid_token")
        caller = Caller(f"key:{record.name}", frozenset(record.scopes), record.limit)
        self._limits.spend(caller)
        return caller

    def check_call(self, caller: Caller, message: Mapping[str, Any], scope: Scope, headers: Values) -> None:
        del scope, headers
        missing = called_without(caller, message)
        if missing is not None:
            challenge = f'{_REALM}, error="insufficient_scope", scope="{missing}"'
            raise scope_missing(missing, challenge, message)

    def page(self, raw_path: str, stage: str | None, scope: Scope, headers: Values) -> bytes | None:
        del raw_path, stage, scope, headers
        return None


class IamGate:
    """Lets in whom API Gateway has let in by their AWS signature; it says so in the event, which no caller writes."""

    def __init__(self, common_limit: str | None) -> None:
        self._limits = Limits(common_limit)

    def start(self) -> None:
        """Nothing takes time."""

    async def admit(self, scope: Scope, headers: Values) -> Caller:
        del headers
        arn = _signer(scope.get("aws.event"))
        if arn is None:
            raise Refused(
                401,
                ErrorCode.UNAUTHORIZED,
                "Sign the request with AWS credentials (SigV4, service execute-api): only what API Gateway has checked "
                "by IAM is served.",
                headers=(("www-authenticate", "AWS4-HMAC-SHA256"),),
            )
        caller = Caller(f"iam:{arn.rpartition(':')[2]}", frozenset(EVERY_TOOL), all_collections=True)
        self._limits.spend(caller)
        return caller

    def check_call(self, caller: Caller, message: Mapping[str, Any], scope: Scope, headers: Values) -> None:
        """Who may call is IAM's to say, and it says it of the whole endpoint."""

    def page(self, raw_path: str, stage: str | None, scope: Scope, headers: Values) -> bytes | None:
        del raw_path, stage, scope, headers
        return None


def bearer_token(headers: Values) -> str | None:
    """The token of the one Authorization header; None where there is none. Raises `Refused` for any other."""
    values = headers("authorization")
    if not values:
        return None
    scheme, _, token = values[0].strip().partition(" ")
    token = token.strip()
    if len(values) > 1 or scheme.lower() != "bearer" or not token or len(token) > _MAX_CREDENTIAL or "," in token:
        raise _unauthorized("The Authorization header is not one Bearer token", error="invalid_request")
    return token


def called_without(caller: Caller, message: Mapping[str, Any]) -> str | None:
    """The scope that the tool which `message` calls takes and `caller` lacks; None where it may be called."""
    params: object = message.get("params")
    if message.get("method") != "tools/call" or not isinstance(params, Mapping):
        return None
    return missing_scope(caller.scopes, params.get("name"))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType] - a caller wrote it


def scope_missing(missing: str, challenge: str, message: Mapping[str, Any]) -> Refused:
    return Refused(
        403,
        ErrorCode.SCOPE_MISSING,
        f"The tool takes the scope {missing}, which this key or token lacks: ask the server's owner for one with it.",
        headers=(("www-authenticate", challenge),),
        request_id=message.get("id"),
    )


def unavailable(error: BedivereError) -> Refused:
    return Refused(503, ErrorCode.ACCESS_UNAVAILABLE, error.sentence, headers=(("retry-after", "5"),))


def _key_in(headers: Values) -> str:
    """The one key that a request brings, in either header. Raises `Refused`."""
    own = headers("x-api-key")
    bearer = bearer_token(headers)
    given = {*own, *([bearer] if bearer else [])}
    if not given:
        raise _unauthorized("This endpoint takes an API key and the request has none")
    if len(given) > 1:
        raise _unauthorized("The request has more than one API key", error="invalid_request")
    return given.pop().strip()


def _unauthorized(reason: str, error: str | None = None) -> Refused:
    challenge = f'{_REALM}, error="{error}"' if error else _REALM
    headers: Headers = (("www-authenticate", challenge),)
    return Refused(
        401,
        ErrorCode.UNAUTHORIZED,
        f"{reason}: send Authorization: Bearer KEY or X-API-Key: KEY, with a key of the server's owner.",
        headers=headers,
    )


def _signer(event: object) -> str | None:
    """The ARN of who signed the request, as API Gateway names it in either payload; None where it names nobody."""
    context = _part(event, "requestContext")
    arn = _part(_part(context, "authorizer"), "iam").get("userArn") or _part(context, "identity").get("userArn")
    return arn if isinstance(arn, str) and arn else None


def _part(whole: object, name: str) -> Mapping[str, Any]:
    part: object = whole.get(name) if isinstance(whole, Mapping) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - Lambda wrote it
    return part if isinstance(part, Mapping) else {}  # pyright: ignore[reportUnknownVariableType]
