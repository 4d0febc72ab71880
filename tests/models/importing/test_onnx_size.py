"""The memory that ONNX files need, determined before they are decoded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from trninfer.models.budget import Budget, OverBudget
from trninfer.models.importing import onnx_size
from trninfer.models.importing.onnx_file import read_onnx
from trninfer.models.importing.onnx_size import MESSAGE_BYTES, take_message


def varint(number: int) -> bytes:
    parts = bytearray()
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes(parts) + bytes([number])


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


NUMBERS = field(7, b"\1" * (30 << 20)) + b"\x10\x07"  # int64_data, and its data type (int64)
GRAPHS = {
    "nodes": b"\x0a\x00" * (4 << 20),
    "numbers of 64 bits": b"\x0a\x00" + field(5, NUMBERS),
    "attributes": field(1, b"\x2a\x00" * (4 << 20)),
    "names": field(1, b"\x0a\x00" * (4 << 20)),
}
PROGRAM = """
import sys
from pathlib import Path
from trninfer.models.errors import ModelError
from trninfer.models.importing.onnx_file import read_onnx
import onnx
try:
    read_onnx(Path(sys.argv[1]))
except ModelError as error:
    print(error)
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM:")).split()[1])
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", GRAPHS)
def test_small_files_of_many_messages_are_refused_before_they_are_decoded(tmp_path: Path, name: str) -> None:
    (tmp_path / "bomb.onnx").write_bytes(field(7, GRAPHS[name]))
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "bomb.onnx")]
    said, peak = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert "bomb.onnx: it" in said and any(word in said for word in ("more than", "are allowed", "exceeds the limit"))
    assert int(peak) >> 10 < 700  # MiB of this process only; getrusage includes memory of earlier tests


def test_decoded_size_is_bounded_by_the_fields() -> None:
    weights = np.arange(1000, dtype=np.float32)
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Softmax", ["y"], ["z"], axis=1)]
    graph = helper.make_graph(nodes, "g", [], [], [numpy_helper.from_array(weights, "w")])
    content = helper.make_model(graph).SerializeToString()
    budget = Budget(1 << 20)
    take_message(onnx.ModelProto.DESCRIPTOR, content, budget)
    assert weights.nbytes + 4 * MESSAGE_BYTES < budget.taken < weights.nbytes + 20 * MESSAGE_BYTES
    with pytest.raises(OverBudget, match="its content takes"):
        take_message(onnx.ModelProto.DESCRIPTOR, content, Budget(weights.nbytes))


def test_too_many_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_size, "MAX_FIELDS", 10)
    with pytest.raises(OverBudget, match="more than 10 fields"):
        take_message(onnx.ModelProto.DESCRIPTOR, field(7, b"\x0a\x00" * 11), Budget(1 << 30))


@pytest.mark.parametrize(
    "content", [b"", b"\xff" * 40, b"\x0b" * 9, field(7, b"\x0a\x7f"), b"\x3a\xff\xff\xff\xff\x7f\0"]
)
def test_invalid_message_is_left_to_the_decoder(tmp_path: Path, content: bytes) -> None:
    budget = Budget(1 << 20)
    take_message(onnx.ModelProto.DESCRIPTOR, content, budget)
    (tmp_path / "x.onnx").write_bytes(content)
    with pytest.raises(Exception, match="not an ONNX file"):
        read_onnx(tmp_path / "x.onnx")


def test_sparse_weights_beside_a_file_are_refused(tmp_path: Path) -> None:
    tensor = onnx.TensorProto(name="w", data_type=onnx.TensorProto.FLOAT, dims=[1 << 28])
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="w.bin")
    with (tmp_path / "w.bin").open("wb") as file:
        file.truncate(1 << 30)
    graph = helper.make_graph([helper.make_node("Relu", ["w"], ["y"])], "g", [], [], [tensor])
    (tmp_path / "x.onnx").write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()
    )
    with pytest.raises(Exception, match="limit of 536,870,912"):
        read_onnx(tmp_path / "x.onnx")
