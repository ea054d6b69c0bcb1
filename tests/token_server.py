"""An authorization server on loopback, of Authlib: it registers clients, signs whoever asks in, and issues JWTs.

Tokens are for the `resource` that is asked for (RFC 8707), as MCP clients ask for it.
"""

# Authlib and Flask ship no types, or few.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingTypeArgument=false, reportMissingTypeStubs=false, reportUntypedBaseClass=false
# pyright: reportUnknownMemberType=false, reportUntypedFunctionDecorator=false, reportUnusedFunction=false
from __future__ import annotations

import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.oauth2.rfc6749 import ClientMixin, grants
from authlib.oauth2.rfc7591 import ClientRegistrationEndpoint
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oauth2.rfc9068 import JWTBearerTokenGenerator
from flask import Flask, request
from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey
from werkzeug.serving import make_server

CLIENT_ID = "machine"
CLIENT_SECRET = "a secret of the tests"  # nothing real
USER = "somebody@example.com"


class _Client(ClientMixin):
    def __init__(self, **facts: Any) -> None:
        self.facts = facts

    def get_client_id(self) -> str:
        return self.facts["client_id"]

    def get_default_redirect_uri(self) -> str:
        return self.facts["redirect_uris"][0]

    def get_allowed_scope(self, scope: Any) -> Any:
        return scope or ""

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        return redirect_uri in self.facts["redirect_uris"]

    def check_client_secret(self, client_secret: str) -> bool:
        return client_secret == self.facts["client_secret"]

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        del method, endpoint
        return True

    def check_response_type(self, response_type: str) -> bool:
        return response_type == "code"

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type in {"authorization_code", "client_credentials"}


@dataclass
class _Code:
    client_id: str
    redirect_uri: str
    scope: str
    code_challenge: str | None
    code_challenge_method: str | None
    auth_time: float = field(default_factory=time.time)

    def get_redirect_uri(self) -> str:
        return self.redirect_uri

    def get_scope(self) -> str:
        return self.scope


class _User:
    def get_user_id(self) -> str:
        return USER


class TokenServer:
    """A running server: its issuer, its key, what it was asked for, and the tokens that clients got of it."""

    def __init__(self, url: str) -> None:
        self.issuer = url
        self.keys = KeySet([RSAKey.generate_key(2048, {"kid": "first", "use": "sig", "alg": "RS256"})])
        self.asked: list[str] = []
        self.issued: list[str] = []
        self.clients = {CLIENT_ID: _Client(client_id=CLIENT_ID, client_secret=CLIENT_SECRET, redirect_uris=[])}
        self.codes: dict[str, _Code] = {}

    def rotate(self) -> None:
        """Another key takes the place of the one that signed until now."""
        self.keys = KeySet([RSAKey.generate_key(2048, {"kid": "second", "use": "sig", "alg": "RS256"})])

    def token(self, audience: str, scope: str = "search fetch catalog status", **claims: Any) -> str:
        """A token as the server issues them, but for `claims`; one that is None is left out."""
        now = int(time.time())
        told = {
            "iss": self.issuer,
            "aud": audience,
            "exp": now + 600,
            "iat": now,
            "sub": USER,
            "client_id": CLIENT_ID,
            "scope": scope,
        }
        told = {name: value for name, value in {**told, **claims}.items() if value is not None}
        key = self.keys.keys[0]
        return jwt.encode({"alg": "RS256", "typ": "at+jwt", "kid": key.kid}, told, key)

    def app(self) -> Flask:
        app = Flask(__name__)

        tokens = self

        def keep(token: dict[str, Any], request: object) -> None:
            del request
            tokens.issued.append(token["access_token"])

        server = AuthorizationServer(app, query_client=self.clients.get, save_token=keep)

        class Tokens(JWTBearerTokenGenerator):
            def get_jwks(self) -> KeySet:
                return tokens.keys

            def get_audiences(self, client: Any, user: Any, scope: str) -> str:
                return request.form.get("resource") or client.get_client_id()

        class Codes(grants.AuthorizationCodeGrant):
            TOKEN_ENDPOINT_AUTH_METHODS = ("none", "client_secret_basic", "client_secret_post")

            def save_authorization_code(self, code: str, request: Any) -> None:
                payload = request.payload
                tokens.codes[code] = _Code(
                    request.client.get_client_id(),
                    payload.redirect_uri,
                    payload.scope,
                    payload.data.get("code_challenge"),
                    payload.data.get("code_challenge_method"),
                )

            def query_authorization_code(self, code: str, client: Any) -> _Code | None:
                del client
                return tokens.codes.get(code)

            def delete_authorization_code(self, authorization_code: _Code) -> None:
                tokens.codes = {code: one for code, one in tokens.codes.items() if one is not authorization_code}

            def authenticate_user(self, authorization_code: _Code) -> _User:
                del authorization_code
                return _User()

        class Registration(ClientRegistrationEndpoint):
            def authenticate_token(self, request: Any) -> object:
                del request
                return "anyone may register"

            def save_client(self, client_info: dict, client_metadata: dict, request: Any) -> _Client:
                client = _Client(**client_metadata, **client_info)
                tokens.clients[client.get_client_id()] = client
                del request
                return client

            def get_server_metadata(self) -> dict[str, Any]:
                return tokens.metadata()

        server.register_token_generator("default", Tokens(issuer=self.issuer))
        server.register_grant(Codes, [CodeChallenge(required=True)])
        server.register_grant(grants.ClientCredentialsGrant)
        server.register_endpoint(Registration)

        @app.before_request
        def note() -> None:
            tokens.asked.append(request.path)

        @app.get("/.well-known/openid-configuration")
        @app.get("/.well-known/oauth-authorization-server")
        def metadata() -> dict[str, Any]:
            return tokens.metadata()

        @app.get("/jwks.json")
        def jwks() -> Any:
            return tokens.keys.as_dict(private=False)

        @app.post("/register")
        def register() -> Any:
            return server.create_endpoint_response(Registration.ENDPOINT_NAME)

        @app.get("/authorize")
        def authorize() -> Any:
            # Whoever asks is somebody, and consents.
            grant = server.get_consent_grant(end_user=_User())
            return server.create_authorization_response(grant_user=_User(), grant=grant)

        @app.post("/token")
        def token() -> Any:
            return server.create_token_response()

        return app

    def metadata(self) -> dict[str, Any]:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "registration_endpoint": f"{self.issuer}/register",
            "jwks_uri": f"{self.issuer}/jwks.json",
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "client_credentials"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic", "client_secret_post"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
        }


@contextmanager
def running_token_server() -> Generator[TokenServer]:
    """A server on a free port of loopback, in a thread."""
    with pytest.MonkeyPatch.context() as patch:
        # Authlib will not issue tokens over plain HTTP otherwise, and loopback is all there is here.
        patch.setenv("AUTHLIB_INSECURE_TRANSPORT", "1")
        listener = make_server("127.0.0.1", 0, Flask(__name__), threaded=True)
        server = TokenServer(f"http://127.0.0.1:{listener.server_port}")
        listener.app = server.app()
        thread = threading.Thread(target=listener.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            listener.shutdown()
            thread.join()
            listener.server_close()


@pytest.fixture
def token_server() -> Generator[TokenServer]:
    with running_token_server() as server:
        yield server
