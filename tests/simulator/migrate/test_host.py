"""Code around kernels: earlier ways to launch, simulate and time them."""

import numpy as np
import pytest
from migrated_kernels import FIRST

pytest.importorskip("libcst")
from trninfer.simulator.migrate import CANNOT, CHECK, migrate_source

KERNEL = FIRST + (
    "@nki.jit\ndef kernel(a):\n"
    "    out = nl.ndarray((256, 8), dtype=a.dtype, buffer=nl.shared_hbm)\n"
    "    row = nl.program_id(0) * 128 + nl.arange(128)[:, None]\n"
    "    column = nl.arange(8)[None, :]\n"
    "    nl.store(out[row, column], nl.load(a[row, column]) * 2)\n"
    "    return out\n\n\n@nki.jit\ndef plain(a):\n    return a\n\n\n"
)


def host(line):
    """Return a line after two kernels, the first of which now loops over its programs."""
    migration = migrate_source(KERNEL + line + "\n")
    return migration.text.split("\n\n\n")[-1].strip("\n"), migration.notes


CALLS = {
    "y = nki.simulate_kernel(plain, a, b=2)": "y = nki.simulate(plain)(a, b=2)",
    "y = nki.simulate_kernel(kernel[2], a)": "y = nki.simulate(kernel)(a, grid=(2,))",
    "y = nki.simulate_kernel(plain[2], a)": "y = nki.simulate(plain[2])(a)",
    "y = kernel[2](a)": "y = kernel(a, grid=(2,))",
    "y = kernel[(2,)](a)": "y = kernel(a, grid=(2,))",
    "y = kernel[(n + 1) // 2](a)": "y = kernel(a, grid=((n + 1) // 2,))",
    "y = kernel[(nl.nc(2), 4)](a)": "y = kernel(a, grid=(2, 4))",
    "y = kernel[n // 128, m](a, b=c)": "y = kernel(a, b=c, grid=(n // 128, m))",
    "y = kernel[nl.nc(2), 4](a)": "y = kernel(a, grid=(2, 4))",
    "y = kernel[nl.spmd_dim(nl.nc(2), n), 4](a)": "y = kernel(a, grid=(2 * n, 4))",
    "y = kernel[2 * nl.nc(k)](a)": "y = kernel(a, grid=(2 * k,))",
    "y = plain[nl.nc(2)](a)": "y = plain[2](a)",
    "y = plain[2](a)": "y = plain[2](a)",
    "y = table[2](a)": "y = table[2](a)",
    "f = nki.baremetal(plain)": "f = plain",
    "f = nki.trace(plain)": "f = plain",
    'f = nki.jit(plain, mode="trace", debug=True)': "f = nki.jit(plain, debug=True)",
    'f = nki.jit(plain, platform_target="trn2")': "f = nki.jit(plain)",
    "f = nki.jit(plain, debug=True)": "f = nki.jit(plain, debug=True)",
}


def test_calls_of_earlier_entry_points():
    text, notes = host("\n".join(CALLS))
    assert text.splitlines() == list(CALLS.values()) and notes == ()


@pytest.mark.parametrize("line", ["f = nki.benchmark(plain)", "f = nki.profile(warmup=5, iters=2)(plain)"])
def test_calls_that_timed_a_kernel_are_noted(line):
    text, (note,) = host(line)
    assert text == "f = plain" and (note.kind, note.line) == (CHECK, KERNEL.count("\n") + 1)
    assert note.message.startswith(line[4:].split("(")[0] + " was removed: the kernel itself is called")


@pytest.mark.parametrize(
    "value", ["nki.baremetal(kernel)", "kernel", "nki.jit(kernel)", "nki.benchmark(warmup=2)(kernel)"]
)
def test_a_grid_by_another_name_of_the_kernel(value):
    assert host(f"run = {value}\ny = run[2](a)")[0].splitlines()[1] == "y = run(a, grid=(2,))"


