"""Arguments that several commands take, and what they become."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from redfuser.paths import path_of

if TYPE_CHECKING:
    from redfuser.options import CompileOptions


def add_common(parser: argparse.ArgumentParser, formats: Sequence[str] = ("terminal", "json")) -> None:
    """``--format``, ``-q`` and ``-v``."""
    parser.add_argument("--format", choices=formats, default="terminal", help="form of the result (default: terminal)")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress, only the result and errors")
    parser.add_argument("-v", "--verbose", action="store_true", help="more detail, and tracebacks of errors")


def add_ascii(parser: argparse.ArgumentParser) -> None:
    """``--ascii``."""
    parser.add_argument("--ascii", action="store_true", help="mathematics in plain characters")


def add_model(parser: argparse.ArgumentParser, metavar: str = "MODEL.onnx", help: str = "the ONNX file") -> None:
    """The model, its target, its shapes, its numerics."""
    parser.add_argument("model", type=path_of, metavar=metavar, help=help)
    parser.add_argument(
        "--target", default="cpu", metavar="NAME", help="device, or a .toml that describes one (default: cpu)"
    )
    parser.add_argument(
        "--dim",
        action="append",
        default=[],
        metavar="NAME=N|LOW:HIGH",
        help="fix a symbolic dimension, or give the sizes it may have when the module runs (default: 1:65536)",
    )
    parser.add_argument("--shape", action="append", default=[], metavar="INPUT=1x128", help="whole shape of one input")
    parser.add_argument(
        "--value", action="append", default=[], metavar="INPUT=N,N", help="make an input a constant with these elements"
    )
    parser.add_argument(
        "--numerics", choices=("exact", "relaxed"), default="exact", help="relaxed: rounding may be re-ordered"
    )
    parser.add_argument(
        "--fp32",
        choices=("tf32", "3xtf32", "ieee"),
        default="tf32",
        help="float32 matrix products of fused GPU kernels: TF32, split into three of them, or without tensor cores",
    )
    parser.add_argument(
        "--threads", type=positive, metavar="N", help="plan kernels for N threads (default: the target's cores)"
    )
    parser.add_argument(
        "--seed", type=natural, default=0, metavar="N", help="seed of the inputs kernels are checked on"
    )


def add_tuning(parser: argparse.ArgumentParser, budget: str) -> None:
    """``--tune-budget`` and ``--trials``."""
    parser.add_argument(
        "--tune-budget", default=budget, metavar="TIME", help=f"time for measuring: 60s, 5m, off (default: {budget})"
    )
    parser.add_argument(
        "--trials", type=positive, default=64, metavar="N", help="candidates measured for one cascade (default: 64)"
    )


def compile_options(arguments: argparse.Namespace) -> CompileOptions:
    """The options of a command that takes :func:`add_model`, and :mod:`cli.compile`'s own if it is that.

    Raises:
        RedFuserError: an argument makes no sense, or the target is unknown.
    """
    from redfuser.options import CompileOptions
    from redfuser.parsing import parse_budget, parse_dims, parse_gates, parse_shapes, parse_values
    from redfuser.targets import load_target
    from redfuser.tuning.record import read_lock

    lock: Path | None = getattr(arguments, "tuning_lock", None)
    return CompileOptions(
        target=load_target(arguments.target),
        dims=parse_dims(arguments.dim),
        shapes=parse_shapes(arguments.shape),
        values=parse_values(arguments.value),
        strict=getattr(arguments, "strict", False),
        numerics=arguments.numerics,
        fp32=arguments.fp32,
        require_fused=parse_gates(getattr(arguments, "require_fused", ())),
        fail_on_missed=getattr(arguments, "fail_on", None) == "missed",
        seed=arguments.seed,
        threads=arguments.threads,
        tune_seconds=parse_budget(getattr(arguments, "tune_budget", "off")),
        trials=getattr(arguments, "trials", 1),
        lock=read_lock(lock) if lock is not None else None,
        locked=getattr(arguments, "locked", False),
    )


def add_device(parser: argparse.ArgumentParser) -> None:
    """``--threads`` and ``--device`` of a command that runs an artifact."""
    parser.add_argument("--threads", type=positive, metavar="N", help="threads to use (default: all cores)")
    parser.add_argument(
        "--device", metavar="cpu|cuda[:N]", help="where to run (default: the first that fits the target)"
    )


def positive(text: str) -> int:
    """A positive integer.

    Raises:
        ArgumentTypeError: it isn't one.
    """
    value = natural(text)
    if value == 0:
        raise argparse.ArgumentTypeError("0 isn't a positive integer")
    return value


def natural(text: str) -> int:
    """A non-negative integer that fits 32 bits.

    Raises:
        ArgumentTypeError: it isn't one.
    """
    if not (text.isascii() and text.isdigit()) or int(text[:20]) >= 2**32:
        raise argparse.ArgumentTypeError(f"{text!r} isn't a non-negative integer")
    return int(text)
