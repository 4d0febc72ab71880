"""The models of a server, which clients may load and unload if allowed (Triton's repository extension)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from ...models.errors import ModelError
from .answering import Server
from .logs import log

GRACE = 30.0  # seconds to answer pending inputs when a model or the server stops
_PAUSE = 0.05  # seconds between checks of a model that is loading


class Repository:
    """Models by name; requests without a model name go to the first.

    `prepare` gives a server new process pools; its callback is called if a process cannot start.
    """

    def __init__(
        self, servers: Sequence[Server], prepare: Callable[[Server, Callable[[Exception], None]], None]
    ) -> None:
        """Raise ModelError if two models have the same name."""
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
        """True if at least one model is loaded and all loaded models answer."""
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
        """Stop all models after they have answered accepted inputs."""
        await asyncio.gather(*(self._stop(server) for server in self.servers if server.is_loaded))

    async def _stop(self, server: Server) -> None:
        for pool in server.pools:
            await pool.stop(GRACE)

    async def unload(self, server: Server) -> None:
        """End a model's processes after accepted inputs are answered; new requests get status 503."""
        async with self._lock:
            if server.is_loaded:
                server.is_loaded = False
                await self._stop(server)
                log("info", "model unloaded", model=server.name)

    async def load(self, server: Server) -> Exception | None:
        """Start a model's processes again; return None once it answers, or the error if they cannot start."""
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
                if not server.is_ready:  # it failed, or the server stops meanwhile
                    await self._stop(server)
            if failures:
                return failures[0]
            server.is_loaded = True
        log("info", "model loaded", model=server.name)
        return None
