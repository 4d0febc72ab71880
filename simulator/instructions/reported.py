"""Undocumented rules: kernels that run on chips follow them, or violations were reported to fail.

The simulator computes a kernel that breaks one and warns (`ReportedOnChipWarning`), because the compiler may refuse it
or the chip may compute something else. Sources, as of October 2026:

- Words of PSUM: public kernels for NeuronCore-v3 transpose an odd number of 16-bit rows in float32, because a write
  must be of whole words. nki-library pads where each transpose begins to a multiple of 4 bytes, and lets it end
  anywhere (core/subkernels/norm_tkg_utils.py, for `nl.tile_size.psum_min_align`).
- One column: the same public kernels make a [P, 1] tile as a view of a wider one, so that what the compiler places
  behind it stays aligned. The least certain of the rules: nki-library has 16-bit tiles and stationary operands of one
  column (experimental/conv/depthwise_conv1d.py).
- Sums side by side: of four sums accumulated in turn in one bank, all but the last to begin lost a term on
NeuronCore-v3,
  in a public report of October 2026. trainium_inferentia2_arch.rst has one accumulation group in a bank. nki-library
  accumulates sums in turn after it sets the bank to zero, and leaves `accumulate` out
  (core/attention/attention_bwd.py).
- Copies with a bias: `nisa.activation(op=nl.copy, bias=...)` did not add the bias on trn1 with neuronx-cc 2.23
  (aws-neuron-sdk issue 1296, open since March 2026). nki-library adds biases so on trn2 and trn3
  (core/utils/interleave_copy.py, core/moe/moe_tkg/selective_expert_mx_impl.py), and so do the kernels of this package,
  whose values `trninfer doctor --selftest` compares on the chip: they are not warned of there.
- Indirect transposes with `oob_mode.skip`: a group with some indices out of bounds aborted the DMA and left
  the device unusable on trn2 and trn3 with SDK 2.32 (aws-neuron-sdk issue 1390, open since September 2026).
- Rules of the back end's verifier, which refused what the front end had taken, in a public test of kernels for vLLM
  Neuron of October 2026: a 16-bit slot of PSUM that does not begin at a multiple of 4 bytes; a reshaped view of one
  partition, whose partition step is 0; a DMA transpose whose output rows are not a multiple of 32 bytes.
- Names: kernels of nki-library name each tensor of a launch differently, by layer and by turn of a loop.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..machine.chip import PSUM_BANK_BYTES
from ..machine.errors import ReportedOnChipWarning
from ..machine.instruction import Access
from ..machine.memory import PSUM_ALIGNMENT, Storage

if TYPE_CHECKING:
    from ..tensors.tensor import NkiTensor
    from .core import NeuronCore

_OWN_KERNELS = Path(__file__).resolve().parents[2] / "kernels"
HALF_WORD = PSUM_ALIGNMENT // 2
TRANSPOSED_ROW_BYTES = 32  # multiple for an output row of dma_transpose


def check_words(core: NeuronCore, op: str, dst: NkiTensor) -> None:
    """Warn of a 16-bit destination in PSUM that does not cover whole words."""
    if dst._dtype.itemsize == HALF_WORD and not _is_in_words(dst):
        core.warn(
            f"{op}: dst {dst.label}, strides {dst.strides}, ends within a word of PSUM; write whole words of "
            f"{PSUM_ALIGNMENT} bytes, an even number of columns (half a word is reported to be refused)",
            ReportedOnChipWarning,
        )


def _is_in_words(dst: NkiTensor) -> bool:
    """True if the elements of a partition form runs of whole words. The alignment of runs is checked elsewhere."""
    run = 1
    for extent, stride in zip(reversed(dst.shape[1:]), reversed(dst.strides[1:])):
        if extent == 1:
            continue
        if stride == run:
            run *= extent
        elif run * HALF_WORD % PSUM_ALIGNMENT or stride * HALF_WORD % PSUM_ALIGNMENT:
            return False
    return run * HALF_WORD % PSUM_ALIGNMENT == 0


def check_stationary(core: NeuronCore, stationary: NkiTensor, columns: int) -> None:
    """Warn of a 16-bit stationary operand of a single column."""
    if columns == 1 and stationary._dtype.itemsize == HALF_WORD:
        core.warn(
            f"nc_matmul: stationary {stationary.label} is one column of {stationary.dtype}; two are reported to be "
            "safer",
            ReportedOnChipWarning,
        )


def check_width(core: NeuronCore, storage: Storage) -> None:
    """Warn of a 16-bit tile of a single column that the compiler places."""
    if storage.dtype.itemsize == HALF_WORD and storage.row == 1:
        core.warn(
            f"ndarray {storage.label}: one column of {storage.dtype.name} takes half a word of a partition, and what "
            "is placed behind it may begin there; a view of one of two columns is reported to be safer",
            ReportedOnChipWarning,
        )


def check_copy(core: NeuronCore, instruction: str, op: str, bias: object) -> None:
    """Warn of a copy by an activation that adds a bias."""
    if op != "copy" or bias is None or (isinstance(bias, (int, float)) and bias == 0):
        return
    if core.target.generation > 2 and Path(core.line_of_kernel()[0]).is_relative_to(_OWN_KERNELS):
        return
    core.warn(
        f"{instruction}: op=nl.copy with a bias; the bias is reported not to be added on the chip (aws-neuron-sdk "
        "issue 1296, trn1). Compare values on the chip, or use nisa.tensor_scalar(op0=nl.add, operand0=bias)",
        ReportedOnChipWarning,
    )


def check_skipped_transpose(core: NeuronCore) -> None:
    """Warn of an indirect dma_transpose that skips indices out of bounds."""
    core.warn(
        "dma_transpose: oob_mode.skip with a vector of indices; indices out of bounds beside valid ones are reported "
        "to abort the DMA and to leave the device unusable (aws-neuron-sdk issue 1390, trn2 and trn3). Pad the indices "
        "with valid ones",
        ReportedOnChipWarning,
    )


def check_slot(core: NeuronCore, op: str, operand: str, tensor: NkiTensor) -> None:
    """Warn of a 16-bit operand in PSUM that begins within a word."""
    core.warn(
        f"{op}: {operand} {tensor.label} starts at byte {tensor.access.byte} of a partition of PSUM; 16-bit operands "
        f"begin at multiples of {PSUM_ALIGNMENT} (others are reported to be refused by the back end's verifier)",
        ReportedOnChipWarning,
    )


def check_reshape(tensor: NkiTensor, shape: tuple[int, ...]) -> None:
    """Warn of a reshaped view of one partition in SBUF or PSUM."""
    tensor.storage.core.warn(
        f"reshape of {tensor.label} to {list(shape)}: the partition step of a reshaped view of one partition is "
        "reported to be 0, which the back end's verifier refuses; use reshape_dim and flatten_dims, or allocate the "
        "shape that is needed",
        ReportedOnChipWarning,
    )


def check_transposed_rows(core: NeuronCore, dst: NkiTensor) -> None:
    """Warn of a DMA transpose whose output rows are not a multiple of TRANSPOSED_ROW_BYTES."""
    row = dst.row * dst._dtype.itemsize
    if row % TRANSPOSED_ROW_BYTES:
        core.warn(
            f"dma_transpose: dst {dst.label} has rows of {row} bytes; multiples of {TRANSPOSED_ROW_BYTES} are reported "
            "to be needed (the back end's verifier refuses others): allocate wider rows and take a view",
            ReportedOnChipWarning,
        )


def check_name(core: NeuronCore, name: str) -> None:
    """Warn of a name that another tensor of the launch has. A tensor made in a device loop counts once."""
    if name in core.named and not core.looping:
        core.warn(
            f"ndarray {name}: another tensor of this launch has that name; give each its own, by layer and by turn of "
            "the loop (repeated names are reported to be refused)",
            ReportedOnChipWarning,
        )
    core.named.add(name)


class SumsInBanks:
    """The sums of matmuls in the PSUM banks of one tensor, or of all tensors at explicit addresses."""

    __slots__ = ("_banks",)

    def __init__(self) -> None:
        # growing sums, and those interrupted by the start of another
        self._banks: dict[int, tuple[set[Access], set[Access]]] = {}

    def note(self, here: Access, adds: bool) -> bool:
        """Record a matmul that begins a sum or adds to one. True if another sum began in its bank in between."""
        growing, left = self._banks.setdefault(here.byte // PSUM_BANK_BYTES, (set(), set()))
        if adds:
            lost = [known for known in left if known.overlaps(here)]
            left.difference_update(lost)
            growing.add(here)
            return bool(lost)
        left.update([known for known in growing if known.row < here.row_end and here.row < known.row_end])
        growing.difference_update(left)
        left.difference_update([known for known in left if known.overlaps(here)])
        growing.add(here)
        return False


def check_sums(core: NeuronCore, dst: NkiTensor, adds: bool) -> None:
    """Warn of a sum continued after another one began in its bank of PSUM, if `accumulate` is given."""
    storage = dst.storage
    holder = storage if storage.arena is None else storage.arena
    if holder.sums is None:
        holder.sums = SumsInBanks()
    if holder.sums.note(dst._access or dst.access, adds):
        core.warn(
            f"nc_matmul: dst {dst.label} goes on with a sum after another one began in the same bank of PSUM; finish "
            "one before the next, or give each a bank of its own (terms are reported lost on trn2)",
            ReportedOnChipWarning,
        )
