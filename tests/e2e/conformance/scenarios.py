"""Which scenarios of the official conformance suite apply to a stateless server of tools, and why others do not."""

from collections.abc import Mapping, Sequence

# One revision of each way to connect that is in use: two with a handshake, one without.
REVISIONS = ("2025-06-18", "2025-11-25", "2026-07-28")

APPLICABLE: Mapping[str, Sequence[str]] = {
    "server-initialize": ("2025-06-18", "2025-11-25"),
    "ping": ("2025-06-18", "2025-11-25"),
    "tools-list": ("2025-06-18", "2025-11-25", "2026-07-28"),
    "dns-rebinding-protection": ("2025-11-25", "2026-07-28"),
    "server-stateless": ("2026-07-28",),
    "server-sse-multiple-streams": ("2026-07-28",),
    "caching": ("2026-07-28",),
    "http-header-validation": ("2026-07-28",),
    "input-required-result-unsupported-methods": ("2026-07-28",),
}

LEFT_OUT: Mapping[str, Sequence[str]] = {
    "calls a tool, such as test_simple_text, that only a server made for the suite has": (
        "tools-call-simple-text",
        "tools-call-image",
        "tools-call-audio",
        "tools-call-embedded-resource",
        "tools-call-mixed-content",
        "tools-call-with-logging",
        "tools-call-error",
        "tools-call-with-progress",
        "json-schema-2020-12",
    ),
    "asks the client for something, which no tool here does": (
        "tools-call-sampling",
        "tools-call-elicitation",
        "elicitation-sep1034-defaults",
        "elicitation-sep1330-enums",
        "input-required-result-basic-elicitation",
        "input-required-result-basic-sampling",
        "input-required-result-basic-list-roots",
        "input-required-result-request-state",
        "input-required-result-multiple-input-requests",
        "input-required-result-multi-round",
        "input-required-result-missing-input-response",
        "input-required-result-non-tool-request",
        "input-required-result-result-type",
        "input-required-result-tampered-state",
        "input-required-result-capability-check",
        "input-required-result-ignore-extra-params",
        "input-required-result-validate-input",
    ),
    "is about a capability that is not offered: resources, prompts, completions, logging": (
        "resources-list",
        "resources-read-text",
        "resources-read-binary",
        "resources-templates-read",
        "resources-subscribe",
        "resources-unsubscribe",
        "sep-2164-resource-not-found",
        "prompts-list",
        "prompts-get-simple",
        "prompts-get-with-args",
        "prompts-get-embedded-resource",
        "prompts-get-with-image",
        "completion-complete",
        "logging-set-level",
    ),
    "is about sessions and streams: no session id is issued, answers are JSON": (
        "server-session-lifecycle",
        "server-sse-polling",
    ),
    "is about arguments mirrored in headers, which no tool here declares": ("http-custom-header-server-validation",),
}

LEFT_OUT_CHECKS: Mapping[str, str] = {
    "sep-2575-server-rejects-undeclared-capability": "calls the suite's own tool test_missing_capability",
    "sep-2575-missing-capability-http-400": "calls the suite's own tool test_missing_capability",
    "sep-2575-http-server-no-independent-requests-on-stream": "calls the suite's own tool test_streaming_elicitation",
    "sep-2575-server-no-log-without-loglevel": "calls the suite's own tool test_logging_tool",
    "sep-2549-prompts-list-caching-hints": "no prompts",
    "sep-2549-resources-list-caching-hints": "no resources",
    "sep-2549-resources-templates-list-caching-hints": "no resources",
}

LEFT_OUT_ON_LAMBDA: Mapping[str, str] = {
    "localhost-host-valid-accepted": "behind a gateway this machine's own names are nobody's, until they are listed",
}
"""More checks that do not apply to the function of the Lambda image."""
