"""Measure the standard architectures, and write the table in docs/networks.md.

`python -m trninfer.tools.measure_networks [NAME...] [--exporter script|dynamo|both]` builds each network as defined by
torchvision, with random weights and batch statistics, exports it with PyTorch's exporters and imports it. It then
compares the results for random pictures with ONNX Runtime in float32, bfloat16 and float16, using the batch sizes that
an import checks for a network of that size. It requires torch, torchvision, onnx, onnxscript and onnxruntime and, for
VGG, 4 GB of memory. All networks take about half an hour on two cores; only the rows of the named networks are
replaced.

Predicted times are for the default launches on trn2. Wall times were measured on the host machine with one thread, for
the import and for the simulator's computation of the results.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..models.files import Model
from ..models.importing import Imported, import_network
from ..runtime.network_check import batches_of
from ..runtime.session import Session
from ..runtime.simulated import open_simulated_backend

PAGE = Path(__file__).resolve().parent.parent / "docs" / "networks.md"
TARGET = "trn2"
EXPORTERS = ("script", "dynamo")
DTYPES = ("float32", "bfloat16", "float16")
BATCH = 16  # batch for predictions per picture in bfloat16
_BLOCK = re.compile(r"(<!-- measured: networks -->\n).*?(<!-- end of networks -->)", re.S)

NETWORKS = (
    "alexnet",
    "vgg11",
    "vgg11_bn",
    "vgg16",
    "vgg16_bn",
    "resnet18",
    "resnet34",
    "resnet50",
    "resnext50_32x4d",
    "squeezenet1_1",
    "googlenet",
    "densenet121",
    "mobilenet_v2",
    "mobilenet_v3_small",
    "mnasnet0_5",
    "shufflenet_v2_x0_5",
    "efficientnet_b0",
    "regnet_y_400mf",
    "convnext_tiny",
)

HEADINGS = (
    "network",
    "exporter",
    "parameters",
    "difference: float32, bfloat16, float16",
    "predicted: float32, bfloat16",
    "a picture of 16: bfloat16",
    "launches: float32, bfloat16",
    "import",
    "answer",
)


@dataclass(frozen=True)
class Row:
    """The results of a network for one exporter: the differences of probabilities, the predicted times and the launches
    for each dtype.

    Times in seconds are wall times.
    """

    name: str
    exporter: str
    parameters: int
    differences: tuple[float, ...]
    predicted_us: tuple[float, ...]
    batched_us: float  # the time per picture in a batch of 16 in bfloat16
    launches: tuple[int, ...]
    import_seconds: float
    answer_seconds: float

    def cells(self) -> tuple[str, ...]:
        """Return the cells of the table's row."""
        return (
            self.name,
            self.exporter,
            f"{self.parameters / 1e6:.2f} M",
            ", ".join(f"{value:.1e}" for value in self.differences),
            ", ".join(f"{value / 1000:.2f}" for value in self.predicted_us[:2]) + " ms",
            f"{self.batched_us:.0f} us",
            ", ".join(map(str, self.launches[:2])),
            f"{self.import_seconds:.1f} s",
            f"{self.answer_seconds:.1f} s",
        )


