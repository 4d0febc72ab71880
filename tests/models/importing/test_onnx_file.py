"""Corrupt or hostile ONNX files, and missing packages."""

from __future__ import annotations

import gzip
import re
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import helper
from onnx_chain import Chain, vgg
from trninfer.models import ModelError
from trninfer.models.importing import import_network, onnx_file

BYTES = vgg(1).model().SerializeToString()


def assert_error_or_network(content: bytes, folder: Path) -> None:
    """Import a file, which must be a network or raise an error of one line."""
    path = folder / "m.onnx"
    path.write_bytes(content)
    try:
        imported = import_network(path)
    except ModelError as error:
        assert "\n" not in str(error)
    else:
        assert imported.network.layers


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_corrupt_file_is_a_model_error_or_a_network(data: st.DataObject, tmp_path: Path) -> None:
    raw = bytearray(BYTES)
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    assert_error_or_network(bytes(raw[: data.draw(st.integers(0, 2 * len(raw)))]), tmp_path)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_graph_with_anything_anywhere_is_a_model_error_or_a_network(data: st.DataObject, tmp_path: Path) -> None:
    """Well-formed protobuf with random inputs, attributes and shapes, which byte flips seldom produce."""
    model = vgg(1).model()
    nodes = model.graph.node
    names = [name for node in nodes for name in (*node.input, *node.output)]
    for _ in range(data.draw(st.integers(1, 3))):
        node = data.draw(st.sampled_from(list(nodes)))
        what = data.draw(st.sampled_from(["op", "input", "fewer", "attribute", "dims", "type"]))
        weight = data.draw(st.sampled_from(list(model.graph.initializer)))
        if what == "op":
            node.op_type = data.draw(st.sampled_from([other.op_type for other in nodes] + ["Add", "Reshape", "Gather"]))
        elif what == "input" and node.input:
            node.input[data.draw(st.integers(0, len(node.input) - 1))] = data.draw(st.sampled_from([*names, ""]))
        elif what == "fewer" and node.input:
            del node.input[data.draw(st.integers(0, len(node.input) - 1)) :]
        elif what == "attribute":
            name = data.draw(st.sampled_from(["pads", "strides", "kernel_shape", "axis", "transB", "epsilon", "group"]))
            values = [0, -1, 3, 1.5, "text", [1], [0, 0], [2, 2], [1 << 40] * 4, [1, 2, 3, 4]]
            value = data.draw(st.sampled_from(values))
            kept = [entry for entry in node.attribute if entry.name != name]
            del node.attribute[:]
            node.attribute.extend([*kept, helper.make_attribute(name, value)])
        elif what == "dims":
            weight.dims[:] = data.draw(st.permutations(list(weight.dims)))
            weight.dims.extend(data.draw(st.sampled_from([[], [1], [1, 1]])))
        else:
            weight.data_type = data.draw(st.integers(0, 24))
    assert_error_or_network(model.SerializeToString(), tmp_path)


def test_files_that_are_no_model(tmp_path: Path) -> None:
    for name, content, says in (
        ("a.onnx", b"", "not an ONNX file"),
        ("b.onnx", b"not protobuf at all", "not an ONNX file"),
        ("c.pt", b"PK\x03\x04rest", "a pickle, which is never loaded because it can run code"),
        ("d.pth", b"\x80\x02rest", "import torch, safetensors.torch as s; s.save_file"),
        ("e.h5", b"\x89HDF", "a Keras model or its weights; python -c 'import keras;"),
        ("f.bin", b"\x00", "neither .onnx nor .safetensors"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ModelError, match=says):
            import_network(tmp_path / name)
    with (tmp_path / "huge.onnx").open("wb") as file:
        file.truncate(onnx_file.MAX_FILE_BYTES + 1)  # a sparse file
    with pytest.raises(ModelError, match="2147483649 bytes; an ONNX file may have at most"):
        import_network(tmp_path / "huge.onnx")
    (tmp_path / "folder.onnx").mkdir()
    with pytest.raises(ModelError, match="not a regular file"):
        import_network(tmp_path / "folder.onnx")
    with pytest.raises(ModelError, match="no such file"):
        import_network(tmp_path / "missing.onnx")


def test_without_the_package_onnx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = vgg(1).save(tmp_path)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ModelError, match=r"requires the package onnx: pip install 'trninfer\[onnx\]'"):
        import_network(path)


def test_without_onnx_runtime_the_check_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = vgg(1).save(tmp_path)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    comparison = import_network(path).comparison
    assert comparison.passed and "ONNX Runtime is not installed" in comparison.skipped


def test_a_gzipped_file_is_read_as_it_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chain = Chain(6)
    chain.gemm(6, 4)
    packed = tmp_path / "net.onnx.gz"
    packed.write_bytes(gzip.compress(chain.save(tmp_path).read_bytes()))
    imported = import_network(packed)
    assert imported.comparison.passed and imported.comparison.skipped == "" and imported.network.name == "net"
    for content, says in (
        (packed.read_bytes()[:40], "cannot be unpacked"),
        (b"no gzip", "cannot be unpacked"),
        (gzip.compress(b"no onnx"), "not an ONNX file, or corrupt"),
    ):
        packed.write_bytes(content)
        with pytest.raises(ModelError, match=f"^{re.escape(str(packed))}: {says}"):
            import_network(packed)
    monkeypatch.setattr(onnx_file, "MAX_FILE_BYTES", 1000)
    packed.write_bytes(gzip.compress(bytes(100_000)))
    with pytest.raises(ModelError, match="more than 1000 bytes when unpacked"):
        import_network(packed)
