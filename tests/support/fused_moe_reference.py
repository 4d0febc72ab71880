"""A fused MoE block for one token in NumPy, and inputs for it."""

import ml_dtypes
import numpy as np

EXPERTS, CHOSEN, INNER = 12, 8, 192


def narrow(rng, *shape, scale=1.0):
    return (scale * rng.standard_normal(shape)).astype(ml_dtypes.bfloat16)


def token_and_router(features):
    rng = np.random.default_rng(features)
    return narrow(rng, 1, 1, features), narrow(rng, 1, features), narrow(rng, features, EXPERTS, scale=features**-0.5)


def reference(hidden, gamma, router, gate_up, down):
    """RMS norm, softmax over the router's logits, SwiGLU of the eight most likely experts, weighted by their share of
    the probability: [1, H] float32."""
    x = hidden[0].astype(np.float32)
    x = x / np.sqrt((x**2).mean() + 1e-6) * gamma.astype(np.float32)
    x = x.astype(ml_dtypes.bfloat16).astype(np.float32)
    logits = (x @ router.astype(np.float32))[0]
    probabilities = np.exp(logits - logits.max())
    chosen = np.argsort(-probabilities)[:CHOSEN]
    total = np.zeros((1, down.shape[2]), np.float32)
    for expert in chosen:
        gate, up = np.split(x @ gate_up[expert].astype(np.float32), 2, axis=1)
        inner = gate / (1 + np.exp(-gate)) * up
        total += probabilities[expert] / probabilities[chosen].sum() * (inner @ down[expert].astype(np.float32))
    return total


def close(found, expected):
    assert np.abs(found.astype(np.float32) - expected).max() < 0.04 * np.abs(expected).max()