def main() -> None:
    """Measure the named networks, or all by default, and write their rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NETWORKS)}")
    parser.add_argument("--exporter", choices=(*EXPORTERS, "both"), default="both")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(NETWORKS)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    exporters = EXPORTERS if arguments.exporter == "both" else (arguments.exporter,)
    order = {(name, exporter): n for n, (name, exporter) in enumerate((a, b) for a in NETWORKS for b in EXPORTERS)}
    for name in arguments.names or NETWORKS:
        for exporter in exporters:
            row = measure(name, exporter)
            print(" | ".join(row.cells()), file=sys.stderr, flush=True)
            rows = {**dict(rows_of(PAGE.read_text("utf-8"))), (row.name, row.exporter): row.cells()}
            PAGE.write_text(filled(PAGE.read_text("utf-8"), [rows[key] for key in order if key in rows]), "utf-8")


def measure(name: str, exporter: str) -> Row:
    """Export, import and run one network."""
    backend = open_simulated_backend(TARGET)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.onnx"
        export(random_network(name), exporter, path)
        started = time.perf_counter()
        imported = import_network(path)
        import_seconds = time.perf_counter() - started
        if imported.comparison.skipped or not imported.comparison.passed:
            raise SystemExit(f"{name} by {exporter}: {imported.comparison}")
        x = np.random.default_rng(3).standard_normal((BATCH, *imported.network.input.shape), np.float32)
        expected = np.concatenate([onnx_runtime_probabilities(path, x[n : n + 1]) for n in range(len(x))])
    model = Model(imported.network, imported.tensors, {})
    differences, predicted, seconds, launches = [], [], [], []
    for dtype in DTYPES:
        largest = 0.0
        for batch in _batches(model, exporter, dtype):
            session = Session(model, backend, dtype, batch)
            started = time.perf_counter()
            result = session.run(x[:batch])
            took = time.perf_counter() - started
            largest = max(largest, float(np.abs(result.probabilities - expected[:batch]).max()))
            if batch == 1:
                seconds.append(took)
                predicted.append(result.total_us)
                launches.append(_launches(session))
        differences.append(largest)
    batched_us = Session(model, backend, "bfloat16", BATCH).time(BATCH).total_us / BATCH
    return Row(
        name=name,
        exporter=exporter,
        parameters=parameters_of(imported),
        differences=tuple(differences),
        predicted_us=tuple(predicted),
        batched_us=batched_us,
        launches=tuple(launches),
        import_seconds=import_seconds,
        answer_seconds=seconds[0],
    )


def _batches(model: Model, exporter: str, dtype: str) -> tuple[int, ...]:
    """Return the batch sizes to run.

    Only one batch size is run for float16, and for the second exporter, whose network is identical.
    """
    if exporter != EXPORTERS[0] or dtype == DTYPES[2]:
        return (1,)
    return batches_of(model.network) or (1,)


def _launches(session: Session) -> int:
    """Return the number of launches: one for the whole network, several if the network is split (the note begins with
    their number), or one per row."""
    if session.rows[0].kernel != "run_network":
        return len(session.rows)
    return int(session.launches_note.split()[0]) if session.launches_note else 1


def random_network(name: str) -> Any:
    """Return a torchvision network with random weights and batch statistics, which are the same in each call."""
    import torch

    # torchvision registers operators that a build of torch without its libraries does not support; no network uses
    # them.
    torch.library.register_fake = lambda *_, **__: lambda function: function
    import torchvision.models

    torch.manual_seed(0)
    options: dict[str, Any] = {"aux_logits": False, "init_weights": False} if name == "googlenet" else {}
    module = getattr(torchvision.models, name)(weights=None, **options).eval()
    generator = torch.Generator().manual_seed(1)
    for part in module.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            assert part.running_mean is not None and part.running_var is not None
            for centred in (part.running_mean, part.bias.data):
                centred.uniform_(-0.2, 0.2, generator=generator)
            for positive in (part.running_var, part.weight.data):
                positive.uniform_(0.5, 1.5, generator=generator)
    return module


def export(module: Any, exporter: str, path: Path) -> None:
    """Export a torch network for pictures of 224x224 pixels to an ONNX file."""
    import torch

    picture = torch.zeros(1, 3, 224, 224)
    if exporter == "dynamo":
        torch.onnx.export(module, (picture,), str(path), dynamo=True, verbose=False)
    else:
        torch.onnx.export(module, (picture,), str(path), dynamo=False, opset_version=17)


def onnx_runtime_probabilities(path: Path, x: np.ndarray) -> np.ndarray:
    """Return the softmax of ONNX Runtime's output for inputs [1, C, H, W]: float64 [1, classes]."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    scores = session.run(None, {session.get_inputs()[0].name: x})[0].astype(np.float64)
    exponents = np.exp(scores - scores.max(axis=1, keepdims=True))
    return exponents / exponents.sum(axis=1, keepdims=True)


def parameters_of(imported: Imported) -> int:
    """Return the number of elements in all tensors, with batch normalizations folded in."""
    return sum(tensor.size for tensor in imported.tensors.values())


def filled(page: str, rows: Sequence[Sequence[str]]) -> str:
    """Return the page with the table's rows replaced."""
    lines = [HEADINGS, ("---",) * len(HEADINGS), *rows]
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return _BLOCK.sub(lambda match: match[1] + table + match[2], page)


def rows_of(page: str) -> Iterator[tuple[tuple[str, str], tuple[str, ...]]]:
    """Return the rows of the page, keyed by network and exporter."""
    block = _BLOCK.search(page)
    for line in block[0].splitlines()[3:-1] if block else ():
        cells = tuple(cell.strip() for cell in line.strip("|").split("|"))
        yield (cells[0], cells[1]), cells


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
