"""create_app(): the guard around the MCP app, the same for Lambda and for a local server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import ASGIApp

from handler.authority import HostPolicy, origins
from handler.guard import INNER_PATH, EndpointPaths, Guard
from retrieval.settings import Settings

if TYPE_CHECKING:
    from handler.access.gate import Gate


def gate_of(settings: Settings) -> Gate | None:
    """The gate that `settings` ask for, begun; None where anyone may call, which imports nothing.

    Raises `BedivereError` SETTING_INVALID where what it needs is not set.
    """
    if settings.access == "public":
        return None
    from handler.access.opening import open_gate

    return open_gate(settings)


def create_app(settings: Settings, server: Server[Any], *, hosts: HostPolicy, gate: Gate | None = None) -> ASGIApp:
    """The ASGI app that serves `server` to the hosts that `hosts` allows and to whom the gate of `settings` lets in.

    `gate` is that gate where it has been made already. The app's lifespan runs once. Raises `BedivereError`
    SETTING_INVALID for a list of origins that holds something else, and what `gate_of` does.
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
        gate=gate or gate_of(settings),
    )
