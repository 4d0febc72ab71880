"""Settings of a server: the model, its backend, and limits on requests."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Any

from ...models.files import Model
from ...runtime.backend import BACKENDS, NETWORK_DTYPES
from ...runtime.launch_options import DEFAULT_LAUNCHES, LNC, LaunchOptions
from ...runtime.open_model import open_model

VERSION = "1"  # version of the served model as reported in the protocol


@dataclass(frozen=True)
class ServingSettings:
    """Options of a server; picklable. Raises ValueError for a value that is not allowed."""

    model: str | os.PathLike[str] | Model = "digits-cnn"  # a name, the path of a model or ONNX file, or a loaded model
    name: str = ""  # name of the model for clients; by default the stem of the file
    dtype: str = "float32"
    target: str | None = None
    backend: str = "auto"
    lnc: int = 1  # NeuronCores per logical core
    launches: LaunchOptions = DEFAULT_LAUNCHES
    neuron_options: dict[str, Any] = field(default_factory=dict)  # see `open_neuron_backend`
    workers: int = 1  # number of processes that run the network, each on a logical core
    decoders: int = field(default_factory=lambda: min(4, os.cpu_count() or 1))  # processes that decode pictures
    max_batch: int = 16
    max_delay: float = 0.002  # maximum seconds that an input waits for others to join its batch
    max_queue: int = 256  # further pending inputs are rejected
    max_bytes: int = 32 << 20  # larger bodies are rejected
    timeout: float = 30.0  # time limit for a request, in seconds
    top_k: int = 5
    token: str | None = field(default=None, repr=False)  # required in all requests except health checks and the page
    hosts: tuple[str, ...] = ()  # allowed Host headers if there is no token; empty: any host
    model_control: bool = False  # clients may load and unload models

    def __post_init__(self) -> None:
        for name, allowed in (("dtype", tuple(NETWORK_DTYPES)), ("backend", BACKENDS)):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} is {getattr(self, name)!r}; allowed: {', '.join(allowed)}")
        if self.lnc not in LNC:
            raise ValueError(f"lnc is {self.lnc!r}; allowed: 1 and 2")
        if self.lnc > 1 and self.launches.per == "layer":
            raise ValueError(
                "lnc=2 requires launches='network', because launches='layer' runs every kernel on one NeuronCore"
            )
        for name in ("workers", "decoders", "max_batch", "max_queue", "max_bytes", "top_k"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise ValueError(f"{name} is {value!r}; expected an integer of at least 1")
        if not 0 <= self.max_delay < 60 or not 0 < self.timeout <= 86_400:
            raise ValueError("max_delay must be from 0 to 60 seconds, and timeout must be above 0 and at most one day")
        if self.max_queue < self.max_batch:
            raise ValueError(f"max_queue must be at least max_batch ({self.max_batch}), got {self.max_queue}")
        if self.token is not None and not re.fullmatch(r"[\x21-\x7e]{8,200}", self.token):
            raise ValueError("token must have 8 to 200 printable ASCII characters and no spaces")

    def load(self) -> Model:
        """Load the model. Raises ModelError if it cannot be read."""
        return self.model if isinstance(self.model, Model) else open_model(self.model)

    def model_name(self, model: Model) -> str:
        """Return the name of the model for clients, restricted to characters that need no escaping in a URL."""
        full_name = self.name or model.network.name
        if not self.name and not isinstance(self.model, Model):
            full_name = os.path.basename(os.fspath(self.model)).removesuffix(".safetensors").removesuffix(".onnx")
        return re.sub(r"[^\w.-]", "_", full_name, flags=re.ASCII) or "model"

    def batch_sizes(self) -> tuple[int, ...]:
        """Return the sizes to which batches are padded: powers of two below `max_batch`, and `max_batch`."""
        powers = (1 << bit for bit in range(self.max_batch.bit_length()))
        return tuple(sorted({*(size for size in powers if size < self.max_batch), self.max_batch}))
