"""Converts picture files to network inputs: opens them safely, and implements the "digit" preprocessing (for "photo",
see photo.py).

"digit" finds a single digit in an ordinary picture. It estimates the background in three ways (one colour, a smooth
surface, a local median; see ink.py), divides by it to remove uneven lighting, and keeps the estimate that best explains
the remaining ink, whether dark or light. It selects the most important blob together with its neighbouring pieces,
processes that part of the picture again at a higher resolution, and centres it in the network's image, with 1 for ink
and 0 for background. A picture with several similar blobs contains several digits or signs and is rejected.
"""

from __future__ import annotations

import io
import os
import stat
import warnings
from importlib import import_module
from typing import BinaryIO

import numpy as np
from PIL import Image, ImageFilter, ImageOps, UnidentifiedImageError, features

from .budget import Budget, OverBudget
from .cut_short import load
from .deep_pictures import bands, to_8_bits
from .errors import InputError as InputError  # re-exported for callers that open pictures
from .ink import Box, InkError, find_blob
from .inputs import ImageInput
from .photo import PhotoError, photo
from .plates import MIN_HEIGHT, find_plate
from .tiff_strips import silence_libtiff

MAX_PIXELS = 64_000_000
MAX_DECODED_BYTES = 900 << 20
DECODER_BYTES = {"AVIF": 12, "WEBP": 17}  # bytes per pixel, measured; other decoders need 4, plus a rotated copy
MAX_SIDE = 65_535  # limit of the JPEG format; decoders handle a row of millions of pixels badly
MAX_STREAM_BYTES = 256 << 20  # limit for streams without seek, such as pipes, which must be read completely
MIN_SIDE = 5
MAX_ASPECT = 64  # largest ratio of the longer to the shorter side; a narrower picture contains no digit

# Formats whose decoders do nothing but decode pixels. Some other formats that Pillow supports start programs (EPS) or
# are vector graphics.
FORMATS: tuple[str, ...] = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
if "avif" in features.modules and features.check("avif"):  # Pillow 11.3, if it was built with libavif
    FORMATS = ("AVIF", *FORMATS)
# Unless these readers are imported explicitly, Pillow imports the readers of all formats that it supports (about 40
# modules) as soon as a format other than its first five is needed.
for _format in {"AVIF": "Avif", "TIFF": "Tiff", "WEBP": "WebP"}.items():
    if _format[0] in FORMATS:
        import_module(f"PIL.{_format[1]}ImagePlugin")
silence_libtiff()

AVIF_BRANDS = (b"avif", b"avis")
HEIF_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")  # ISO 23008-12

_ORIENTATION = 0x0112  # EXIF tag; values of 5 and above exchange rows and columns

LOCATE_SIDE = 512  # longest side of the reduced picture in which the digit is located
DETAIL_SIDE = 96  # longer side of the digit, in pixels, when it is examined in detail
FILL = 0.75  # longer side of the digit as a fraction of the network's image


def open_image(source: str | os.PathLike[str] | BinaryIO) -> Image.Image:
    """Open and decode a picture (a path or a binary stream), rotated upright according to its EXIF data.

    The size in the header is checked against MAX_PIXELS and MAX_SIDE before anything is decoded. Raises InputError,
    without the file's name in the message, if the file is missing, not a regular file, not a picture, in an unsupported
    format, too large, truncated or corrupt.
    """
    try:
        if isinstance(source, (str, os.PathLike)):
            if not stat.S_ISREG(os.stat(source).st_mode):
                raise InputError("not a regular file")
            with open(source, "rb") as file:
                return _decode(file)
        if source.seekable():
            return _decode(source)
        data = source.read(MAX_STREAM_BYTES + 1)
        if len(data) > MAX_STREAM_BYTES:
            raise InputError(f"more than {MAX_STREAM_BYTES >> 20} MiB of data; pictures must be smaller")
        return _decode(io.BytesIO(data))
    except InputError:
        raise
    except (OSError, ValueError) as error:  # ValueError: an invalid file name
        raise InputError(f"cannot be read: {getattr(error, 'strerror', None) or error}") from None


