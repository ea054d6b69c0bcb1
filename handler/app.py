"""create_app(): the guard around the MCP app, the same for Lambda and for a local server."""

from __future__ import annotations

from typing import Any

from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import ASGIApp

from handler.authority import HostPolicy, origins
from handler.guard import INNER_PATH, EndpointPaths, Guard
from retrieval.settings import Settings


def create_app(settings: Settings, server: Server[Any], *, hosts: HostPolicy) -> ASGIApp:
    """The ASGI app that serves `server` to the hosts that `hosts` allows; its lifespan runs once.

    Raises `BedivereError` SETTING_INVALID for a list of origins that holds something else.
    """
    inner = server.streamable_http_app(
        streamable_http_path=INNER_PATH,
        stateless_http=True,
        json_response=True,
        # The guard has counted already; this is only never to be the one that decides.
        max_request_body_size=settings.max_body_bytes + 1,
        # The guard is first and stricter.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    return Guard(
        inner,
        hosts=hosts,
        origins=origins(settings, hosts),
        paths=EndpointPaths(settings.endpoint, settings.base_path),
        max_body_bytes=settings.max_body_bytes,
    )
