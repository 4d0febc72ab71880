"""Train `digits-ffnn`, which classifies 64 features of a handwritten digit (values 0..16) with one hidden layer.

`python -m trninfer.tools.digits.train_digits_ffnn` writes weights/digits-ffnn.safetensors. The seed is 0. The network
is trained on the first eleven forms of the UCI digits that scikit-learn ships (1,415 digits), which are enlarged,
distorted and reduced to 8x8 again. It is scored on the last three forms (382 digits, see `uci.py`). The division by 16
is folded into the first weights, so that the network reads features of 0 to 16.

`--validate`, for choosing settings, trains on the first eight forms, scores on forms 9 to 11 and writes nothing.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as F

from ...models.files import WEIGHTS_DIRECTORY, save_model
from ...models.inputs import FeatureInput
from ...models.layers import Dense, Softmax
from ...models.network import Network
from .scoring import accuracy_metadata, answer
from .training import Batch, Distortion, distort, module_for, seed_everything, tensors_of, train
from .uci import FORM_STARTS, Digits, load_split

HIDDEN = 256
STEPS = 6000
BATCH = 256
SCORED_ON = "UCI digits, held-out forms"

NETWORK = Network(
    "digits-ffnn",
    FeatureInput(64),
    (Dense("hidden", 64, HIDDEN, "relu"), Dense("output", HIDDEN, 10), Softmax("softmax")),
    tuple("0123456789"),
)


def batches(features: np.ndarray, labels: np.ndarray) -> Iterator[Batch]:
    """Yield batches of distorted digits with values 0..1 endlessly."""
    images = torch.from_numpy(features / 16).reshape(-1, 1, 8, 8)
    large = F.interpolate(images, size=(32, 32), mode="bicubic", align_corners=False).clamp(0, 1)
    targets = torch.from_numpy(labels).long()
    while True:
        indices = torch.randint(0, len(large), (BATCH,))
        x = distort(large[indices], Distortion())
        x = (x * (1 + 0.3 * (torch.rand(BATCH, 1, 1, 1) * 2 - 1))).clamp(0, 1)
        x = F.adaptive_avg_pool2d(x, 8) + 0.03 * torch.randn(BATCH, 1, 8, 8)
        yield x.clamp(0, 1).flatten(1), targets[indices]


def main() -> None:
    """Train, score with the golden model, and write the file."""
    parser = argparse.ArgumentParser(description="Train digits-ffnn.")
    parser.add_argument("--validate", action="store_true", help="hold out training forms instead, and write nothing")
    validate = parser.parse_args().validate
    training, held_out = load_split()
    if validate:
        cut = FORM_STARTS[8]
        held_out = Digits(training.features[cut:], training.labels[cut:])
        training = Digits(training.features[:cut], training.labels[:cut])
    seed_everything(0)
    module = module_for(NETWORK, dropout=0.2)
    module = train(module, lambda: batches(*training), STEPS, learning_rate=6e-3, weight_decay=1e-2)
    tensors = tensors_of(NETWORK, module)
    tensors["hidden.weight"] = tensors["hidden.weight"] / np.float32(16)
    correct = answer(NETWORK, tensors, *held_out).count_correct()
    accuracy = accuracy_metadata([(SCORED_ON, correct, len(held_out.labels))])
    if not validate:
        metadata = {
            "trained_on": "UCI handwritten digits (scikit-learn's copy), first 11 of 14 forms, distorted; seed 0",
            "accuracy": accuracy,
            "license": "Apache-2.0",
            "feature_range": "[0, 16]",
        }
        save_model(WEIGHTS_DIRECTORY / f"{NETWORK.name}.safetensors", NETWORK, tensors, metadata)


if __name__ == "__main__":
    main()
