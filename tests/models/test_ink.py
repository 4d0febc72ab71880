"""Ink on uniform paper, under a lamp and in a shadow: its mask, its box, and pictures without ink."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trninfer.models import ink as module
from trninfer.models.ink import Box, InkError, find_blob

SIDE = 96
BOX = Box(30, 20, 62, 74)


def page(light: str = "even", paper: tuple[float, ...] = (0.9, 0.9, 0.9), side: int = SIDE) -> np.ndarray:
    """Return an empty page, float32 [side, side, 3]: evenly lit, lit by a lamp from the left, or half in a shadow."""
    across = np.linspace(0, 1, side, dtype=np.float32)[None, :, None]
    falloff = {"even": 1 + 0 * across, "lamp": 1 - 0.55 * across**2, "shadow": np.where(across < 0.6, 1, 0.55)}[light]
    noise = np.random.default_rng(0).normal(scale=0.004, size=(side, side, 3))
    return np.clip(np.asarray(paper) * falloff + noise, 0, 1).astype(np.float32)


def draw(pixels: np.ndarray, box: Box, pen: tuple[float, ...] = (0.1, 0.1, 0.1), thick: int = 6) -> np.ndarray:
    """Draw a rectangular 0 that fills the box, in the light of the page, and return its mask."""
    mask = np.zeros(pixels.shape[:2], bool)
    box.cut(mask)[:] = True
    Box(box.left + thick, box.top + thick, box.right - thick, box.bottom - thick).cut(mask)[:] = False
    light = pixels / pixels.max(axis=(0, 1))
    pixels[mask] = (light * np.asarray(pen, np.float32))[mask]
    return mask


def cross(pixels: np.ndarray, box: Box) -> None:
    """Draw a black plus sign."""
    middle = ((box.left + box.right) // 2, (box.top + box.bottom) // 2)
    pixels[box.top : box.bottom, middle[0] - 2 : middle[0] + 3] = 0.1
    pixels[middle[1] - 2 : middle[1] + 3, box.left : box.right] = 0.1


@pytest.mark.parametrize("light", ["even", "lamp", "shadow"])
@pytest.mark.parametrize(
    ("paper", "pen"),
    [
        ((0.9, 0.9, 0.9), (0.1, 0.1, 0.1)),
        ((0.1, 0.1, 0.15), (0.9, 0.9, 0.8)),
        ((0.2, 0.7, 0.2), (0.8, 0.2, 0.2)),
    ],
)
def test_the_mask_is_the_ink(light: str, paper: tuple, pen: tuple) -> None:
    """Dark on light, light on dark, and red on green of equal brightness."""
    pixels = page(light, paper)
    mask = draw(pixels, BOX, pen)
    blob = find_blob(pixels)
    assert (blob.mask & mask).sum() / (blob.mask | mask).sum() > 0.9
    assert all(abs(found - drawn) <= 1 for found, drawn in zip(blob.box, BOX))
    assert blob.quality > 0.35 and not blob.several
    assert blob.ink[mask].mean() > 5 * np.abs(blob.ink[~mask]).mean()


@pytest.mark.parametrize("side", [24, 33, 201])
@pytest.mark.parametrize("channels", [1, 3])
def test_pictures_of_other_sizes_and_of_one_channel(side: int, channels: int) -> None:
    pixels = page(side=side)
    box = Box(side // 4, side // 5, side * 5 // 8, side * 7 // 8)
    mask = draw(pixels, box, thick=max(2, side // 14))
    blob = find_blob(pixels[:, :, :channels])
    assert (blob.mask & mask).sum() / (blob.mask | mask).sum() > 0.85


@pytest.mark.parametrize("light", ["even", "lamp", "shadow"])
def test_bytes_are_read_as_shares_of_255(light: str) -> None:
    pixels = page(light)
    draw(pixels, BOX)
    levels = np.rint(pixels * 255).astype(np.uint8)
    read, expected = find_blob(levels), find_blob(levels / np.float32(255))
    assert read.box == expected.box and (read.mask == expected.mask).all()
    np.testing.assert_allclose(read.ink, expected.ink, atol=1e-5)


@given(
    height=st.integers(1, 140),
    width=st.integers(3, 60),
    noise=st.floats(0, 0.3),
    covered=st.sampled_from([0.0, 0.02, 0.5]),
    seed=st.integers(0, 99),
)
def test_the_threshold_is_that_of_full_sorts(height: int, width: int, noise: float, covered: float, seed: int) -> None:
    """The peak is compared with `numpy.quantile`; the noise is skipped only if it would change nothing."""
    rng = np.random.default_rng(seed)
    values = rng.normal(0.05, noise, (height, width)) + (rng.random((height, width)) < covered)
    values = values.astype(np.float32)
    share = min(0.01, 40 / values.size)
    peak = float(np.quantile(values, 1 - share))
    np.testing.assert_allclose(module._peak(values, share), peak, rtol=1e-5, atol=1e-6)
    deviation = module._noise(values)
    if abs(peak - module.MIN_CONTRAST) < 1e-4 or abs(peak - 5 * deviation) < 1e-4:
        return
    if peak < module.MIN_CONTRAST or peak < 5 * deviation:
        with pytest.raises(InkError):
            module._threshold(values, 1)
    else:
        expected = max(0.3 * peak, min(4 * deviation, 0.5 * peak))
        np.testing.assert_allclose(module._threshold(values, 1), expected, rtol=1e-5)


def test_pictures_without_ink() -> None:
    random = np.random.default_rng(1)
    blank, noisy = page(), random.uniform(0, 1, (SIDE, SIDE, 3)).astype(np.float32)
    specks = page()
    for y, x in random.integers(4, SIDE - 4, (12, 2)):
        specks[y : y + 3, x : x + 3] = 0.1
    for pixels, says in (
        (np.full((SIDE, SIDE, 3), 0.5, np.float32), "the picture is blank"),
        (blank, "the picture is blank"),
        (page("lamp"), "the picture is blank"),
        (noisy, "no ink can be distinguished from the noise"),
        (specks, "it contains only specks"),
    ):
        with pytest.raises(InkError, match=f"^{says}$"):
            find_blob(pixels)


def test_faint_ink_is_no_ink_below_a_share_of_the_light() -> None:
    for contrast, seen in ((0.05, False), (0.2, True)):
        pixels = page()
        draw(pixels, BOX, (0.9 * (1 - contrast),) * 3)
        if seen:
            assert find_blob(pixels).box.height >= BOX.height - 2
        else:
            with pytest.raises(InkError, match=r"^the picture is blank$"):
                find_blob(pixels)


def test_parts_of_a_sign_belong_together_and_signs_beside_it_are_several() -> None:
    pixels = page()
    cross(pixels, Box(36, 30, 60, 54))
    pixels[58:62, 38:58] = 0.1  # the lower bar of a plus-minus sign
    blob = find_blob(pixels)
    assert (blob.box.top, blob.box.bottom) == (30, 62) and not blob.several
    pair = page()
    for left in (12, 54):
        draw(pair, Box(left, 30, left + 26, 70))
    assert find_blob(pair).several


def test_an_expected_box_chooses_the_blob() -> None:
    pixels = page()
    large, small = Box(10, 20, 46, 78), Box(64, 40, 84, 66)
    draw(pixels, large)
    draw(pixels, small)
    assert find_blob(pixels).box.left == large.left
    assert find_blob(pixels, expected=small).box.left == small.left


@pytest.mark.parametrize("thing", ["frame", "line", "desk"])
def test_a_sign_is_preferred_to_more_of_what_is_none(thing: str) -> None:
    pixels = page()
    if thing == "frame":
        draw(pixels, Box(3, 3, SIDE - 3, SIDE - 3), thick=3)
    elif thing == "line":
        pixels[86:91, 4:92] = 0.1
    else:
        pixels[:, 84:] = 0.1  # along the picture's edge, including two corners
    cross(pixels, Box(30, 24, 58, 70))
    box = find_blob(pixels).box
    assert abs(box.left - 30) <= 1 and abs(box.bottom - 70) <= 1


def test_a_box() -> None:
    box = Box(1, 2, 4, 7)
    assert (box.width, box.height) == (3, 5)
    values = np.arange(80).reshape(8, 10)
    np.testing.assert_array_equal(box.cut(values), values[2:7, 1:4])
    box.cut(values)[0, 0] = -1  # a view
    assert values[2, 1] == -1
