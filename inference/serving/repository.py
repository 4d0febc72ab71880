"""The models of a server, which clients may load and unload if permitted (Triton's repository extension)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from ...models.errors import ModelError
from .answering import Server
from .logs import log

GRACE = 30.0  # maximum time in seconds for pending inputs when a model or the server stops
_PAUSE = 0.05  # seconds between checks of a model that is loading


class Repository:
    """The models, keyed by name; requests without a model name use the first model.

    `prepare` creates new process pools for a server; the callback passed to it is called if a process cannot be
    started.
    """

    def __init__(
        self, servers: Sequence[Server], prepare: Callable[[Server, Callable[[Exception], None]], None]
    ) -> None:
        """Initialise the repository. Raises ModelError if two models have the same name."""
        self._servers = {server.name: server for server in servers}
        self._prepare = prepare
        self._lock = asyncio.Lock()
        if len(self._servers) < len(servers):
            raise ModelError(f"two models have the same name: {', '.join(server.name for server in servers)}")

    @property
    def servers(self) -> list[Server]:
        """Return all models, loaded or not."""
        return list(self._servers.values())

    @property
    def is_ready(self) -> bool:
        """Return True if at least one model is loaded and all loaded models are ready."""
        loaded = [server for server in self.servers if server.is_loaded]
        return bool(loaded) and all(server.is_ready for server in loaded)

    def find(self, name: str) -> Server | None:
        """Return a model by name, or None."""
        return self._servers.get(name)

    def start(self) -> None:
        """Start the processes of all models."""
        for server in self.servers:
            for pool in server.pools:
                pool.start()

    async def stop(self) -> None:
        """Stop all models after their accepted inputs have been processed."""
        await asyncio.gather(*(self._stop(server) for server in self.servers if server.is_loaded))

    async def _stop(self, server: Server) -> None:
        for pool in server.pools:
            await pool.stop(GRACE)

    async def unload(self, server: Server) -> None:
        """Stop the processes of a model after its accepted inputs have been processed; new requests receive status
        503."""
        async with self._lock:
            if server.is_loaded:
                server.is_loaded = False
                await self._stop(server)
                log("info", "model unloaded", model=server.name)

    async def load(self, server: Server) -> Exception | None:
        """Restart the processes of a model; return None once it is ready, or the error if they cannot be started."""
        failures: list[Exception] = []
        async with self._lock:
            if server.is_loaded:
                return None
            self._prepare(server, failures.append)
            for pool in server.pools:
                pool.start()
            try:
                while not server.is_ready and not failures:
                    await asyncio.sleep(_PAUSE)
            finally:
                if not server.is_ready:  # the model failed, or the server is stopping
                    await self._stop(server)
            if failures:
                return failures[0]
            server.is_loaded = True
        log("info", "model loaded", model=server.name)
        return None
