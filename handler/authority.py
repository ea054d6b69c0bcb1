"""Host and Origin headers: how each is read, and which of them are answered."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv6Address, ip_address
from typing import Final

from handler.refusal import Refused, excerpt
from retrieval.errors import BedivereError, ErrorCode
from retrieval.settings import Settings

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}

# ASCII classes throughout: a letter that only lower-cases to ASCII, such as the Kelvin sign, is no letter of a name.
_NAME: Final = r"(?P<name>[A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63})*)\.?"
_AUTHORITY: Final = re.compile(rf"(?:\[(?P<ipv6>[0-9A-Fa-f:.]{{2,45}})\]|{_NAME})(?::(?P<port>[1-9][0-9]{{0,4}}))?")
_ORIGIN: Final = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{0,30})://(?P<authority>[^/?#@]+)")
_LONGEST: Final = 300

_ANY: Final = "*"
_ANY_LABELS: Final = "*."


@dataclass(frozen=True, slots=True)
class Authority:
    """A host name or address in its normal form, and its port where one was written."""

    name: str
    port: int | None

    def matches(self, listed: Authority, scheme: str) -> bool:
        """Whether `listed` allows this authority; an absent port is the scheme's own, on either side."""
        default = _DEFAULT_PORTS.get(scheme)
        if (self.port or default) != (listed.port or default):
            return False
        if listed.name.startswith(_ANY_LABELS):
            return self.name.endswith(listed.name[1:])
        return self.name == listed.name


def parse_authority(text: str) -> Authority | None:
    """`text` as `NAME`, `NAME:PORT`, `[IPV6]` or `[IPV6]:PORT`; None for anything else. Never raises."""
    match = _AUTHORITY.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        return None
    port = int(match["port"]) if match["port"] else None
    if port is not None and port > 65_535:
        return None
    if match["ipv6"] is None:
        return Authority(match["name"].lower(), port)
    try:
        return Authority(f"[{IPv6Address(match['ipv6']).compressed}]", port)
    except AddressValueError:
        return None


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a page was loaded from, in its normal form."""

    scheme: str
    authority: Authority


def parse_origin(text: str) -> Origin | None:
    """`text` as `SCHEME://HOST` or `SCHEME://HOST:PORT`; None for anything else, `null` included. Never raises."""
    match = _ORIGIN.fullmatch(text) if len(text) <= _LONGEST else None
    authority = parse_authority(match["authority"]) if match else None
    return Origin(match["scheme"].lower(), authority) if match and authority else None


@dataclass(frozen=True, slots=True)
class HostPolicy:
    """Which Host headers are answered; made by `local_hosts` or `gateway_hosts`."""

    listed: tuple[Authority, ...] = ()
    any_host: bool = False
    gateway_domain: bool = False
    """The domain name that the gateway reports for a request is allowed for that request."""
    own_origins: tuple[Origin, ...] = ()
    """Origins of pages that only this server itself could serve; it serves none, so they endanger nobody."""
    because: str = "is not in BEDIVERE_ALLOWED_HOSTS: add it there"
    """What a refused caller is told of their host."""
    warning: str | None = None
    """One line for the person who starts the server, where the policy is open."""

    def check(self, values: list[str], scheme: str, reported_domain: str | None) -> None:
        """Raise `Refused` unless `values`, the request's Host headers, are one host that is allowed."""
        if len(values) != 1:
            raise _host_refused(f"The Host header is {'sent twice' if values else 'missing'}: send it once")
        host = parse_authority(values[0])
        if host is None:
            raise _host_refused(f"Host '{excerpt(values[0])}' is not a host name: send NAME or NAME:PORT")
        if self.any_host or any(host.matches(listed, scheme) for listed in self.listed):
            return
        domain = parse_authority(reported_domain or "") if self.gateway_domain else None
        if domain is None or not host.matches(domain, scheme):
            raise Refused(403, ErrorCode.HOST_REFUSED, f"Host '{excerpt(values[0])}' {self.because} to have it served.")


def _host_refused(reason: str) -> Refused:
    return Refused(403, ErrorCode.HOST_REFUSED, f"{reason}, one that BEDIVERE_ALLOWED_HOSTS allows.")


def local_hosts(settings: Settings, *, bind: str, port: int) -> HostPolicy:
    """The policy of a server that listens on `bind` and `port`: the list if one is set, else what the address implies.

    Raises `BedivereError` SETTING_INVALID for a list that holds something other than host names.
    """
    if settings.allowed_hosts:
        return _listed_hosts(settings.allowed_hosts)
    if not is_loopback(bind):
        return HostPolicy(
            any_host=True,
            warning=(
                f"Every Host header is answered, because {excerpt(bind)} is not a loopback address and "
                "BEDIVERE_ALLOWED_HOSTS is not set: set it to the host names of this server."
            ),
        )
    own = f"[{bind}]" if ":" in bind else bind
    names = dict.fromkeys(("127.0.0.1", "localhost", "[::1]", own))
    listed = tuple(authority for name in names if (authority := parse_authority(f"{name}:{port}")))
    return HostPolicy(
        listed=listed,
        own_origins=tuple(Origin("http", authority) for authority in listed),
        because=f"is not a loopback name with port {port}: add it to BEDIVERE_ALLOWED_HOSTS",
    )


