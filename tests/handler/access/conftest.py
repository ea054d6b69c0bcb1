"""The server of tokens, for those tests that need one."""

from tests.token_server import token_server

__all__ = ["token_server"]