def picture_size(source: str | bytes) -> tuple[int, int] | None:
    """Return the width and height of a picture (a path, or a file's content) in upright position.

    Only the header is read. Returns None if it cannot be opened as a picture or is too large.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(source if isinstance(source, str) else io.BytesIO(source), formats=FORMATS) as image:
                width, height = image.size
                if _size_problem(image) is not None:  # before `getexif`, which decodes the whole picture if it is a PNG
                    return None
                turned = image.getexif().get(_ORIENTATION) in (5, 6, 7, 8)
    except Exception:  # the reason is reported when the picture is decoded, as in `open_image`
        return None
    return (height, width) if turned else (width, height)


def decode_image(image: Image.Image) -> Image.Image:
    """Decode a picture that Pillow has opened, and return it.

    Raises InputError if it is too large, corrupt or truncated.
    """
    too_large = _size_problem(image)
    if too_large is not None:
        raise InputError(too_large)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about unusual metadata
            image.load()
    except MemoryError:
        raise
    except Exception:  # decoders raise many kinds of exceptions, all of which mean a corrupt file
        raise InputError("a corrupt or truncated picture") from None
    return image


def preprocess(image: Image.Image, spec: ImageInput) -> np.ndarray:
    """Convert an opened picture to the network's input: float32 [C, H, W], (value - mean) / std for each channel.

    Raises InputError if the picture contains nothing that the network can classify.
    """
    if spec.preprocess == "none":
        raise InputError("the network reads arrays (.npy, .npz), not pictures")
    if spec.preprocess == "photo":
        try:
            values = photo(image, spec)
        except PhotoError as error:
            raise InputError(str(error)) from None
    else:
        values = _digit(image, spec.height, spec.width)[None]
    if spec.channel_order == "bgr":
        values = values[::-1]
    mean = np.asarray(spec.mean, np.float32)[:, None, None]
    std = np.asarray(spec.std, np.float32)[:, None, None]
    return ((values - mean) / std).astype(np.float32)


def _decode(file: BinaryIO) -> Image.Image:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about sizes that are rejected below, and unusual metadata
            image = Image.open(file, formats=FORMATS)
            too_large = _size_problem(image)
            if too_large is None:
                if not load(image, file):
                    raise InputError("a corrupt or truncated picture")
                return _upright(image)
    except UnidentifiedImageError:
        raise InputError(_unknown_format(file)) from None
    except Image.DecompressionBombError:
        raise InputError(f"too large: at most {MAX_PIXELS // 1_000_000} megapixels are allowed") from None
    except (MemoryError, InputError):
        raise
    except OSError as error:
        if error.errno is not None:  # an error of the file system, not of the file's content
            raise
        raise InputError("a corrupt or truncated picture") from None
    except Exception:  # decoders raise many kinds of exceptions, all of which mean a corrupt file
        raise InputError("a corrupt or truncated picture") from None
    raise InputError(too_large)


def _size_problem(image: Image.Image) -> str | None:
    """Return the reason why a picture is too large, or None if it is not."""
    width, height = image.size
    if width * height <= MAX_PIXELS and max(width, height) <= MAX_SIDE:
        try:
            needed = width * height * DECODER_BYTES.get(image.format or "", 9)
            Budget(MAX_DECODED_BYTES).take(needed, f"decoding {width}x{height} pixels of {image.format}")
        except OverBudget as error:
            return f"too large: {error}"
        return None
    return (
        f"too large: {width}x{height} is {width * height / 1e6:.0f} megapixels; "
        f"at most {MAX_PIXELS // 1_000_000} are allowed, and sides of at most {MAX_SIDE:,}"
    )


def _unknown_format(file: BinaryIO) -> str:
    """Describe a file that Pillow cannot read, with advice for common formats."""
    file.seek(0)
    start = file.read(1024)
    if not start:
        return "an empty file"
    if start[4:8] == b"ftyp" and start[8:12] in (*AVIF_BRANDS, *HEIF_BRANDS):
        if start[8:12] not in AVIF_BRANDS:
            return "HEIC pictures are not supported; save the picture as JPEG or PNG"
        if "AVIF" not in FORMATS:
            return "AVIF pictures require Pillow 11.3 or newer; upgrade Pillow, or save the picture as JPEG or PNG"
        return "a corrupt or truncated picture"
    for mark, name in ((b"%PDF-", "a PDF file"), (b"<svg", "an SVG drawing"), (b"<html", "a web page")):
        if mark in start:
            return f"{name}, which is not supported; save the picture as PNG"
    return f"not a picture in a known format ({', '.join(FORMATS)})"


def _upright(image: Image.Image) -> Image.Image:
    """Return the picture rotated according to its EXIF data, or unchanged if the EXIF data is damaged."""
    try:
        return ImageOps.exif_transpose(image)
    except Exception:  # damaged EXIF data raises many kinds of exceptions, although the pixels are intact
        return image


def _digit(image: Image.Image, height: int, width: int) -> np.ndarray:
    """Extract the digit of a picture as ink, float32 [height, width], from 0 to 1."""
    if min(image.size) < MIN_SIDE or max(image.size) > MAX_ASPECT * min(image.size):
        problem = "small" if min(image.size) < MIN_SIDE else "narrow"
        raise InputError(f"no ink found: a picture of {image.width}x{image.height} pixels is too {problem}")
    try:
        ink, box = _look_closer(*_locate(_plain(image)))
    except InkError as error:
        raise InputError(f"no ink found: {error}") from None
    return centre_ink(ink, box, height, width)


def _in_8_bits(image: Image.Image) -> Image.Image:
    """Convert a picture with a palette, single bits, deep channels or a transparent colour to 8 bits per channel."""
    if image.mode in ("P", "PA"):
        return image.convert("RGBA" if "transparency" in image.info or image.mode == "PA" else "RGB")
    if image.mode == "1":
        return image.convert("L")
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        return _stretched(image)
    return image.convert("RGBA") if image.mode == "RGB" and "transparency" in image.info else image


def _stretched(image: Image.Image) -> Image.Image:
    """Map the range of a picture with deep channels to 0 to 255."""
    ranges = [(deep.min(), deep.max()) for deep in map(_finite, bands(image))]
    low, high = float(min(low for low, _ in ranges)), float(max(high for _, high in ranges))
    factor = 255 / (high - low) if high > low else 0.0
    return to_8_bits(image, lambda deep: (_finite(deep) - low) * factor)


def _on_contrast(rgba: Image.Image) -> Image.Image:
    """Composite a transparent picture onto black or white, whichever contrasts with it."""
    alpha = np.asarray(rgba.getchannel("A"), np.float32)
    luminance = np.asarray(rgba.convert("L"), np.float32)
    light = (luminance * alpha).sum() > 127.5 * alpha.sum()
    ground = "black" if light and alpha.mean() < 127.5 else "white"
    return Image.alpha_composite(Image.new("RGBA", rgba.size, ground), rgba)


def _plain(image: Image.Image) -> Image.Image:
    """Convert a picture to mode L or RGB, with its longer side between 64 and 2048 pixels.

    Transparent pictures are composited onto a contrasting background.
    """
    image = _in_8_bits(image)
    factor = -(-max(image.size) // 2048)
    if factor > 1:
        image = image.reduce(factor)
    if image.mode in ("LA", "La", "RGBA", "RGBa"):
        image = _on_contrast(image.convert("RGBA"))
    if image.mode not in ("L", "RGB"):
        image = image.convert("RGB")
    if max(image.size) < 64:
        factor = -(-64 // max(image.size))
        image = image.resize((image.width * factor, image.height * factor), Image.Resampling.BICUBIC)
    return image


def _finite(values: np.ndarray) -> np.ndarray:
    return np.nan_to_num(values, posinf=0.0, neginf=0.0)


def _pixels(image: Image.Image) -> np.ndarray:
    """Return a plain picture as float32 [H, W, channels] in 0..1."""
    return np.divide(_planes(image), np.float32(255), dtype=np.float32).transpose(1, 2, 0)


def _planes(image: Image.Image) -> np.ndarray:
    """Return a plain picture as uint8 [channels, H, W]."""
    values = np.asarray(image)
    return np.ascontiguousarray(np.atleast_3d(values).transpose(2, 0, 1))


def _blurred(image: Image.Image, radius: float) -> np.ndarray:
    """Blur a plain picture, and return it as uint8 [H, W, channels]."""
    return _planes(image.filter(ImageFilter.GaussianBlur(radius))).transpose(1, 2, 0)


def _locate(image: Image.Image, on_plate: bool = False) -> tuple[Image.Image, Box]:
    """Locate the digit; return a picture, and the digit's box in pixels of that picture.

    The picture is the original one, or the ground of the round plate that surrounds the digit.
    """
    scale = min(1.0, LOCATE_SIDE / max(image.size))
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    small = image.resize(size, Image.Resampling.BOX) if scale < 1 else image
    # If there are enough pixels, reduce the resolution to reduce noise.
    pixels = _blurred(small, 0.7) if min(size) >= 64 else _planes(small).transpose(1, 2, 0)
    blob = find_blob(pixels)
    x, y = image.width / size[0], image.height / size[1]
    box = Box(
        int(blob.box.left * x), int(blob.box.top * y), -int(-blob.box.right * x // 1), -int(-blob.box.bottom * y // 1)
    )
    plate = find_plate(pixels, blob)
    if plate is not None:
        ground = np.rint(plate._replace(box=box).ground(_pixels(image)) * 255).astype(np.uint8)
        return _locate(_plain(Image.fromarray(ground[:, :, 0] if image.mode == "L" else ground)), on_plate=True)
    # A small blob on a plate is more likely to be the mouth of a face than one of several digits.
    if blob.several and not (on_plate and blob.box.height < MIN_HEIGHT * size[1]):
        raise InputError("several digits or signs; this network reads one digit (trninfer detect finds several)")
    return image, box


def _look_closer(image: Image.Image, box: Box) -> tuple[np.ndarray, Box]:
    """Return the ink of the located part, with other blobs erased, and the digit's exact box within it."""
    side = max(box.width, box.height)
    margin = max(2.0, 0.35 * side)
    part = (
        max(0.0, box.left - margin),
        max(0.0, box.top - margin),
        min(float(image.width), box.right + margin),
        min(float(image.height), box.bottom + margin),
    )
    scale = DETAIL_SIDE / side
    size = (max(8, round((part[2] - part[0]) * scale)), max(8, round((part[3] - part[1]) * scale)))
    detail = image.resize(size, Image.Resampling.BICUBIC, box=part)
    x, y = size[0] / (part[2] - part[0]), size[1] / (part[3] - part[1])
    expected = Box(
        int((box.left - part[0]) * x),
        int((box.top - part[1]) * y),
        int((box.right - part[0]) * x),
        int((box.bottom - part[1]) * y),
    )
    blob = find_blob(_blurred(detail, 1.0), expected)
    # Soft edges are below the threshold but belong to the blob.
    surroundings = _widened(_widened(blob.mask, 2).T, 2).T
    full = np.quantile(blob.ink[blob.mask], 0.7)
    return np.where(surroundings, np.clip(blob.ink / full, 0, 1), 0).astype(np.float32), blob.box


