"""Predict networks in batches, on two cores, in 8 bits and with other picture sizes, and write the tables in docs.

`python -m trninfer.tools.measure_launches [TABLE...]` builds each network as defined by torchvision, with random
weights, imports it and predicts its launches on trn2. It rewrites the tables in docs/networks.md completely, which
takes about fifteen minutes on two cores, and requires torch, torchvision and onnx; the table `large` also requires timm
and ultralytics. The only computation on data is the calibration of float8_e4m3 with random pictures.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..models.checks import INPUT, Shape
from ..models.files import Model
from ..models.importing import import_network
from ..models.inputs import ImageInput
from ..models.layers import Layer, Pool
from ..models.network import Network
from ..runtime.backend import EIGHT_BITS
from ..runtime.floor import floor_of
from ..runtime.session import Session
from ..runtime.simulated import open_simulated_backend
from .measure_networks import BATCH, PAGE, TARGET, export, random_network
from .real_exports import Export, load_packages

WAYS = tuple(  # dtype, cores of a logical core, pictures
    (dtype, cores, pictures)
    for dtype, cores in (("bfloat16", 1), ("bfloat16", 2), (EIGHT_BITS, 1))
    for pictures in (1, BATCH)
    if pictures >= cores
)
NETWORKS = ("vgg16", "resnet18", "resnet50", "mobilenet_v2", "efficientnet_b0", "convnext_tiny")
FAMILIES = ("resnet18", "mobilenet_v2", "efficientnet_b0", "regnet_y_400mf", "squeezenet1_1")
USUAL = 224
SIZES = (160, 192, USUAL, 225, 320, 448, 640, 896)


@dataclass(frozen=True)
class Large:
    """A network of `real_exports`, its batches, and the published microseconds per picture and physical core (with the
    dtype). They were measured with torch_neuronx.trace on trn2 (neuronx-distributed-inference, pull requests 116 and
    151)."""

    export: Export
    batches: tuple[int, ...]
    published: str = ""


LARGE = (
    Large(Export("ultralytics", "yolov8n", 640, "own"), (1,)),
    Large(Export("ultralytics", "yolo26s", 640, "own"), (1, 8), "5,253 (fp32)"),
    Large(Export("ultralytics", "yolo26m", 640, "own"), (8,), "6,314"),
    Large(Export("timm: vit", "vit_base_patch16_224", 224, "script"), (1, 16), "9,328"),
    Large(Export("torchvision", "convnext_tiny", 224, "script"), (1, 16), "7,564"),
    Large(Export("torchvision: maps", "fcn_resnet50", 96, "script"), (1,)),
)


def main() -> None:
    """Write the named tables, or all by default."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"of {', '.join(TABLES)}")
    tables = parser.parse_args().tables or list(TABLES)
    if unknown := set(tables) - set(TABLES):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    for name in tables:
        page = PAGE.read_text("utf-8")
        PAGE.write_text(filled(page, name, list(TABLES[name]())), "utf-8")


def ways() -> Iterator[Sequence[str]]:
    """Yield one row per network with the microseconds per picture for each configuration."""
    yield "network", *(f"{dtype}, {'two cores, ' * (cores - 1)}{pictures}" for dtype, cores, pictures in WAYS)
    for name in NETWORKS:
        model = built(name)
        times = (predicted(model, dtype, cores, pictures) for dtype, cores, pictures in WAYS)
        yield name, *(shown(time) for time in times)


def sizes() -> Iterator[Sequence[str]]:
    """Yield one row per network with the microseconds per picture at each size."""
    yield "network", *(f"{side}x{side}" for side in SIZES)
    for name in FAMILIES:
        model = built(name)
        resized = (Model(for_size(model.network, side), model.tensors, {}) for side in SIZES)
        yield name, *(shown(predicted(network, "bfloat16", 1, 1)) for network in resized)


def large() -> Iterator[Sequence[str]]:
    """Yield one row per network and batch size, with the published and the predicted time in separate columns."""
    yield "network", "size", "pictures", "published, measured", "predicted", "times its floor", "planned in"
    load_packages([network.export for network in LARGE])
    for network in LARGE:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "network.onnx"
            network.export.write(path)
            imported = import_network(path)
        model = Model(imported.network, imported.tensors, {})
        for pictures in network.batches:
            began = time.process_time()
            microseconds = predicted(model, "bfloat16", 1, pictures)
            seconds = time.process_time() - began
            floor = floor_of(model.network, "bfloat16", pictures, TARGET).latency_us / pictures
            row = (network.export.name, str(network.export.size), str(pictures), network.published, shown(microseconds))
            print(row, seconds, file=sys.stderr, flush=True)
            yield *row, f"{microseconds / floor:.1f}", f"{seconds:.0f} s"


def built(name: str) -> Model:
    """Return a torchvision network with random weights."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.onnx"
        export(random_network(name), "script", path)
        imported = import_network(path)
    print(name, file=sys.stderr, flush=True)
    return Model(imported.network, imported.tensors, {})


def for_size(network: Network, side: int) -> Network:
    """Adapt a network to square pictures of `side` pixels, including its pools over whole images."""
    assert isinstance(network.input, ImageInput)
    before = network.shapes()
    image = replace(network.input, height=side, width=side, resize=side if network.input.resize else 0)
    shapes: dict[str, Shape] = {INPUT: image.shape}
    layers: list[Layer] = []
    last = INPUT
    for layer in network.layers:
        sources = layer.inputs or (last,)
        source = shapes[sources[0]]
        old = before.get(sources[0], network.input.shape)
        if isinstance(layer, Pool) and layer.window == old[1:]:
            layer = replace(layer, window=(source[1], source[2]), stride=(source[1], source[2]))
        shapes[layer.name] = layer.output_shape(*[shapes[name] for name in sources])
        layers.append(layer)
        last = layer.name
    return replace(network, input=image, layers=tuple(layers))


def predicted(model: Model, dtype: str, cores: int, pictures: int) -> float:
    """Return the predicted microseconds per picture of a batch."""
    session = Session(model, open_simulated_backend(TARGET, lnc=cores), dtype, pictures)
    return session.time(pictures).total_us / pictures


def shown(microseconds: float) -> str:
    """Format a time with at least three digits."""
    return f"{microseconds:,.{max(0, 3 - len(str(int(microseconds))))}f}"


def filled(page: str, name: str, rows: Sequence[Sequence[str]]) -> str:
    """Return the page with the named table replaced by rows, the first of which contains the headings."""
    lines = [rows[0], ("---",) * len(rows[0]), *rows[1:]]
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    block = re.compile(rf"(<!-- predicted: {name} -->\n).*?(<!-- end of {name} -->)", re.S)
    return block.sub(lambda match: match[1] + table + match[2], page)


TABLES: dict[str, Callable[[], Iterator[Sequence[str]]]] = {"ways": ways, "sizes": sizes, "large": large}

if __name__ == "__main__":
    main()
