"""Preprocessing and labels of an imported network: from the user, from files next to it, or from its own file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import ModelError
from .builder import BuiltOutput
from .onnx_file import Graph
from .onnx_labels import labels_in
from .picture import PreprocessingOptions
from .preprocessor import Beside, read_beside


@dataclass(frozen=True)
class Properties:
    """Preprocessing options and labels specified by the user or by files next to the network."""

    pictures: PreprocessingOptions
    labels: tuple[str, ...] | None
    beside: Beside
    notes: tuple[str, ...]

    def with_pictures(self, pictures: PreprocessingOptions) -> Properties:
        """Return a copy in which missing preprocessing options are taken from `pictures`."""
        return replace(self, pictures=self.pictures.over(pictures))

    def labels_of(self, leading: BuiltOutput, graph: Graph | None) -> tuple[tuple[str, ...] | None, str]:
        """Return the labels of the primary output, and their source: the user, files next to the network, or the
        network file."""
        if self.labels is not None:
            return self.labels, "the user"
        count, kind = leading.label_count, leading.output.kind
        if kind == "values" or (kind not in ("boxes", "map") and count < 2):
            return None, ""
        if self.beside.labels is not None and len(self.beside.labels) == count:
            return self.beside.labels, self.beside.files[-1]
        found = None if graph is None else labels_in(graph, count)
        return found, "" if found is None else "the file itself"


EMPTY = Beside(PreprocessingOptions(), None, ())


def read_beside_network(path: Path, preprocessor: Path | None) -> tuple[Beside, list[str]]:
    """Read `preprocessor` or else the files next to a network, and return their contents and notes. Unreadable files
    that the user did not specify are not an error."""
    try:
        beside = read_beside(path, preprocessor)
    except ModelError as error:
        if preprocessor is not None:
            raise
        return EMPTY, [f"ignored: {error}"]
    return beside, [f"preprocessing and labels were copied from {name}" for name in beside.files]
