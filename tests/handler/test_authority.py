"""Which Host and Origin headers are answered."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handler.authority import (
    Authority,
    HostPolicy,
    OriginPolicy,
    gateway_hosts,
    is_loopback,
    local_hosts,
    origins,
    parse_authority,
    parse_origin,
)
from handler.refusal import Refused
from retrieval.errors import BedivereError, ErrorCode
from retrieval.settings import Settings

OPEN = HostPolicy()


def settings(**values: Any) -> Settings:
    return Settings(**values)


def hosts(*entries: str) -> HostPolicy:
    return gateway_hosts(settings(allowed_hosts=entries))


def refusal(check: Callable[[], object]) -> Refused | None:
    try:
        check()
    except Refused as refused:
        return refused
    return None


def allows(policy: HostPolicy, *values: str, scheme: str = "https", domain: str | None = None) -> bool:
    refused = refusal(lambda: policy.check(list(values), scheme, domain))
    if refused is None:
        return True
    assert (refused.status, refused.code) == (403, ErrorCode.HOST_REFUSED)
    assert "BEDIVERE_ALLOWED_HOSTS" in refused.sentence
    return False


def answers(policy: OriginPolicy, *values: str) -> bool:
    refused = refusal(lambda: policy.check(list(values)))
    if refused is None:
        return policy.check(list(values)) == values[0]
    assert (refused.status, refused.code) == (403, ErrorCode.ORIGIN_REFUSED)
    assert "BEDIVERE_ALLOWED_ORIGINS" in refused.sentence
    return False


MALFORMED = [
    "",
    " ",
    "a b",
    "a,b",
    "user@example.com",
    "user:pw@example.com",
    "example.com:",
    "example.com:np",
    "example.com:0",
    "example.com:-1",
    "example.com:65536",
    "example.com:123456",
    "example.com:443:443",
    "a:b:c",
    "example..com",
    ".example.com",
    "example.com..",
    "example.com/mcp",
    "https://example.com",
    "example.com?x",
    "example.com#x",
    "exämple.com",
    "example.com\n",
    "example.com\x00",
    "\texample.com",
    "example.com%00",
    "\u212a8s.example.com",  # the Kelvin sign, which lower-cases to k
    "example.com:\u0664\u0664\u0663",  # digits, but not ASCII ones
    "[::1",
    "::1",
    "[::1]x",
    "[zz]",
    "[1:2]",
    "[fe80::1%25eth0]",
    "[127.0.0.1]",
    "a" * 64,
    ".".join(["a" * 60] * 6),
]


@pytest.mark.parametrize("text", MALFORMED)
def test_a_malformed_host_is_no_authority(text: str) -> None:
    assert parse_authority(text) is None


@pytest.mark.parametrize(
    ("text", "name", "port"),
    [
        ("Example.COM", "example.com", None),
        ("example.com.", "example.com", None),
        ("example.com.:8080", "example.com", 8080),
        ("my_service:3000", "my_service", 3000),
        ("127.0.0.1:3000", "127.0.0.1", 3000),
        ("[0:0:0:0:0:0:0:1]:3000", "[::1]", 3000),
        ("[FE80::A]", "[fe80::a]", None),
        ("example.com:65535", "example.com", 65_535),
    ],
)
def test_an_authority_has_one_normal_form(text: str, name: str, port: int | None) -> None:
    assert parse_authority(text) == Authority(name, port)


@pytest.mark.parametrize("value", MALFORMED)
def test_a_malformed_host_is_refused_even_where_any_host_is_answered(value: str) -> None:
    assert not allows(hosts("*"), value)


@pytest.mark.parametrize("values", [(), ("example.com", "example.com"), ("example.com", "evil.example")])
def test_a_host_that_is_missing_or_sent_twice_is_refused_even_where_any_host_is_answered(
    values: tuple[str, ...],
) -> None:
    assert not allows(hosts("*"), *values)


@pytest.mark.parametrize(
    ("entry", "host", "scheme", "allowed"),
    [
        ("example.com", "example.com", "https", True),
        ("example.com", "EXAMPLE.com.", "https", True),
        ("Example.com", "example.com", "https", True),
        ("example.com", "example.com:443", "https", True),
        ("example.com", "example.com:80", "http", True),
        ("example.com", "example.com:80", "https", False),
        ("example.com", "example.com:443", "http", False),
        ("example.com", "example.com:3000", "http", False),
        ("example.com:443", "example.com", "https", True),
        ("example.com:443", "example.com", "http", False),
        ("example.com:3000", "example.com:3000", "http", True),
        ("example.com:3000", "example.com", "http", False),
        ("example.com:3000", "example.com:3001", "http", False),
        ("[::1]:3000", "[0::1]:3000", "http", True),
        ("example.com", "a.example.com", "https", False),
        ("example.com", "example.com.evil.test", "https", False),
        ("example.com", "notexample.com", "https", False),
        ("*.example.com", "a.example.com", "https", True),
        ("*.example.com", "a.b.Example.com:443", "https", True),
        ("*.example.com", "example.com", "https", False),
        ("*.example.com", "notexample.com", "https", False),
        ("*.example.com:3000", "a.example.com:3000", "http", True),
        ("*.example.com:3000", "a.example.com", "http", False),
        ("*", "anything.example:1", "http", True),
    ],
)
def test_a_list_of_hosts(entry: str, host: str, scheme: str, allowed: bool) -> None:
    assert allows(hosts("other.example", entry), host, scheme=scheme) is allowed


@pytest.mark.parametrize("entry", ["https://example.com", "example.com/mcp", "*.*.com", "a*.com", "*.[::1]", "*:80"])
def test_a_list_that_holds_something_other_than_hosts_stops_the_start(entry: str) -> None:
    with pytest.raises(BedivereError, match="BEDIVERE_ALLOWED_HOSTS must be") as caught:
        hosts("example.com", entry)
    assert caught.value.code == ErrorCode.SETTING_INVALID


@pytest.mark.parametrize("bind", ["127.0.0.1", "localhost", "LOCALHOST", "::1", "[::1]", "127.8.8.8"])
def test_a_loopback_server_answers_the_loopback_names_with_its_port(bind: str) -> None:
    policy = local_hosts(settings(), bind=bind, port=3000)

    assert is_loopback(bind)
    assert policy.warning is None
    for name in ("127.0.0.1:3000", "localhost:3000", "[::1]:3000"):
        assert allows(policy, name, scheme="http")
    for name in ("127.0.0.1", "localhost", "localhost:3001", "rebound.example:3000", "rebound.example"):
        assert not allows(policy, name, scheme="http")


def test_a_loopback_server_answers_the_very_address_it_listens_on() -> None:
    assert allows(local_hosts(settings(), bind="127.8.8.8", port=3000), "127.8.8.8:3000", scheme="http")


def test_a_loopback_server_on_port_80_is_answered_without_a_port() -> None:
    assert allows(local_hosts(settings(), bind="127.0.0.1", port=80), "localhost", scheme="http")


@pytest.mark.parametrize("bind", ["0.0.0.0", "::", "192.168.1.5", "docs.lan"])
def test_an_open_server_without_a_list_answers_any_host_and_warns(bind: str) -> None:
    policy = local_hosts(settings(), bind=bind, port=3000)

    assert not is_loopback(bind)
    assert allows(policy, "anything.example:3000", scheme="http")
    assert policy.warning is not None
    assert "BEDIVERE_ALLOWED_HOSTS" in policy.warning


@pytest.mark.parametrize("bind", ["127.0.0.1", "0.0.0.0"])
def test_a_list_replaces_what_the_address_implies(bind: str) -> None:
    policy = local_hosts(settings(allowed_hosts=("docs.example:3000",)), bind=bind, port=3000)

    assert policy.warning is None
    assert allows(policy, "docs.example:3000", scheme="http")
    assert not allows(policy, "localhost:3000", scheme="http")


def test_a_list_that_holds_a_star_warns() -> None:
    warning = hosts("*").warning
    assert warning is not None
    assert "BEDIVERE_ALLOWED_HOSTS" in warning


@pytest.mark.parametrize(
    ("host", "domain", "allowed"),
    [
        ("mcp.example.com", "mcp.example.com", True),
        ("MCP.example.com:443", "mcp.example.com", True),
        ("mcp.example.com:8443", "mcp.example.com", False),
        ("evil.example", "mcp.example.com", False),
        ("mcp.example.com", None, False),
        ("mcp.example.com", "not a domain", False),
        # A domain that the gateway reports is one name, whatever it looks like.
        ("a.example.com", "*.example.com", False),
    ],
)
def test_behind_a_gateway_the_host_is_the_domain_it_reports(host: str, domain: str | None, allowed: bool) -> None:
    assert allows(gateway_hosts(settings()), host, domain=domain) is allowed


def test_a_list_replaces_the_domain_that_the_gateway_reports() -> None:
    policy = hosts("mcp.example.com")
    assert allows(policy, "mcp.example.com", domain="abc.execute-api.eu-west-1.amazonaws.com")
    assert not allows(
        policy, "abc.execute-api.eu-west-1.amazonaws.com", domain="abc.execute-api.eu-west-1.amazonaws.com"
    )


def test_a_request_without_an_origin_passes() -> None:
    assert origins(settings(), OPEN).check([]) is None
    assert origins(settings(allowed_origins=("https://a.example",)), OPEN).check([]) is None


@pytest.mark.parametrize(
    ("entry", "origin", "answered"),
    [
        ("https://a.example", "https://a.example", True),
        ("https://a.example/", "https://a.example", True),
        ("HTTPS://A.example", "https://a.EXAMPLE", True),
        ("https://a.example", "https://a.example:443", True),
        ("https://a.example:443", "https://a.example", True),
        ("http://localhost:5173", "http://localhost:5173", True),
        ("vscode-webview://abc", "vscode-webview://abc", True),
        ("https://a.example", "http://a.example", False),
        ("https://a.example", "http://a.example:443", False),
        ("https://a.example", "https://a.example:8443", False),
        ("https://a.example", "https://a.example.evil.test", False),
        ("https://a.example", "https://b.a.example", False),
        ("https://a.example", "https://a.example/", False),
        ("https://a.example", "https://a.example/x", False),
        ("https://a.example", "https://user@a.example", False),
        ("https://a.example", "https://a.example, https://a.example", False),
        ("https://a.example", "a.example", False),
        ("https://a.example", "https://", False),
        ("https://a.example", "null", False),
        ("https://a.example", "", False),
        ("https://a.example", "*", False),
        ("*", "https://anything.example:1", True),
        ("*", "null", False),
        ("*", "", False),
        ("*", "https://a b", False),
    ],
)
def test_a_list_of_origins(entry: str, origin: str, answered: bool) -> None:
    assert answers(origins(settings(allowed_origins=("https://other.example", entry)), OPEN), origin) is answered


def test_an_origin_that_is_sent_twice_is_refused() -> None:
    assert not answers(origins(settings(allowed_origins=("*",)), OPEN), "https://a.example", "https://a.example")


@pytest.mark.parametrize("origin", ["http://127.0.0.1:3000", "http://localhost:3000", "https://a.example"])
def test_without_a_list_no_page_is_answered(origin: str) -> None:
    policy = origins(settings(), OPEN)
    assert not policy.set
    assert not answers(policy, origin)


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "[::1]"])
def test_a_loopback_server_answers_its_own_origin_without_cors_and_no_other_loopback_page(name: str) -> None:
    policy = origins(settings(), local_hosts(settings(), bind="127.0.0.1", port=3000))
    assert policy.check([f"http://{name}:3000"]) is None
    assert not policy.set
    assert not answers(policy, f"http://{name}:3001")
    assert not answers(policy, f"https://{name}:3000")


def test_a_list_of_origins_replaces_the_servers_own() -> None:
    listed = settings(allowed_origins=("https://a.example",))
    policy = origins(listed, local_hosts(listed, bind="127.0.0.1", port=3000))
    assert not answers(policy, "http://127.0.0.1:3000")


@pytest.mark.parametrize("entry", ["null", "a.example", "https://a.example/app", "https://*.example", "https://"])
def test_a_list_that_holds_something_other_than_origins_stops_the_start(entry: str) -> None:
    with pytest.raises(BedivereError, match="BEDIVERE_ALLOWED_ORIGINS must be") as caught:
        origins(settings(allowed_origins=(entry,)), OPEN)
    assert caught.value.code == ErrorCode.SETTING_INVALID


HEADER_TEXT = st.one_of(
    st.text(max_size=400),
    st.text(alphabet="aA1.:[]-_*@/ ,%\x00é", max_size=20),
    st.from_regex(r"\A[a-z.]{1,12}(:[0-9]{1,6})?\Z"),
    st.sampled_from(["listed.example", "LISTED.example.:443", "a.listed.example", "listed.example:80", "*"]),
)


@given(st.lists(HEADER_TEXT, max_size=3))
def test_whatever_is_sent_only_a_listed_host_passes(values: list[str]) -> None:
    if allows(hosts("listed.example"), *values):
        assert len(values) == 1
        assert values[0].lower() in {
            "listed.example",
            "listed.example.",
            "listed.example:443",
            "listed.example.:443",
        }


@given(st.lists(st.one_of(HEADER_TEXT, HEADER_TEXT.map("https://{}".format)), min_size=1, max_size=3))
def test_whatever_is_sent_only_a_listed_origin_passes(values: list[str]) -> None:
    if answers(origins(settings(allowed_origins=("https://listed.example",)), OPEN), *values):
        assert len(values) == 1
        authority = values[0].lower().removeprefix("https://")
        assert authority in {"listed.example", "listed.example.", "listed.example:443", "listed.example.:443"}


@given(HEADER_TEXT)
def test_parsing_never_raises_and_what_is_parsed_is_in_its_normal_form(text: str) -> None:
    parse_origin(text)
    authority = parse_authority(text)
    if authority is not None:
        port = f":{authority.port}" if authority.port else ""
        assert parse_authority(authority.name + port) == authority
