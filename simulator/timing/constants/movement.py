"""Launch, control, DMA and HBM: the costs of moving data, for each target."""

from __future__ import annotations

from .entry import Row, as_on_trn2, documented, everywhere, fitted, measured, only_trn1, same_on_trn3, scaled

# name: (trn1, trn2, trn3)
MOVEMENT: dict[str, Row] = {
    # Launch: the time from the start of the measurement to the kernel's first trigger, and from the kernel's last write
    # to the end of the measurement.
    "launch_ns": same_on_trn3(
        fitted(15_500, "ns", "launch overhead, as counted in a benchmark", "k16", "k17", "k18", "k19"),
        fitted(10_200, "ns", "launch overhead, as counted in a benchmark", "k04"),
    ),
    "launch_before_ns": same_on_trn3(
        fitted(15_000, "ns", "part of a profile's total_time before the kernel's first instruction", "k25", "k26"),
        measured(13_330, "ns", "part of a profile's total_time before the kernel's first instruction (41 profiles)"),
    ),
    "launch_after_ns": as_on_trn2(
        measured(1_750, "ns", "part of a profile's total_time after the kernel's last instruction (41 profiles)")
    ),
    "lookahead": as_on_trn2(
        fitted(
            32,
            "instructions",
            "number of instructions, from the first waiting one of an engine, among which the compiler reorders",
            *(f"o{row}" for row in range(12, 18)),
        )
    ),
    "tile_renaming": everywhere(
        documented(
            0,
            "",
            "1: a tile in SBUF that is rewritten gets another buffer, as in NKI's first beta; now only if a kernel "
            "requests it (nki.compiler.CompileConfig, non_ssa_legalization)",
        )
    ),
    "loads_by_use": as_on_trn2(
        fitted(1, "", "1: loads are issued in order of first use; 0: in the kernel's order", "o24", "o44", "o45"),
        "trn2's, because the compiler determines the order",
    ),
    # Control: for each engine, the delay from a result to the start of an instruction that waits for it.
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
    "landed_tensor_ns": as_on_trn2(measured(35, "ns", "semaphore of a DMA to the Tensor Engine: hops.csv, 28 to 42")),
    "landed_ns": as_on_trn2(measured(23, "ns", "semaphore of a DMA to any other engine: hops.csv, 22.5 to 24")),
    "landed_dma_ns": as_on_trn2(measured(17, "ns", "semaphore of a DMA to the trigger of another DMA: hops.csv")),
    # DMA: generation of descriptors
    "descriptor_choice": same_on_trn3(
        documented(0, "", "NeuronCore-v2 has no hardware DGE (A2), so descriptors are prepared"),
        measured(
            1,
            "",
            "1: the choice of two compilers, from packet counts (transfers.py); 0: hardware except for columns",
            *("o02", "o06", "o07", "o16", "o18", "o19"),
        ),
    ),
    "trigger_ns": same_on_trn3(
        fitted(112, "ns", "interval between two triggers of prepared descriptors", "k13", "k14"),
        measured(
            93, "ns", "interval between two triggers of prepared descriptors on Sync (1,845 pairs); on GpSimd: 82"
        ),
    ),
    "dge_ns": same_on_trn3(
        documented(0, "ns", "NeuronCore-v2 has no hardware DGE (A2)"),
        fitted(482, "ns", "hardware descriptor generation of a DMA on one ring, excluding the parts below", "k01"),
    ),
    "dge_ring_ns": same_on_trn3(
        documented(0, "ns/ring", "NeuronCore-v2 has no hardware DGE (A2)"),
        measured(
            3.5, "ns/ring", "generation for each DMA engine involved: issue interval of 583 at 128 rows, minus dge_ns"
        ),
    ),
    "dge_descriptor_ns": same_on_trn3(
        documented(0, "ns/descriptor", "NeuronCore-v2 has no hardware DGE (A2)"),
        measured(0.37, "ns/descriptor", "generation, 521 ns for 128 and 568 for 256 descriptors (dma-latencies.csv)"),
    ),
    "swdge_ns": as_on_trn2(
        measured(
            582, "ns", "interval between DMAs whose descriptors GpSimd generates: 576 to 582 ns (dma-latencies.csv)"
        )
    ),
    "swdge_lead_ns": as_on_trn2(
        measured(
            576,
            "ns",
            "time before that, which overlaps GpSimd's other work: 1,193 ns from a result to the trigger of the DMA "
            "that waits for it (hops.csv), minus 35 for the semaphore and 582 for the interval between two DMAs",
        )
    ),
    "swdge_descriptor_ns": (
        scaled(0, "ns/descriptor", "trn3's"),
        scaled(0, "ns/descriptor", "trn3's; the packet counts of o02 to o11 and o27 are for DMAs of 64 to 128 rows"),
        measured(
            0,
            "ns/descriptor",
            "additional time: 40 DMAs of 64 to 2,048 rows keep GpSimd busy for about 1 us each",
            "o38",
        ),
    ),
    "swdge_element_ns": as_on_trn2(
        measured(
            12.7,
            "ns",
            "time of an engine for each piece of a store with GpSimd's descriptors, in addition to its bytes: 256 B "
            "every 22.4 (1,504 pieces)",
        )
    ),
    "swdge_gathered": as_on_trn2(
        measured(
            512,
            "B",
            "minimum size at which GpSimd gathers the pieces of a store: 512 B in elements of 4,096 in six profiles, "
            "256 B in two of four",
        )
    ),
    "address_load_ns": as_on_trn2(
        measured(290, "ns", "time for GpSimd to read an address from SBUF (912 value_load instructions)")
    ),
    "address_ns": as_on_trn2(
        measured(
            365,
            "ns",
            "four register operations of 78 ns that compute the address, a trigger of 32 ns, and 21 ns until the "
            "descriptors of the previous DMA are written: each of 912 dynamic DMAs",
        )
    ),
    # DMA: latencies
    "load_first_byte_ns": same_on_trn3(
        scaled(856, "ns", "trn2's static DMA; A1 states about 1,300 including the semaphore"),
        measured(766, "ns", "from generated descriptors to the first byte of a load: 757 (GpSimd) to 771 (Sync)"),
    ),
    "store_first_byte_ns": same_on_trn3(
        scaled(756, "ns", "trn2's static DMA"),
        measured(633, "ns", "from generated descriptors to the first byte of a store: 633 (GpSimd) to 666 (Scalar)"),
    ),
    "load_first_byte_static_ns": as_on_trn2(
        measured(856, "ns", "from the trigger of prepared descriptors to the first byte of a load (34 rings)"),
        "trn2's; A1 states about 1,300 including the semaphore",
    ),
    "store_first_byte_static_ns": as_on_trn2(
        measured(756, "ns", "from the trigger of prepared descriptors to the first byte of a store (794 rings)")
    ),
    "ring_static_ns": as_on_trn2(
        measured(
            14,
            "ns",
            "delay of each further engine, prepared descriptors: from first to last read, 186 to 240 ns longer than "
            "an engine is busy in 15 of 30 stores; the other stores were under load (dma-transfers.csv)",
        )
    ),
    "ring_hardware_ns": as_on_trn2(
        measured(15.8, "ns", "the same for hardware descriptors: 235 to 299 ns longer (loads of 128 rows of 512 B)")
    ),
    "ring_software_ns": as_on_trn2(
        measured(26.5, "ns", "the same for GpSimd's descriptors: 256 to 420 ns longer (10 stores)")
    ),
    "load_landing_ns": as_on_trn2(
        measured(335, "ns", "from the last data of a load to its semaphore: generated p50 335, prepared p10 325")
    ),
    "store_landing_ns": as_on_trn2(
        measured(355, "ns", "from the last data of an isolated store to its semaphore; prepared p10 369")
    ),
    "dma_peak": (
        documented(27.2, "B/ns", "rate of one engine, A1"),
        documented(27.2, "B/ns", "rate of one engine, DO; rows i34 to i37 agree"),
        documented(38.4, "B/ns", "rate of one engine, DO"),
    ),
    "dma_sustained": (
        documented(272, "B/ns", "total rate of the 16 engines, BW"),
        documented(368, "B/ns", "total rate of the 16 engines, BW"),
        documented(528, "B/ns", "total rate of the 16 engines, BW"),
    ),
    "descriptor_ns": as_on_trn2(
        measured(
            4.7, "ns", "time per element, in addition to its bytes, back to back: 256 B every 14.1, 4,096 B every 155.3"
        )
    ),
    "semaphore_ns": as_on_trn2(
        measured(5.9, "ns", "write of the semaphore that ends a DMA, on each of its engines (dma-elements.csv)")
    ),
    "small_element_ns": as_on_trn2(
        measured(
            9.4,
            "ns",
            "minimum per element, from reads that are not overlapped (36,242 of 4 B) and from these rows; also per "
            "element in an HBM channel: 128 of 4 or 8 B in 1 KiB take 1,213 ns on 16 engines (dma-transfers.csv)",
            "o12",
            "o16",
        )
    ),
    "hbm_channels": (
        documented(16, "channels", "per stack of HBM2e: 8 with two pseudo channels each (JEDEC JESD235)"),
        documented(32, "channels", "per stack of HBM3: 16 with two pseudo channels each (JEDEC JESD238)"),
        documented(32, "channels", "per stack of HBM3e: 16 with two pseudo channels each (JEDEC JESD238)"),
    ),
    "hbm_interleave": as_on_trn2(
        measured(
            1024,
            "B",
            "minimum number of adjacent bytes in one channel: 128 elements of 8 B are as slow as "
            "128 of 4 B, but 128 of 256 B are not",
        )
    ),
    "least_element": as_on_trn2(
        measured(
            32, "B", "minimum size that an element of an unrolled access counts as: 64 of 2 B or 4 B every 77.6 ns"
        )
    ),
    "packet": as_on_trn2(
        measured(
            4096,
            "B",
            "size that prepared descriptors and GpSimd's descriptors gather: 8 rows of 256 B every 80 ns, 8 of 512 "
            "every 155; 4 of 1,024 according to the packet counts of o07 and o11",
            "o07",
            "o11",
        )
    ),
    "partial_write_ns": (
        fitted(
            45,
            "ns",
            "write narrower than 64 B that shares its 64 B of HBM with the next write: a row cycle of DRAM",
            "k12",
        ),
        scaled(0, "ns", "omitted, since no row of trn2 shows trn1's 45"),
        scaled(0, "ns", "trn2's"),
    ),
    "partial_write": (
        fitted(64, "B", "unit of HBM that narrower writes share: read, changed and written back sequentially", "k12"),
        scaled(64, "B", "trn1's"),
        scaled(64, "B", "trn1's"),
    ),
    # Two cores
    "hbm_shared_efficiency": (
        scaled(0.75, "of the rate", "trn2's; not used"),
        fitted(
            0.75,
            "of the rate",
            "share of an HBM stack's rate that two loading cores get together: 268 B/ns each",
            *(f"o{row}" for row in range(27, 34)),
        ),
        scaled(0.75, "of the rate", "trn2's"),
    ),
    "gpsimd_dma_rate": (
        scaled(153, "B/ns", "trn2's; not used"),
        documented(
            153,
            "B/ns",
            "rate in each direction of the DMA engines of GpSimd's processors, separate from the main engines (A2)",
        ),
        scaled(153, "B/ns", "trn2's"),
    ),
    "barrier_ns": everywhere(
        scaled(
            355,
            "ns",
            "time until both cores know that the other has arrived: not published; taken from the tail of a DMA on "
            "trn2, which also ends with a semaphore that another unit writes",
        )
    ),
    "dma_compute_passes": (
        documented(2, "passes", "reading, adding and writing take two passes before NeuronCore-v4 (A3)"),
        documented(2, "passes", "reading, adding and writing take two passes before NeuronCore-v4 (A3)"),
        documented(1, "passes", "reading, adding and writing at the full rate (A3)"),
    ),
    "dma_transpose_hbm": everywhere(documented(0.9, "of the rate", "maximum from HBM to SBUF, A2")),
    "dma_transpose_sbuf": everywhere(documented(0.5, "of the rate", "maximum from SBUF to SBUF, A2")),
    # HBM
    "pitch": only_trn1(fitted(4096, "B", "row pitch whose multiples map rows to few channels", "k30", "k31", "k32")),
    "pitched_rate": only_trn1(
        fitted(105, "B/ns", "rate of such rows on all engines; only one tutorial shows it", "k30", "k31", "k32")
    ),
    "hbm_stack_rate": (
        documented(410, "B/ns", "rate of the stack that contains a tensor: 820 GB/s over 2 stacks, A1"),
        measured(716, "B/ns", "rate of the stack that contains a tensor, from profiler metadata"),
        documented(1175, "B/ns", "rate of the stack that contains a tensor: 4.7 TB/s over 4 stacks, A3"),
    ),
}
