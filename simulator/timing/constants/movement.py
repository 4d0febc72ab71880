"""Launch, control, DMA and HBM: the costs of moving data, for each target."""

from __future__ import annotations

from .entry import Row, documented, everywhere, fitted, measured, only_trn1, same_on_trn3, scaled

# name: (trn1, trn2, trn3)
MOVEMENT: dict[str, Row] = {
    # Launch: the time from the start of the measurement to the kernel's first trigger, and from the kernel's last write
    # to the end of the measurement.
    "launch_ns": same_on_trn3(
        fitted(15_500, "ns", "a launch as a benchmark counts it", "k16", "k17", "k18", "k19"),
        fitted(10_200, "ns", "a launch as a benchmark counts it", "k04"),
    ),
    "launch_before_ns": same_on_trn3(
        fitted(15_000, "ns", "a profile's total_time before the first instruction of the kernel", "k25", "k26"),
        measured(13_330, "ns", "a profile's total_time before the first instruction of the kernel, 41 profiles"),
    ),
    "launch_after_ns": same_on_trn3(
        scaled(1_750, "ns", "trn2's"),
        measured(1_750, "ns", "a profile's total_time after the last instruction of the kernel, 41 profiles"),
    ),
    "lookahead": same_on_trn3(
        scaled(32, "instructions", "trn2's"),
        fitted(
            32,
            "instructions",
            "of an engine that the compiler's order may run ahead of the first that waits",
            *(f"o{row}" for row in range(12, 18)),
        ),
    ),
    "tile_renaming": everywhere(
        documented(
            0,
            "",
            "1: a tile in SBUF that is written anew gets another buffer, as in NKI's first beta; by now only where a "
            "kernel asks for it (nki.compiler.CompileConfig, non_ssa_legalization)",
        )
    ),
    "loads_by_use": same_on_trn3(
        scaled(1, "", "trn2's: it is the compiler that orders them"),
        fitted(1, "", "1: loads come in the order in which they are used, 0: in the kernel's", "o24", "o44", "o45"),
    ),
    # Control: the delay from a result to the start of the engine that waits for it, for each waiting engine.
    "hop_tensor_ns": same_on_trn3(
        measured(30, "ns", "semaphore from engine to engine, PG fig. 16"),
        measured(52, "ns", "semaphore to the Tensor Engine: hops.csv, 51 to 53"),
    ),
    "hop_vector_ns": same_on_trn3(
        measured(30, "ns", "semaphore from engine to engine, PG fig. 16"),
        measured(36, "ns", "semaphore to the Vector Engine: hops.csv, 32 (Scalar) to 37.5 (Tensor)"),
    ),
    "hop_scalar_ns": same_on_trn3(
        measured(30, "ns", "semaphore from engine to engine, PG fig. 16"),
        measured(35.5, "ns", "semaphore to the Scalar Engine: hops.csv, 34.6 (Vector) to 36.7 (Tensor)"),
    ),
    "hop_gpsimd_ns": same_on_trn3(
        measured(30, "ns", "semaphore from engine to engine, PG fig. 16"),
        measured(35, "ns", "semaphore to the GpSimd Engine: hops.csv, 33 to 35"),
    ),
    "hop_dma_ns": same_on_trn3(
        measured(30, "ns", "semaphore from engine to engine, PG fig. 16"),
        measured(28, "ns", "semaphore to the engine that triggers a DMA: hops.csv, 26 to 31"),
    ),
    "landed_tensor_ns": same_on_trn3(
        scaled(35, "ns", "trn2's"), measured(35, "ns", "semaphore of a DMA to the Tensor Engine: hops.csv, 28 to 42")
    ),
    "landed_ns": same_on_trn3(
        scaled(23, "ns", "trn2's"), measured(23, "ns", "semaphore of a DMA to any other engine: hops.csv, 22.5 to 24")
    ),
    "landed_dma_ns": same_on_trn3(
        scaled(17, "ns", "trn2's"),
        measured(17, "ns", "semaphore of a DMA to the trigger of another: hops.csv"),
    ),
    # DMA: generation of descriptors
    "descriptor_choice": same_on_trn3(
        documented(0, "", "NeuronCore-v2 has no hardware DGE (A2): prepared ones"),
        measured(
            1,
            "",
            "1: as packet counts of profiles show two compilers choose (transfers.py), 0: hardware but for columns",
            *("o02", "o06", "o07", "o16", "o18", "o19"),
        ),
    ),
    "trigger_ns": same_on_trn3(
        fitted(112, "ns", "between two triggers of prepared descriptors", "k13", "k14"),
        measured(93, "ns", "between two triggers of prepared descriptors on Sync, 1,845 of them; GpSimd 82"),
    ),
    "dge_ns": same_on_trn3(
        documented(0, "ns", "NeuronCore-v2 has no hardware DGE (A2)"),
        fitted(482, "ns", "hardware descriptor generation of one DMA on one ring, beside what follows", "k01"),
    ),
    "dge_ring_ns": same_on_trn3(
        documented(0, "ns/ring", "NeuronCore-v2 has no hardware DGE (A2)"),
        measured(
            3.5,
            "ns/ring",
            "generation for each DMA engine that takes part: issue interval 583 at 128 rows, less dge_ns",
        ),
    ),
    "dge_descriptor_ns": same_on_trn3(
        documented(0, "ns/descriptor", "NeuronCore-v2 has no hardware DGE (A2)"),
        measured(0.37, "ns/descriptor", "generation, 521 ns for 128 and 568 for 256 descriptors (dma-latencies.csv)"),
    ),
    "swdge_ns": same_on_trn3(
        scaled(582, "ns", "trn2's"),
        measured(582, "ns", "between DMAs whose descriptors GpSimd makes: 576 to 582 ns (dma-latencies.csv)"),
    ),
    "swdge_lead_ns": same_on_trn3(
        scaled(576, "ns", "trn2's"),
        measured(
            576,
            "ns",
            "before that, beside GpSimd's other work: from a result to the trigger of the DMA that waits for it 1,193 "
            "ns (hops.csv), of which 35 are the semaphore and 582 the interval between two DMAs",
        ),
    ),
    "swdge_descriptor_ns": (
        scaled(0, "ns/descriptor", "trn3's"),
        scaled(0, "ns/descriptor", "trn3's; packet counts of o02 to o11 and o27 are of DMAs of 64 to 128 rows"),
        measured(
            0, "ns/descriptor", "beside that: 40 DMAs of 64 to 2,048 rows keep GpSimd busy for about 1 us each", "o38"
        ),
    ),
    "swdge_element_ns": same_on_trn3(
        scaled(12.7, "ns", "trn2's"),
        measured(
            12.7,
            "ns",
            "of an engine for each piece of a store by GpSimd's descriptors, beside its bytes: 256 B every 22.4, "
            "1,504 of them",
        ),
    ),
    "swdge_gathered": same_on_trn3(
        scaled(512, "B", "trn2's"),
        measured(
            512,
            "B",
            "pieces of a store from which on it gathers them: 512 B in elements of 4,096 in six profiles, 256 B in two "
            "of four",
        ),
    ),
    "address_load_ns": same_on_trn3(
        scaled(290, "ns", "trn2's"), measured(290, "ns", "GpSimd reads an address from SBUF (value_load, 912 of them)")
    ),
    "address_ns": same_on_trn3(
        scaled(365, "ns", "trn2's"),
        measured(
            365,
            "ns",
            "and works it out in four register operations of 78 ns, after a trigger of 32 ns that waits until the "
            "descriptors of the last are written, 21 ns longer: each of 912 dynamic DMAs",
        ),
    ),
    # DMA: latencies
    "load_first_byte_ns": same_on_trn3(
        scaled(856, "ns", "trn2's static DMA; A1 gives about 1,300 with the semaphore"),
        measured(766, "ns", "generated descriptors to the first byte of a load: 757 (GpSimd) to 771 (Sync)"),
    ),
    "store_first_byte_ns": same_on_trn3(
        scaled(756, "ns", "trn2's static DMA"),
        measured(633, "ns", "generated descriptors to the first byte of a store: 633 (GpSimd) to 666 (Scalar)"),
    ),
    "load_first_byte_static_ns": same_on_trn3(
        scaled(856, "ns", "trn2's; A1 gives about 1,300 with the semaphore"),
        measured(856, "ns", "trigger of prepared descriptors to the first byte of a load (34 rings)"),
    ),
    "store_first_byte_static_ns": same_on_trn3(
        scaled(756, "ns", "trn2's"),
        measured(756, "ns", "trigger of prepared descriptors to the first byte of a store (794 rings)"),
    ),
    "ring_static_ns": same_on_trn3(
        scaled(14, "ns", "trn2's"),
        measured(
            14,
            "ns",
            "later on each further engine, prepared descriptors: first read to last read 186 to 240 ns longer than an "
            "engine is busy, in 15 of 30 stores, the others under load (dma-transfers.csv)",
        ),
    ),
    "ring_hardware_ns": same_on_trn3(
        scaled(15.8, "ns", "trn2's"),
        measured(15.8, "ns", "the same, descriptors by hardware: 235 to 299 ns longer (loads of 128 rows of 512 B)"),
    ),
    "ring_software_ns": same_on_trn3(
        scaled(26.5, "ns", "trn2's"),
        measured(26.5, "ns", "the same, descriptors by GpSimd: 256 to 420 ns longer (10 stores)"),
    ),
    "load_landing_ns": same_on_trn3(
        scaled(335, "ns", "trn2's"),
        measured(335, "ns", "last data of a load to its semaphore: generated p50 335, static p10 325"),
    ),
    "store_landing_ns": same_on_trn3(
        scaled(355, "ns", "trn2's"),
        measured(355, "ns", "last data of a store to its semaphore, isolated; static p10 369"),
    ),
    "dma_peak": (
        documented(27.2, "B/ns", "of one engine, A1"),
        documented(27.2, "B/ns", "of one engine, DO; rows i34 to i37 agree"),
        documented(38.4, "B/ns", "of one engine, DO"),
    ),
    "dma_sustained": (
        documented(272, "B/ns", "of the 16 engines together, BW"),
        documented(368, "B/ns", "of the 16 engines together, BW"),
        documented(528, "B/ns", "of the 16 engines together, BW"),
    ),
    "descriptor_ns": same_on_trn3(
        scaled(4.7, "ns", "trn2's"),
        measured(4.7, "ns", "beside the bytes of an element, back to back: 256 B every 14.1, 4,096 B every 155.3"),
    ),
    "semaphore_ns": same_on_trn3(
        scaled(5.9, "ns", "trn2's"),
        measured(5.9, "ns", "the write of the semaphore that ends a DMA on each of its engines (dma-elements.csv)"),
    ),
    "small_element_ns": same_on_trn3(
        scaled(9.4, "ns", "trn2's"),
        measured(
            9.4,
            "ns",
            "an element at least: its read (36,242 of 4 B), not overlapped; as in these rows; and of a "
            "channel of HBM: 128 of 4 or 8 B in 1 KiB take 1,213 ns on 16 engines (dma-transfers.csv)",
            "o12",
            "o16",
        ),
    ),
    "hbm_channels": (
        documented(16, "channels", "of a stack of HBM2e: 8 of two pseudo channels each (JEDEC JESD235)"),
        documented(32, "channels", "of a stack of HBM3: 16 of two pseudo channels each (JEDEC JESD238)"),
        documented(32, "channels", "of a stack of HBM3e: 16 of two pseudo channels each (JEDEC JESD238)"),
    ),
    "hbm_interleave": same_on_trn3(
        scaled(1024, "B", "trn2's"),
        measured(
            1024,
            "B",
            "neighbours in one channel, at least: 128 of 8 B are read as slowly as of 4 B, 128 of 256 B are not",
        ),
    ),
    "least_element": same_on_trn3(
        scaled(32, "B", "trn2's"),
        measured(32, "B", "that an element of an unrolled access takes: 64 of 2 B or 4 B every 77.6 ns"),
    ),
    "packet": same_on_trn3(
        scaled(4096, "B", "trn2's"),
        measured(
            4096,
            "B",
            "that prepared descriptors and GpSimd's gather: 8 rows of 256 B every 80 ns, 8 of 512 every 155; "
            "4 of 1,024 as the packet counts of o07 and o11 have it",
            "o07",
            "o11",
        ),
    ),
    "partial_write_ns": (
        fitted(
            45,
            "ns",
            "a write narrower than 64 B that shares its 64 B of HBM with the next: a row cycle of DRAM",
            "k12",
        ),
        scaled(0, "ns", "no row of trn2 shows trn1's 45: left out"),
        scaled(0, "ns", "trn2's"),
    ),
    "partial_write": (
        fitted(64, "B", "of HBM that narrower writes share: read, changed and written back one after the other", "k12"),
        scaled(64, "B", "trn1's"),
        scaled(64, "B", "trn1's"),
    ),
    # Two cores
    "hbm_shared_efficiency": (
        scaled(0.75, "of the rate", "trn2's; not used"),
        fitted(
            0.75,
            "of the rate",
            "of a stack of HBM that two cores get when both load: 268 B/ns each",
            *(f"o{row}" for row in range(27, 34)),
        ),
        scaled(0.75, "of the rate", "trn2's"),
    ),
    "gpsimd_dma_rate": (
        scaled(153, "B/ns", "trn2's; not used"),
        documented(153, "B/ns", "each way, of the DMA engines of GpSimd's processors, beside the main ones (A2)"),
        scaled(153, "B/ns", "trn2's"),
    ),
    "barrier_ns": everywhere(
        scaled(
            355,
            "ns",
            "until both cores know that the other is there: nobody has published it; a DMA's tail on trn2, which also "
            "ends in a semaphore that another unit writes",
        )
    ),
    "dma_compute_passes": (
        documented(2, "passes", "reading, adding and writing take two passes before NeuronCore-v4 (A3)"),
        documented(2, "passes", "reading, adding and writing take two passes before NeuronCore-v4 (A3)"),
        documented(1, "passes", "reading, adding and writing at the full rate (A3)"),
    ),
    "dma_transpose_hbm": everywhere(documented(0.9, "of the rate", "HBM to SBUF at most, A2")),
    "dma_transpose_sbuf": everywhere(documented(0.5, "of the rate", "SBUF to SBUF at most, A2")),
    # HBM
    "pitch": only_trn1(fitted(4096, "B", "whose multiples apart rows meet in few channels", "k30", "k31", "k32")),
    "pitched_rate": only_trn1(
        fitted(105, "B/ns", "of such rows, all engines; nothing but one tutorial shows it", "k30", "k31", "k32")
    ),
    "hbm_stack_rate": (
        documented(410, "B/ns", "of the stack that a tensor lies in: 820 GB/s over 2, A1"),
        measured(716, "B/ns", "of the stack that a tensor lies in, profiler metadata"),
        documented(1175, "B/ns", "of the stack that a tensor lies in: 4.7 TB/s over 4, A3"),
    ),
}