def test_results_of_a_benchmark_are_left_to_the_author():
    line = "t = kernel.benchmark_result.nc_latency"
    text, (note,) = host(line)
    assert text == line and (note.kind, note.line) == (CANNOT, KERNEL.count("\n") + 1)
    assert (
        note.message
        == "kernels no longer have benchmark_result: time the kernel on the chip, or with trninfer simulate"
    )


RUNS = {
    "y = nki.baremetal(plain)(*args)": "y = plain(*args)",
    "y = nki.baremetal(plain)(a)": "y = plain(a)",
    "y = nki.trace(plain)(a, b=2)": "y = plain(a, b=2)",
    "y = nki.benchmark(warmup=1, iters=2)(plain)(a)": "y = plain(a)",
    "y = nki.benchmark(plain, warmup=1, iters=2)(a)": "y = plain(a)",
    "y = nki.benchmark(kernel=plain, warmup=1)(a)": "y = plain(a)",
    "y = nki.profile()(plain)(*args)": "y = plain(*args)",
    "y = nki.baremetal(options['kernel'])(a)": "y = as_kernel(options['kernel'])(a)",
    "y = baremetal(plain)(*args)": "y = plain(*args)",
    "y = nki.baremetal(plain[2])(a)": "y = plain[2](a)",
    "y = nki.baremetal(kernel)[2](a)": "y = kernel(a, grid=(2,))",
    "time_it = nki.benchmark(warmup=5)": "time_it = as_kernel",
    "run = nki.baremetal if n else nki.profile": "run = as_kernel if n else as_kernel",
    "run = partial(nki.benchmark, warmup=5)": "run = partial(as_kernel, warmup=5)",
    "y = nki.simulate_kernel(*args)": "y = simulate_kernel(*args)",
    "y = run(nki.simulate_kernel, a)": "y = run(simulate_kernel, a)",
    "logging.disable(logging.OFF)": "logging.disable(logging.CRITICAL + 1)",
    "y = nki.baremetal(helper)(a)": "y = nki.jit(helper)(a)",
    "y = table[helper](a)": "y = table[helper](a)",
}


def test_runners_keep_the_call_of_the_kernel():
    imported = KERNEL.replace("import numpy", "import logging\nfrom neuronxcc.nki import baremetal\nimport numpy")
    imported += "def helper(a):\n    return nl.load(a)\n\n\n"
    text = migrate_source(imported + "\n".join(RUNS)).text
    assert text.split("\n\n\n")[-1].splitlines() == list(RUNS.values())
    assert text.count("def as_kernel(") == text.count("def simulate_kernel(") == 1


FORMS = [
    "def run(kernel, *args):\n    return nki.baremetal(kernel)(*args)",
    "def run(kernel, *args):\n    kernel = nki.baremetal(kernel)\n    return kernel(*args)",
    "def run(kernel, *args):\n    runner = nki.baremetal\n    return runner(kernel)(*args)",
    "def run(kernel, *args, **options):\n    return nki.simulate_kernel(kernel, *args, **options)",
    "def run(kernel, *args):\n    return nki.benchmark(warmup=1, iters=2, save_neff_name='x')(kernel)(*args)",
    "def run(kernel, *args):\n    timed = nki.benchmark(kernel, warmup=1)\n    return timed(*args)",
    "run = lambda kernel, *args: nki.profile(kernel)(*args)",
    "from neuronxcc.nki import trace as traced\n\ndef run(kernel, x):\n    for make in [traced]:\n"
    "        return make(kernel)(x)",
    "from neuronxcc.nki import benchmark\n\ndef run(kernel, x):\n    return benchmark(warmup=2)(kernel)(x)",
    "bench = nki.benchmark\n\ndef run(kernel, x):\n    return bench(iters=3)(kernel)(x)",
    "class Runner:\n    make = nki.baremetal\n\n    def __call__(self, kernel, x):\n"
    "        return Runner.make(kernel)(x)\n\nrun = Runner()",
]