def _widened(mask: np.ndarray, reach: int) -> np.ndarray:
    """Dilate a mask [lines, pixels] by `reach` lines in both directions."""
    wider = mask.copy()
    for step in range(1, reach + 1):
        wider[step:] |= mask[:-step]
        wider[:-step] |= mask[step:]
    return wider


def centre_ink(ink: np.ndarray, box: Box, height: int, width: int) -> np.ndarray:
    """Scale the box to a fraction FILL of the network's image, and move its centre of mass as close to the centre of
    the image as the box allows."""
    scale = max(box.width / (FILL * width), box.height / (FILL * height))
    rows, columns = np.indices(ink.shape)
    total = ink.sum()
    x = float((ink * columns).sum() / total) + 0.5
    y = float((ink * rows).sum() / total) + 0.5
    half_width, half_height = width * scale / 2, height * scale / 2
    x = min(max(x, box.right - half_width), box.left + half_width)
    y = min(max(y, box.bottom - half_height), box.top + half_height)
    border = int(max(half_width, half_height)) + 2
    padded = Image.fromarray(np.pad(ink, border))
    window = (
        x + border - half_width,
        y + border - half_height,
        x + border + half_width,
        y + border + half_height,
    )
    return np.clip(np.asarray(padded.resize((width, height), Image.Resampling.BILINEAR, box=window)), 0, 1)
