"""The subject of a bench: a model, a kernel or a suite."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from ..completion import complete_model
from ..errors import UsageError
from ..options import RunOptions
from ..output import check_kept, check_output, is_special


def _kernels() -> list[str]:
    from ...runtime.measure.kernel_cases import kernel_names

    return list(kernel_names())


def _suites() -> list[str]:
    from ...runtime.measure.suites import suite_names

    return list(suite_names())


def _shape_keys(context: typer.Context, incomplete: str) -> list[str]:
    """Complete the value of --shape: return one completion, such as `m=64,k=`, for each size that has not been given
    yet."""
    from ...runtime.measure.kernel_cases import ShapeError, kernel_keys

    complete, comma, _ = incomplete.rpartition(",")
    try:
        keys = kernel_keys(str(context.params.get("kernel")))
    except ShapeError:
        return []
    used_keys = {part.partition("=")[0] for part in complete.split(",")}
    return [f"{complete}{comma}{key}=" for key in keys if key not in used_keys]


@dataclass(frozen=True)
class BenchSubject:
    """The subject of a bench: a model, a kernel or a suite. If none is given, the subject is all bundled models."""

    name: Annotated[
        str | None,
        typer.Argument(metavar="MODEL", help="Same as --model.", autocompletion=complete_model, show_default=False),
    ] = None
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            help="Name of a bundled network, or a .safetensors or ONNX file. [default: all bundled networks]",
            show_default=False,
            autocompletion=complete_model,
        ),
    ] = None
    kernel: Annotated[
        str | None,
        typer.Option(
            "--kernel",
            autocompletion=_kernels,
            help="Kernel to time, at the shape given by --shape: conv2d, matmul, transpose, bias_activation, "
            "average_pool, argmax, vector_add "
            "or ffnn.",
        ),
    ] = None
    shape: Annotated[
        str | None,
        typer.Option(
            "--shape",
            metavar="KEY=N,...",
            help="Shape of the kernel. An invalid key prints the valid ones.",
            autocompletion=_shape_keys,
        ),
    ] = None
    suite: Annotated[
        str | None,
        typer.Option(
            "--suite",
            help="Published suite to predict, in its own dtypes and targets, and to compare with its published times.",
            autocompletion=_suites,
        ),
    ] = None
    sources: Annotated[
        Path | None,
        typer.Option(
            "--sources",
            metavar="DIR",
            help="With --suite: predict the original kernels, from clones of their repositories at "
            "DIR/OWNER/REPOSITORY.",
        ),
    ] = None

    compare_archive: Annotated[
        Path | None,
        typer.Option(
            "--compare-archive",
            metavar="FILE",
            help="Compare predictions with AWS's estimates and measured times from an archive written by "
            "trninfer doctor --selftest.",
        ),
    ] = None
    advise: Annotated[
        bool,
        typer.Option(
            "--advise",
            help="Suggest changes that would make networks faster, with the predicted gain of each, and show the "
            "effect of doubling the speed of each resource.",
        ),
    ] = False
    show_lowering: Annotated[
        bool,
        typer.Option(
            "--show-lowering",
            help="Also print the graph of each network after each lowering pass. With --quiet, print only the graphs.",
        ),
    ] = False
    graph: Annotated[
        Path | None,
        typer.Option(
            "--graph",
            metavar="FILE",
            help="Write the graph of --model as an SVG file, with layers coloured by time.",
        ),
    ] = None

    def named(self) -> BenchSubject:
        """Return the subject with `model` set to the model named by either option. Raises UsageError if two models are
        named."""
        if self.name is not None and self.model is not None:
            raise UsageError(f"{self.name} and --model {self.model} both specify a network; use only one of them")
        return replace(self, model=self.model if self.name is None else self.name)

    def check(self, options: RunOptions, compared: bool) -> None:
        """Raise UsageError if the options are not applicable to the subject."""
        is_suite, is_kernel = self.suite is not None, self.kernel is not None
        is_network = not is_suite and not is_kernel
        _refuse(
            {
                "--advise applies to networks; for a kernel, trninfer simulate shows the slowest lines": self.advise
                and not is_network,
                "--lnc applies to networks; kernels and suites run on one NeuronCore": options.lnc > 1
                and not is_network,
                "--advise supports only one NeuronCore; omit --lnc": options.lnc > 1 and self.advise,
                "--show-lowering applies to networks; kernels are not lowered": self.show_lowering and not is_network,
            }
        )
        self._check_graph(options)
        subjects = {"--model": self.model, "--kernel": self.kernel, "--suite": self.suite}
        subjects_given = [option for option, value in subjects.items() if value is not None]
        results = (options.verify, options.trace, options.report_file, options.output, self.suite)
        prints = compared or any((*results, self.show_lowering, self.graph)) or options.form != "table"
        _refuse(
            {
                f"{' and '.join(subjects_given)} cannot be used together; use only one of them": len(subjects_given)
                > 1,
                "--shape needs --kernel": self.shape is not None and not is_kernel,
                "--verify and --trace do not support suites; use --kernel or a model": is_suite
                and (options.verify or options.trace is not None),
                "--sources needs --suite": self.sources is not None and not is_suite,
                "the times of suites are always predicted; omit --backend neuron": is_suite
                and options.backend == "neuron",
                "--format markdown is not available for suites, which have no tables of layers": is_suite
                and options.form == "markdown",
                "with --quiet, bench prints nothing; add --verify, --compare or a --format": (
                    options.quiet and not prints
                ),
            }
        )

    def _check_graph(self, options: RunOptions) -> None:
        if self.graph is None:
            return
        if self.model is None:
            raise UsageError("--graph draws one network, so it requires --model")
        check_output(self.graph, "--graph")
        check_kept([self.model], ("--graph", self.graph))
        others = {"--output": options.output, "--trace": options.trace, "--report": options.report_file}
        for option, path in others.items():
            if path is not None and not is_special(path) and os.path.realpath(path) == os.path.realpath(self.graph):
                raise UsageError(f"--graph and {option} both write {path}; use different files")

    def ignored(self, options: RunOptions) -> list[str]:
        """Return the options that were given but have no effect on a suite."""
        plain = RunOptions()
        pairs = {
            "--dtype": options.dtype != plain.dtype,
            "--batch-size": options.batch_size != plain.batch_size,
            "--target": options.target != plain.target,
        }
        return [option for option, is_given in pairs.items() if is_given and self.suite is not None]

    @property
    def sizes(self) -> dict[str, str] | None:
        """Parse `m=128,n=64` as {"m": "128", "n": "64"}; return None if no kernel is given. Raises UsageError if the
        text is malformed."""
        if self.kernel is None:
            return None
        shape: dict[str, str] = {}
        for part in filter(None, (part.strip() for part in (self.shape or "").split(","))):
            key, equals, value = (piece.strip() for piece in part.partition("="))
            if not (key and equals and value):
                raise UsageError(f"--shape: {part!r} is not of the form key=value, as in m=128,n=64")
            if key in shape:
                raise UsageError(f"--shape: {key} is given twice")
            shape[key] = value
        return shape


def _refuse(rules: dict[str, bool]) -> None:
    """Raise UsageError with the message of the first condition that is true."""
    for message, is_violated in rules.items():
        if is_violated:
            raise UsageError(message)