def test_kernels_are_called_in_every_form_of_a_harness():
    plain = FIRST + "@nki.jit\ndef doubled(a):\n    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)\n"
    plain += "    nl.store(out, nl.load(a) * 2)\n    return out\n\n\n"
    bare = plain.replace("@nki.jit\ndef doubled", "def bare") + "@nki.baremetal(artifacts_dir='x')\ndef made"
    bare = plain + bare.removeprefix(FIRST) + plain.partition("def doubled")[2]
    a = np.arange(32, dtype=np.float32).reshape(4, 8)
    for form in FORMS:
        space = {"__name__": "host", "a": a}
        lines = "y = run(doubled, a), run(bare, a), run(made, a)\n"
        exec(compile(migrate_source(f"{bare}{form}\n\n{lines}").text, "<host>", "exec"), space)
        for found in space["y"]:
            np.testing.assert_array_equal(found, a * 2, err_msg=form)


def test_runners_stay_for_a_simulator_that_has_them():
    text = FIRST.replace("import numpy", "from neuronxcc.nki import benchmark\nimport numpy")
    text += "@benchmark(warmup=2)\ndef kernel(a):\n    nl.store(a, value=nl.load(a[0:4, 0:8]))\n\n\n"
    text += "def run(k, *args):\n    nki.baremetal(k)(*args)\n    return k.benchmark_result.nc_latency\n"
    migration = migrate_source(text, keep_runners=True)
    assert migration.notes == ()
    assert migration.text == text.replace("neuronxcc.nki", "nki").replace("import nki as nki", "import nki").replace(
        "value=", ""
    )


def test_the_old_package_without_an_alias():
    text = migrate_source(
        "import neuronxcc.nki\n\n\n@neuronxcc.nki.jit\ndef kernel(a):\n"
        "    t = neuronxcc.nki.isa.tensor_copy(neuronxcc.nki.language.load(a[0:4, 0:4]))\n"
        "    print(neuronxcc.nki.language.tile_size.pmax)\n\n\nP = neuronxcc.nki.language.tile_size.pmax\n"
    ).text
    assert "neuronxcc" not in text and "\n@nki.jit\n" in text
    assert "print(nl.tile_size.pmax)" in text and "P = nki.language.tile_size.pmax" in text


def test_a_launch_computes_the_programs_of_its_grid(monkeypatch):
    a = np.arange(256 * 8, dtype=np.float32).reshape(256, 8)
    for keep_runners in (False, True):
        space = {"__name__": "host", "a": a}
        text = migrate_source(KERNEL + "y = nki.simulate_kernel(kernel[2], a)\n", keep_runners).text
        exec(compile(text, "<host>", "exec"), space)
        np.testing.assert_array_equal(space["y"], a * 2)


def test_options_of_nki_jit_in_a_partial():
    text, _ = host('import functools\nf = functools.partial(nki.jit, mode="trace", debug=True)')
    assert text == "import functools\nf = functools.partial(nki.jit, debug=True)"


def test_types_of_tensors_as_arguments_are_noted():
    _, notes = host("from neuronxcc.nki.typing import tensor\nplain(tensor[[4, 8], nl.float32])")
    assert [note.kind for note in notes] == [CANNOT] and "tensor[...] as an argument: pass an array" in notes[0].message


def test_an_operator_that_is_passed_by_name():
    line = "y = plain(a, op=nl.max, reduce_op=nl.sum, function=nl.max, operand=nl.add)"
    assert host(line)[0] == "y = plain(a, op=nl.maximum, reduce_op=nl.add, function=nl.max, operand=nl.add)"
    called = "def reduced(x, op):\n    return op(x)\n\n\ny = reduced(a, op=nl.max)"
    assert host(called)[0] == "y = reduced(a, op=nl.max)"


def test_a_plain_function_that_the_program_chooses_is_jitted():
    text = FIRST + "def bare(a):\n    return nl.load(a)\n\n\nkernels = {'v1': bare}\nk = kernels['v1']\n"
    found = migrate_source(text + "y = nki.baremetal(k)(a)\nz = nki.baremetal(kernels['v1'])(a)\n").text
    assert found.endswith("y = as_kernel(k)(a)\nz = as_kernel(kernels['v1'])(a)\n")
