"""Tensors of an ONNX file, stored inside it or in external files."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_chain import Chain
from trninfer.models import ModelError
from trninfer.models.importing import import_network
from trninfer.models.importing.onnx_tensors import MAX_RANK, TensorReader, UnknownTypeError


def save_external(folder: Path, location: str = "weights.bin") -> Path:
    """Save a dense layer whose weight is in an external file."""
    chain = Chain(6)
    chain.gemm(6, 4)
    model = chain.model()
    folder.mkdir(exist_ok=True)
    raw = np.random.default_rng(3).standard_normal((4, 6), np.float32).tobytes()
    weight = model.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", "8"), ("length", str(len(raw)))):
        entry = weight.external_data.add()
        entry.key, entry.value = key, value
    (folder / "weights.bin").write_bytes(b"12345678" + raw)
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    return folder / "m.onnx"


def test_weights_in_a_file_beside_the_model(tmp_path: Path) -> None:
    imported = import_network(save_external(tmp_path))
    assert imported.comparison.skipped == "" and imported.comparison.passed
    (tmp_path / "weights.bin").write_bytes(b"short")
    with pytest.raises(ModelError, match=r"'weights.bin' is too short"):
        import_network(tmp_path / "m.onnx")


@pytest.mark.parametrize("location", ["../weights.bin", "/etc/passwd", "", "nowhere.bin", ".", "a\0b"])
def test_weights_are_read_from_nowhere_else(location: str, tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(bytes(1000))
    with pytest.raises(ModelError, match=r"not a file in the model's folder|cannot be read"):
        import_network(save_external(tmp_path / "model", location))


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    path = save_external(tmp_path / "model")
    (tmp_path / "model" / "weights.bin").rename(tmp_path / "secret.bin")
    (tmp_path / "model" / "weights.bin").symlink_to(tmp_path / "secret.bin")
    with pytest.raises(ModelError, match="not a file in the model's folder"):
        import_network(path)


def test_a_tensor_that_claims_more_than_it_has(tmp_path: Path) -> None:
    chain = Chain(6)
    chain.gemm(6, 4)
    path = tmp_path / "m.onnx"
    for dims, says in (
        ([1 << 20, 1 << 20], "too many numbers"),
        ([1 << 10, 1 << 10], "its number of values does not match its shape"),
        ([-1, 6], "its shape .* is not valid"),
        ([1] * 9, "its shape .* is not valid"),
    ):
        model = chain.model()
        model.graph.initializer[0].dims[:] = dims
        path.write_bytes(model.SerializeToString())
        with pytest.raises(ModelError, match=says):
            import_network(path)
    model = chain.model()
    model.graph.initializer[0].data_type = TensorProto.STRING
    path.write_bytes(model.SerializeToString())
    with pytest.raises(
        ModelError, match=r"reads .weight0., which is not the output of any node, or has an unsupported type"
    ):
        import_network(path)


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_other_float_types(dtype: type, tmp_path: Path) -> None:
    chain = Chain(6)
    chain.inputs = [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), [1, 6])]
    weight = np.random.default_rng(1).standard_normal((6, 4)).astype(dtype)
    chain.weights.append(numpy_helper.from_array(weight, "w"))
    chain.add("MatMul", "w")
    model = chain.model()
    model.graph.output[0].type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    imported = import_network(path)
    np.testing.assert_array_equal(imported.tensors["dense1.weight"], weight.astype(np.float32))
    assert imported.comparison.passed and imported.comparison.skipped == ""


TYPES = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "?", ml_dtypes.bfloat16]


@pytest.mark.parametrize("dtype", list(map(np.dtype, TYPES)), ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("external", [False, True])
def test_values_of_every_type_and_shape(dtype: np.dtype, external: bool, tmp_path: Path) -> None:
    reader = TensorReader(tmp_path)
    for shape in ((), (0, 3), (2, 1, 3), (1,) * MAX_RANK):
        values = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
        tensor = numpy_helper.from_array(values, "t")
        if external:
            (tmp_path / "raw.bin").write_bytes(b"12345" + values.tobytes())
            tensor = place(tensor, location="raw.bin", offset="5")
        made = reader.read(tensor)
        assert made.dtype == dtype and made.shape == shape
        np.testing.assert_array_equal(made, values)


def place(tensor: TensorProto, **where: str) -> TensorProto:
    """Return the tensor with its values in an external file."""
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in where.items():
        tensor.external_data.add(key=key, value=value)
    return tensor


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ({"offset": "-1"}, "its offset or length in 'raw.bin' is not a number"),
        ({"offset": "1e3"}, "its offset or length in 'raw.bin' is not a number"),
        ({"offset": "\u0663"}, "its offset or length in 'raw.bin' is not a number"),  # a digit, but not ASCII
        ({"length": "9" * 20}, "its offset or length in 'raw.bin' is not a number"),
        ({"length": "20"}, r"20 bytes do not match its shape \[2, 3\]"),
        ({"offset": "1"}, "'raw.bin' is too short for this tensor"),
        ({"location": "sub/../../raw.bin"}, "which is not a file in the model's folder"),
    ],
)
def test_places_in_files_that_cannot_be(where: dict[str, str], says: str, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    for folder in (tmp_path, tmp_path / "model"):
        (folder / "raw.bin").write_bytes(bytes(24))
    tensor = place(numpy_helper.from_array(np.zeros((2, 3), np.float32), "t"), **{"location": "raw.bin", **where})
    with pytest.raises(ModelError, match=f"^tensor 't': .*{says}"):
        TensorReader(tmp_path / "model").read(tensor)


def test_numbers_are_bounded_in_all_tensors_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trninfer.models.importing.onnx_tensors.MAX_PARAMETERS", 10)
    reader, six = TensorReader(tmp_path), numpy_helper.from_array(np.zeros(6), "t")
    reader.read(six)
    with pytest.raises(
        ModelError, match=r"^tensor 't': too many numbers; all tensors together may contain at most 10$"
    ):
        reader.read(six)


@pytest.mark.parametrize(
    ("number", "told"), [(TensorProto.STRING, "STRING"), (TensorProto.COMPLEX64, "COMPLEX64"), (99, "99")]
)
def test_types_that_are_not_read(number: int, told: str, tmp_path: Path) -> None:
    tensor = TensorProto(name="t", dims=[1], data_type=number)
    with pytest.raises(
        UnknownTypeError, match=rf"^tensor 't': type {told} is not supported; floats and integers of 8 to"
    ):
        TensorReader(tmp_path).read(tensor)