def gateway_hosts(settings: Settings) -> HostPolicy:
    """The policy behind API Gateway: the list if one is set, else the domain name that the gateway reports.

    Raises `BedivereError` SETTING_INVALID for a list that holds something other than host names.
    """
    if settings.allowed_hosts:
        return _listed_hosts(settings.allowed_hosts)
    return HostPolicy(
        gateway_domain=True,
        because="is not the domain name that API Gateway reports: add it to BEDIVERE_ALLOWED_HOSTS",
    )


def is_loopback(bind: str) -> bool:
    """Whether only this machine can reach a server that listens on `bind`."""
    if bind.lower() == "localhost":
        return True
    try:
        return ip_address(bind.strip("[]")).is_loopback
    except ValueError:
        return False


def _listed_hosts(entries: Iterable[str]) -> HostPolicy:
    entries = tuple(entries)
    if _ANY in entries:
        return HostPolicy(
            any_host=True, warning="Every Host header is answered, because BEDIVERE_ALLOWED_HOSTS holds *."
        )
    return HostPolicy(listed=tuple(_listed_host(entry) for entry in entries))


def _listed_host(entry: str) -> Authority:
    """`entry` as an authority; `*.example.com` stands for every name below example.com, not for itself."""
    wildcard = entry.startswith(_ANY_LABELS)
    authority = parse_authority(entry.removeprefix(_ANY_LABELS))
    if authority is None or (wildcard and authority.name.startswith("[")):
        raise BedivereError(
            ErrorCode.SETTING_INVALID,
            f"BEDIVERE_ALLOWED_HOSTS must be host names, separated by commas; '{excerpt(entry)}' is none.",
        )
    return Authority(_ANY_LABELS + authority.name, authority.port) if wildcard else authority


@dataclass(frozen=True, slots=True)
class OriginPolicy:
    """Which Origin headers are answered; made by `origins`."""

    listed: tuple[Origin, ...] = ()
    any_origin: bool = False
    own: tuple[Origin, ...] = ()
    """The server's own origins: they pass, and need no CORS headers."""

    @property
    def set(self) -> bool:
        """Whether any page may ask at all: without a list there is no CORS."""
        return self.any_origin or bool(self.listed)

    def check(self, values: list[str]) -> str | None:
        """The request's origin as it was sent, or None where it needs no CORS headers: absent, or the server's own.

        Raise `Refused` unless `values`, the request's Origin headers, are none or one that is allowed. Another
        loopback origin gets no favour: any program on the machine may serve a page from one.
        """
        if not values:
            return None
        if len(values) > 1:
            raise _origin_refused("The Origin header is sent twice: send it once, with an origin")
        origin = parse_origin(values[0])
        if origin is None:
            raise _origin_refused(f"Origin '{excerpt(values[0])}' is not SCHEME://HOST or SCHEME://HOST:PORT")
        if any(_same(origin, own) for own in self.own) and not self.set:
            return None
        if not self.any_origin and not any(_same(origin, listed) for listed in self.listed):
            raise _origin_refused(f"Origin '{excerpt(values[0])}' is not allowed")
        return values[0]


def _same(origin: Origin, listed: Origin) -> bool:
    return origin.scheme == listed.scheme and origin.authority.matches(listed.authority, listed.scheme)


def _origin_refused(reason: str) -> Refused:
    return Refused(403, ErrorCode.ORIGIN_REFUSED, f"{reason}: BEDIVERE_ALLOWED_ORIGINS lists those that are answered.")


def origins(settings: Settings, hosts: HostPolicy) -> OriginPolicy:
    """The policy that `settings` sets, a list replacing the server's own origins; `*` is any origin but `null`.

    Raises `BedivereError` SETTING_INVALID for a list that holds something other than origins.
    """
    listed: list[Origin] = []
    for entry in settings.allowed_origins:
        if entry == _ANY:
            return OriginPolicy(any_origin=True)
        origin = parse_origin(entry.rstrip("/"))
        if origin is None:
            raise BedivereError(
                ErrorCode.SETTING_INVALID,
                "BEDIVERE_ALLOWED_ORIGINS must be origins such as https://app.example.com, separated by commas; "
                f"'{excerpt(entry)}' is none.",
            )
        listed.append(origin)
    return OriginPolicy(listed=tuple(listed), own=hosts.own_origins)
