"""One run of the soak: what it is made of, and what was found."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from retrieval.release.store import open_store
from retrieval.settings import load_settings
from tests import planted
from tests.e2e.emulator import Emulated, emulated
from tests.embedding_server import EmbeddingServer, running_embedding_server
from tests.fault_proxy import FaultProxy, running_fault_proxy
from tests.s3_server import S3Server, running_s3_server
from tests.soak.editions import EDITIONS, Edition
from tests.soak.load import Answer, Load, judged
from tests.soak.memory import DEPLOYED_MB, Held
from tests.soak.weather import Weather, wait_until

_CLIENTS: Final = 4
_REFRESH_SECONDS: Final = 1
_START_SECONDS: Final = 60.0
_END_SECONDS: Final = 90.0
# A minute's worth of caches that fill: what is compared is the second quarter with the last.
_GROWTH: Final = 1.10
_GROWTH_MB: Final = 24.0


@dataclass(frozen=True, slots=True)
class Plan:
    """How long, and how often things change; in seconds."""

    seconds: float
    flip_seconds: float = 3.0
    fault_seconds: float = 2.5
    seed: int = 1
    judges_memory: bool = True
    """Not in a run so short that caches still fill at its end."""


@dataclass
class Outcome:
    """What was measured, and every problem that was found; none where the run passed."""

    seconds: float
    answers: Sequence[Answer]
    checked: int
    happened: Counter[str]
    held: Held
    lines: Sequence[dict[str, Any]]
    releases_on_disk: int
    problems: list[str] = field(default_factory=list[str])


def soak(plan: Plan, folder: Path) -> Outcome:
    """Runs the function under the emulator as `plan` says; everything is kept below `folder`."""
    with ExitStack() as stack:
        s3 = stack.enter_context(running_s3_server())
        provider = stack.enter_context(running_embedding_server())
        provider.key = planted.EMBEDDING_KEY
        proxy = stack.enter_context(running_fault_proxy(s3.endpoint))
        stack.enter_context(patch.dict(os.environ, s3.environment))
        # The stalls of the end are not waited for.
        stack.callback(proxy.closing.set)
        stack.callback(provider.closing.set)
        return _run(plan, folder, s3, proxy, provider)


def _run(plan: Plan, folder: Path, s3: S3Server, proxy: FaultProxy, provider: EmbeddingServer) -> Outcome:
    bucket = f"s3://{s3.create_bucket()}/docs"
    embeds = {**provider.environment(), "OPENAI_API_KEY": planted.EMBEDDING_KEY}
    with patch.dict(os.environ, embeds):
        settings = load_settings()
    databases = {edition: edition.build(folder, settings) for edition in map(Edition, range(1, EDITIONS + 1))}
    weather = Weather(plan.seed, open_store(bucket), proxy, provider, databases, plan.flip_seconds, plan.fault_seconds)
    weather.publish(Edition(1))
    environment = {
        **s3.environment,
        **embeds,
        "AWS_ENDPOINT_URL_S3": proxy.endpoint,
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(DEPLOYED_MB),
        "BEDIVERE_DATASET": bucket,
        "BEDIVERE_SYNC_FOLDER": str(folder / "disk"),
        "BEDIVERE_REFRESH_SECONDS": str(_REFRESH_SECONDS),
    }
    with emulated(environment, folder, wrapper=_limited(), questions=False) as function:
        held = Held(function)
        load = Load(function.url, plan.seed, _CLIENTS)
        began = time.monotonic()
        threads = [*load.start(), held.start()]
        problems: list[str] = []
        if not wait_until(lambda: bool(load.answers), _START_SECONDS):
            problems.append("the function did not answer its first call")
        threads += weather.start()
        threading.Event().wait(plan.seconds)
        weather.over.set()
        proxy.heal()
        provider.heal()
        proxy.closing.set()
        # In good weather again, the last release that became current is served.
        last = weather.store
        served = wait_until(lambda: _serves(function, last), _END_SECONDS)
        load.over.set()
        held.over.set()
        for thread in threads:
            thread.join(_END_SECONDS)
        seconds = time.monotonic() - began
        releases = sum(1 for path in (folder / "disk").iterdir() if path.is_dir())
    problems += [] if served else ["the last release was not served in good weather"]
    wrong, checked = judged(load.answers, function.lines(), weather.editions)
    problems += wrong + load.failures + weather.failures
    problems += [f"the log holds {what}" for what in planted.spilt(function.text(), function.asked)]
    problems += _leaks(plan, held, releases)
    return Outcome(seconds, load.answers, checked, weather.seen, held, function.lines(), releases, problems)


def _limited() -> list[str]:
    """A command that gives the function the memory that it is deployed with, and no more."""
    return ["prlimit", f"--data={DEPLOYED_MB * 1_000_000}"]


def _serves(function: Emulated, store: Any) -> bool:
    """Whether the latest calls were answered from the release that is current."""
    from retrieval.release.sync import read_pointer

    found = read_pointer(store)
    latest = [line.get("release") for line in function.lines() if line.get("message") == "call"][-_CLIENTS * 2 :]
    return found is not None and {*latest} == {found[0].release}


def _leaks(plan: Plan, held: Held, releases: int) -> list[str]:
    problems: list[str] = []
    early, late = held.quarter(1), held.quarter(3)
    if len(held.processes) != 1:
        problems.append(f"the function ran in {len(held.processes)} processes: it ended in between")
    if late.peak_mb > DEPLOYED_MB:
        problems.append(f"it held {late.peak_mb:.0f} MB at most and has {DEPLOYED_MB}")
    if plan.judges_memory and late.resident_mb > early.resident_mb * _GROWTH + _GROWTH_MB:
        problems.append(f"memory grew from {early.resident_mb:.0f} to {late.resident_mb:.0f} MB")
    if plan.judges_memory and (late.files > early.files + 20 or late.threads > early.threads + 10):
        problems.append(
            f"open files went from {early.files} to {late.files}, threads {early.threads} to {late.threads}"
        )
    if releases > 3:
        problems.append(f"{releases} releases were left on the disk")
    return problems
