"""The tuned versions of attention decode against NumPy, each as it was measured but smaller."""

import warnings

import ml_dtypes
import numpy as np
import pytest
from trninfer import simulator
from trninfer.benchmarks.kernels.attention_tuned_decode import attention_tuned_decode
from trninfer.benchmarks.other_launches import PARAMETERS

D = 128
ROWS = [f"o{number}" for number in range(20, 27)]


def narrow(rng, *shape, scale=1.0):
    return (scale * rng.standard_normal(shape)).astype(ml_dtypes.bfloat16)


def wide(array):
    return array.astype(np.float32)


def normal(x, weight):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * weight


def rotate(x, cos, sin):
    first, second = np.split(x, 2, axis=-1)
    return x * cos + np.concatenate([-second, first], axis=-1) * sin


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("position", [1, 130, 255])
def test_attention_tuned_decode(row, position):
    version = PARAMETERS[row]["version"]
    rng = np.random.default_rng(position)
    features, heads, length = 512, 2, 256
    hidden = narrow(rng, 1, 1, features)
    wq, wk, wv = (narrow(rng, count * D, features, scale=features**-0.5) for count in (heads, 1, 1))
    wo = narrow(rng, heads * D, features, scale=features**-0.5)
    norms = [narrow(rng, D), narrow(rng, D)]
    keys, values = narrow(rng, 1, 1, length, D), narrow(rng, 1, 1, length, D)
    angle = rng.uniform(0, 6, (1, D))
    cos, sin = (part.astype(ml_dtypes.bfloat16) for part in (np.cos(angle), np.sin(angle)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the measured kernels zero PSUM first
        arrays = (hidden, wq, wk, wv, wo, *norms, keys, values, cos, sin, np.array([[position]], np.int32))
        outputs = simulator.run(attention_tuned_decode, *arrays, version=version, target="trn2").outputs

    def projected(weights):  # rows of features within their tile, columns of (tile, output)
        rows = wide(weights).reshape(-1, D, features // D, D)
        return np.einsum("hptm,tp->hm", rows, wide(hidden).reshape(-1, D))

    queries = rotate(normal(projected(wq), wide(norms[0])), wide(cos), wide(sin))
    key = rotate(normal(projected(wk), wide(norms[1])), wide(cos), wide(sin))
    value = projected(wv)
    cached = length if not version.masked and not version.one_pass else position + (not version.shifted)
    all_keys = np.concatenate([wide(keys[0, 0, :cached]), key])
    all_values = np.concatenate([wide(values[0, 0, :cached]), value])
    scores = queries @ all_keys.T * D**-0.5
    exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
    attended = exponentials @ all_values / exponentials.sum(axis=1, keepdims=True)
    expected = [attended.reshape(1, 1, -1) @ wide(wo), key, value][: len(outputs)]
    assert len(outputs) == (3 if version.masked else 1)
    for found, right in zip(outputs, expected):
        assert np.abs(wide(found) - right).max() < 0.04 * np.abs(right).max()
