"""What goes on around the function: releases that flip, a store that fails, a provider that is slow or dead."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from retrieval.release.history import rollback
from retrieval.release.publish import publish
from retrieval.release.store import Store
from tests import planted
from tests.embedding_server import EmbeddingServer, vector_of
from tests.fault_proxy import FaultProxy
from tests.soak.editions import Edition

_PART: Final = r"/part-\d+\.tar\.zst"

STORE_FAULTS: Final[Mapping[str, Callable[[FaultProxy], object]]] = {
    "500": lambda proxy: proxy.fail("status", status=500),
    "503 SlowDown": lambda proxy: proxy.fail("status", status=503, code="SlowDown"),
    "403": lambda proxy: proxy.fail("status", status=403, code="AccessDenied"),
    "expired credentials": lambda proxy: proxy.fail("status", status=403, code="ExpiredToken"),
    "clock skew": lambda proxy: proxy.fail("status", status=403, code="RequestTimeTooSkewed"),
    "cut bodies": lambda proxy: proxy.fail("truncate"),
    "resets": lambda proxy: proxy.fail("reset"),
    "wrong bytes": lambda proxy: proxy.fail("corrupt", _PART),
    "stall": lambda proxy: proxy.fail("hang", times=1),
}


@dataclass
class Weather:
    """Threads that change things until `over`; each of its choices comes from the seed."""

    seed: int
    store: Store
    proxy: FaultProxy
    provider: EmbeddingServer
    databases: Mapping[Edition, Path]
    flip_seconds: float
    fault_seconds: float
    editions: dict[str, Edition] = field(default_factory=dict[str, Edition])
    """What was published under each id."""
    seen: Counter[str] = field(default_factory=Counter[str])
    failures: list[str] = field(default_factory=list[str])
    over: threading.Event = field(default_factory=threading.Event)

    def publish(self, edition: Edition) -> None:
        """Makes the edition current; known under its id before anybody can be served it."""
        # The id is known only afterwards: whoever judges the answers waits until the end.
        release = publish(self.databases[edition], self.store).release
        self.editions[release] = edition
        self.seen["releases published"] += 1

    def start(self) -> list[threading.Thread]:
        tasks = (self._flip, self._break_the_store, self._break_the_provider)
        threads = [threading.Thread(target=self._guarded, args=(task,), daemon=True) for task in tasks]
        for thread in threads:
            thread.start()
        return threads

    def _guarded(self, task: Callable[[Random], None]) -> None:
        try:
            task(Random(f"{self.seed} {task.__name__}"))
        except Exception as error:
            self.failures.append(f"{task.__name__} ended with {type(error).__name__}: {error}")

    def _flip(self, random: Random) -> None:
        last = next(reversed(self.editions.values()))
        while not self.over.wait(self.flip_seconds):
            if len(self.editions) > 1 and random.random() < 0.4:
                earlier = random.choice([release for release, edition in self.editions.items() if edition != last])
                rollback(self.store, earlier)
                last = self.editions[earlier]
                self.seen["releases rolled back"] += 1
            else:
                last = random.choice([edition for edition in self.databases if edition != last])
                self.publish(last)

    def _break_the_store(self, random: Random) -> None:
        names: list[str] = []
        while not self.over.wait(self.fault_seconds):
            names = names or random.sample(list(STORE_FAULTS), len(STORE_FAULTS))
            name = names.pop()
            STORE_FAULTS[name](self.proxy)
            self.seen[f"store: {name}"] += 1
            self.over.wait(self.fault_seconds)
            self.proxy.heal()

    def _break_the_provider(self, random: Random) -> None:
        names: list[str] = []
        # Long enough for the circuit breaker to close again, so that meaning is searched too.
        while not self.over.wait(self.fault_seconds * 6):
            names = names or random.sample(("slow", "dead", "drops", "refuses the key"), 4)
            how = names.pop()
            self.seen[f"provider: {how}"] += 1
            match how:
                case "dead":
                    self.provider.fail("status", status=500)
                case "refuses the key":
                    # As providers do, it repeats the key.
                    self.provider.fail(
                        "status", status=401, message=f"Incorrect API key provided: {planted.EMBEDDING_KEY}"
                    )
                case "drops":
                    self.provider.fail("drop")
                case _:
                    self.provider.model = self._slowly
            self.over.wait(self.fault_seconds)
            self.provider.heal()
            self.provider.model = None

    def _slowly(self, texts: Sequence[str]) -> list[list[float]]:
        self.over.wait(5.0)
        return [vector_of(text) for text in texts]


def wait_until(holds: Callable[[], bool], seconds: float) -> bool:
    """Whether `holds` came true within so many seconds."""
    over, deadline = threading.Event(), time.monotonic() + seconds
    while not (held := holds()) and time.monotonic() < deadline:
        over.wait(0.1)
    return held
