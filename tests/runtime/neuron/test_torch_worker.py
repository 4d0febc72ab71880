"""The process on the NeuronCore with the real PyTorch, whose device `neuron` is a stand-in in Python.

Parts simulated in torch_site are PyTorch's own here: tensors from buffers, copies to and from the device, views,
dtypes.
"""

from __future__ import annotations

import os

import ml_dtypes
import numpy as np
import pytest
from neuron_stand_ins import forget_variables, use_packages
from trninfer import kernels
from trninfer.models import load_model
from trninfer.models.golden import run_network
from trninfer.runtime.launch_options import LaunchOptions
from trninfer.runtime.neuron import environment
from trninfer.runtime.neuron.compiled import RunOptions
from trninfer.runtime.neuron.system import prepare_environment
from trninfer.runtime.neuron.torch_backend import TorchBackend, open_torch
from trninfer.runtime.session import Session

pytestmark = pytest.mark.slow

pytest.importorskip("torch")
registration = pytest.importorskip("torch.utils.backend_registration")
if not hasattr(registration, "_setup_privateuseone_for_python_backend"):
    pytest.skip("needs PyTorch 2.10 or newer", allow_module_level=True)


@pytest.fixture(scope="module")
def backend() -> TorchBackend:
    with pytest.MonkeyPatch.context() as patch:
        forget_variables(patch)
        use_packages(patch, environment.TORCHNEURON, "nki_site", "pytorch_site")
        prepare_environment("trn2", True, os.environ)
        opened = open_torch("trn2", RunOptions(warmup=1, iterations=1))
        yield opened
        opened.close()


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_a_kernel_in_each_dtype(backend, dtype) -> None:
    a = np.random.default_rng(1).standard_normal((5, 7)).astype(dtype)
    result = backend.launch(kernels.transpose, a).outputs[0]
    assert result.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(np.asarray(result), a.T)
    viewed = backend.launch(kernels.transpose, result.reshape((5, 7))).outputs[0]
    np.testing.assert_array_equal(np.asarray(viewed), a.T.reshape(5, 7).T)
    written = backend.launch(kernels.transpose, a + dtype(1)).outputs[0]  # into the first tensor
    np.testing.assert_array_equal(np.asarray(written), (a + dtype(1)).T)


def test_classes_are_integers(backend) -> None:
    scores = np.random.default_rng(2).standard_normal((4, 10)).astype(np.float32)
    classes = backend.launch(kernels.argmax, scores).outputs[0]
    assert classes.dtype == np.int32 and np.asarray(classes).tolist() == scores.argmax(axis=1).tolist()


@pytest.mark.parametrize("launches", ["network", "layer"])
def test_a_network(backend, launches) -> None:
    model = load_model("digits-ffnn")
    x = np.random.default_rng(5).uniform(0, 16, (3, 64)).astype(np.float32)
    result = Session(model, backend, batch_size=2, launches=LaunchOptions(launches)).run(x)
    golden = run_network(model.network, model.tensors, x).probabilities
    np.testing.assert_allclose(result.probabilities, golden, atol=1e-5)
