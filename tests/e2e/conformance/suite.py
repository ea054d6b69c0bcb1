"""Runs the official conformance suite and reads what it found."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, Field, TypeAdapter

from tests.e2e.conformance import npm

PROGRAM = npm.INSTALLED / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
# The suite writes one folder a scenario: server-<scenario>-<UTC time>.
RESULT_FOLDER = re.compile(r"server-(?P<scenario>.+)-\d{4}-\d\d-\d\dT[\d-]+Z")


class Check(BaseModel, frozen=True):
    """One line of the suite's verdict."""

    id: str
    status: str
    description: str
    message: str = Field(default="", alias="errorMessage")

    @property
    def holds(self) -> bool:
        """INFO and SKIPPED report what there was nothing to check of; WARNING is a SHOULD that was not kept."""
        return self.status in {"SUCCESS", "INFO", "SKIPPED"}


CHECKS = TypeAdapter(list[Check])


@dataclass(frozen=True)
class Report:
    """What the suite found, by revision of the protocol and scenario."""

    checks: Mapping[tuple[str, str], Sequence[Check]]

    @property
    def scenarios(self) -> set[str]:
        return {scenario for _, scenario in self.checks}

    def __iter__(self) -> Iterator[Check]:
        for checks in self.checks.values():
            yield from checks


def run_suite(node: npm.Node, url: str, revisions: Sequence[str], folder: Path) -> Report:
    """Run every scenario of each revision; that those which do not apply fail is no error here."""
    checks: dict[tuple[str, str], Sequence[Check]] = {}
    for revision in revisions:
        output = folder / revision
        done = node.run(
            PROGRAM, "server", "--url", url, "--suite", "all", "--spec-version", revision, "--output-dir", str(output)
        )
        for result in sorted(output.glob("*/checks.json")):
            name = RESULT_FOLDER.fullmatch(result.parent.name)
            assert name, f"the suite names its results in a new way: {result.parent.name}"
            checks[revision, name["scenario"]] = CHECKS.validate_json(result.read_bytes())
        assert any(at == revision for at, _ in checks), f"the suite found nothing:\n{done.stdout}\n{done.stderr}"
    return Report(checks)
