"""What end-to-end tests write and answer is searched, and what must not be there is found wherever it is."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.e2e.heard import HEARD, Heard

pytestmark = pytest.mark.e2e

SECRET = "made-up-for-this-module"
QUESTION = "where is the grail kept?"
SAYING = [sys.executable, "-S", "-c", "import sys; print(sys.argv[1], file=getattr(sys, sys.argv[2]))"]


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Iterator[Heard]:
    """One that knows other secrets than the one of all tests, which listens as well and would fail these."""
    monkeypatch.setattr(HEARD, "_answered", id)
    heard = Heard()
    heard.secrets = {"a secret": SECRET}
    heard.questions = {QUESTION}
    with heard.listening():
        yield heard


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_secret_in_either_output_of_a_process_is_found_and_the_test_reads_it_as_before(
    heard: Heard, stream: str
) -> None:
    done = subprocess.run([*SAYING, SECRET, stream], capture_output=True, text=True, check=True)

    assert (done.stdout + done.stderr).strip() == SECRET
    (found,) = heard.spilt()
    assert found.endswith(": a secret")
    assert heard.spilt() == []


def test_a_question_is_found_in_a_log_and_may_be_answered(heard: Heard) -> None:
    for stream in ("stdout", "stderr"):
        subprocess.run([*SAYING, QUESTION, stream], capture_output=True, check=True)

    (found,) = heard.spilt()
    assert found.endswith(f": the question {QUESTION!r}")


def test_a_log_on_the_disk_is_read_though_it_is_deleted_in_the_meantime(heard: Heard, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as output:
        subprocess.run([*SAYING, f"{QUESTION} {SECRET}", "stdout"], stdout=output, check=True)
    log.unlink()

    assert len(heard.spilt()) == 2


def test_a_process_of_an_event_loop_is_overheard_too(heard: Heard) -> None:
    async def said() -> bytes:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*SAYING, SECRET, "stdout", stdout=pipe)
        return (await process.communicate())[0]

    assert asyncio.run(said()).decode().strip() == SECRET
    assert len(heard.spilt()) == 1


def test_a_secret_that_comes_in_two_pieces_is_found(heard: Heard) -> None:
    slowly = "import sys; sys.stdout.write(input()); sys.stdout.flush(); sys.stdout.write(input())"
    with subprocess.Popen(
        [sys.executable, "-S", "-c", slowly], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=0
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{SECRET[:9]}\n")
        assert process.stdout.read(9) == SECRET[:9]
        assert heard.spilt() == []
        process.stdin.write(f"{SECRET[9:]}\n")
        assert process.stdout.read() == SECRET[9:]

    assert len(heard.spilt()) == 1


@pytest.mark.parametrize("place", ["headers", "text"])
def test_a_secret_in_an_answer_is_found_and_so_is_the_credential_of_the_request(heard: Heard, place: str) -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        sent = request.headers["authorization"]
        told = {"headers": {"x-echo": sent}} if place == "headers" else {"text": f"{sent} {SECRET}"}
        return httpx2.Response(200, **told)  # pyright: ignore[reportArgumentType]

    with httpx2.Client(transport=httpx2.MockTransport(answer)) as client:
        client.post("https://docs.example.com/mcp", headers={"authorization": "Bearer of-this-request-alone"})

    expected = ["what was sent as authorization, number 1"] + ["a secret"] * (place == "text")
    assert sorted(found.rpartition(": ")[2] for found in heard.spilt()) == sorted(expected)
