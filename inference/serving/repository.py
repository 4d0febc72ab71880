"""The models of a server, which clients may load and unload where that is allowed (Triton's repository extension)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from ...models.errors import ModelError
from .answering import Server
from .logs import log

GRACE = 30.0  # seconds in which what waits is answered when a model, or the server, stops
_PAUSE = 0.05  # seconds between looks at a model that is loaded


class Repository:
    """Models by name; the first answers requests that name none.

    `prepare` gives a server new pools of processes, and a function to call where one of them cannot begin.
    """

    def __init__(
        self, servers: Sequence[Server], prepare: Callable[[Server, Callable[[Exception], None]], None]
    ) -> None:
        """Raise ModelError where two models have one name."""
        self._servers = {server.name: server for server in servers}
        self._prepare = prepare
        self._lock = asyncio.Lock()
        if len(self._servers) < len(servers):
            raise ModelError(f"two models are called alike: {', '.join(server.name for server in servers)}")

    @property
    def servers(self) -> list[Server]:
        """All models, loaded or not."""
        return list(self._servers.values())

    @property
    def is_ready(self) -> bool:
        """True while a model is loaded and all that are loaded answer."""
        loaded = [server for server in self.servers if server.is_loaded]
        return bool(loaded) and all(server.is_ready for server in loaded)

    def find(self, name: str) -> Server | None:
        """Return a model by its name; None where there is none."""
        return self._servers.get(name)

    def start(self) -> None:
        """Start the processes of all models."""
        for server in self.servers:
            for pool in server.pools:
                pool.start()

    async def stop(self) -> None:
        """Stop all models once they have answered what they accepted."""
        await asyncio.gather(*(self._stop(server) for server in self.servers if server.is_loaded))

    async def _stop(self, server: Server) -> None:
        for pool in server.pools:
            await pool.stop(GRACE)

    async def unload(self, server: Server) -> None:
        """End a model's processes once they have answered what was accepted; its requests get 503 from now on."""
        async with self._lock:
            if server.is_loaded:
                server.is_loaded = False
                await self._stop(server)
                log("info", "model unloaded", model=server.name)

    async def load(self, server: Server) -> Exception | None:
        """Start a model's processes again; return the error where they cannot begin, else None when it answers."""
        failures: list[Exception] = []
        async with self._lock:
            if server.is_loaded:
                return None
            self._prepare(server, failures.append)
            for pool in server.pools:
                pool.start()
            while not server.is_ready and not failures:
                await asyncio.sleep(_PAUSE)
            if failures:
                await self._stop(server)
                return failures[0]
            server.is_loaded = True
        log("info", "model loaded", model=server.name)
        return None
