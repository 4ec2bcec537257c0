"""Check and time the kernels of a bundle: every one on several sets of inputs, against values computed in float64.

An error is allowed that the kernel's own precision explains. Times are medians of single launches between events of
the driver; where PyTorch is installed with CUDA, its functions of the same workload take turns with the kernel.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .driver import CudaError, Device, Program
from .numbers import judge, values_of
from .torch_peers import sides

#: Turns that a kernel and its peers take.
TURNS = 5

OURS = "redfuser"


def main(folder: Path, arguments: Sequence[str] | None = None) -> int:
    """Run everything; 0 if all results are right, 1 if one isn't, 2 if nothing could be run.

    Args:
        folder: the bundle.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", type=int, default=0, help="number of the GPU")
    parser.add_argument("--repeat", type=int, default=50, help="launches to time; 0 for none")
    parser.add_argument("--no-torch", action="store_true", help="don't compare with PyTorch")
    parser.add_argument("--json", type=Path, help="also write the results there")
    chosen = parser.parse_args(arguments)
    bundle = json.loads((folder / "bundle.json").read_text(encoding="utf-8"))
    try:
        device = Device(chosen.device)
        found = device.describe()
        if found["capability"] not in bundle["capabilities"]:
            raise CudaError(f"the kernels are for {bundle['arch']}; {found['device']} has {found['capability']}")
        print(f"{bundle['model']} for {bundle['target']}, on {found['device']} ({found['driver']})")
        results = {
            described["name"]: run_program(device, described, folder, chosen.repeat, not chosen.no_torch)
            for described in bundle["programs"]
        }
    except CudaError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if chosen.json is not None:
        date = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        written = {"schema": "redfuser.bundle-result/2", "bundle": bundle["digest"], **found, "date": date}
        chosen.json.write_text(json.dumps({**written, "programs": results}, indent=2) + "\n", encoding="utf-8")
    failed = [name for name, cases in results.items() if any(case["problems"] for case in cases)]
    print(f"FAILED: {', '.join(failed)}" if failed else f"PASSED: {len(results)} kernels")
    return 1 if failed else 0


def run_program(
    device: Device, described: Mapping[str, Any], folder: Path, repeat: int, torch: bool
) -> list[dict[str, Any]]:
    """All cases of a program, the first one timed; prints a line, and one for each peer."""
    program = Program(device, described, folder)
    peer = described["peer"] if torch else None
    results = [
        run_case(device, program, folder, case, *((0, None) if number else (repeat, peer)))
        for number, case in enumerate(described["cases"])
    ]
    times = {side: statistics.median(taken) for side, taken in results[0]["times_ms"].items()}
    ours = times.get(OURS, 0.0)
    speed = f"  {ours * 1e3:9.2f} us  {described['bytes'] / (ours * 1e6):7.1f} GB/s" if ours else ""
    problems = [problem for result in results for problem in result["problems"]]
    rmse = max(result["rmse"] for result in results)
    print(f"{described['name']:20} {described['kind']:12} rmse {rmse:.2e}{speed}  {'; '.join(problems) or 'right'}")
    for side, median in times.items():
        if side != OURS:
            print(f"{'':20} {side:29} {median * 1e3:9.2f} us  {median / ours:7.2f} times as long")
    for side, why in results[0]["absent"].items():
        print(f"{'':20} no {side}: {why}")
    return results


def run_case(
    device: Device,
    program: Program,
    folder: Path,
    case: Mapping[str, Any],
    repeat: int,
    peer: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Check one set of inputs, and time it, against PyTorch's functions too, if ``repeat`` isn't 0."""
    stored = np.load(folder / case["file"], allow_pickle=False)
    contents = {
        tensor["name"]: stored[f"input:{tensor['name']}"].tobytes()
        if tensor["role"] == "input"
        else b"\xff" * tensor["bytes"]
        for tensor in program.tensors
    }
    addresses = {name: device.upload(content) for name, content in contents.items()}
    program.launch(addresses)
    device.call("cuCtxSynchronize")
    worst, problems = 0.0, []
    for tensor in program.tensors:
        name = tensor["name"]
        if tensor["role"] != "output":
            continue
        got = values_of(device.download(addresses[name], tensor["bytes"]), tensor)
        exact, rounded, written = (stored[f"{part}:{name}"] for part in ("exact", "rounded", "written"))
        rmse, problem = judge(got, exact, rounded, written, case["allowed"][name])
        worst = max(worst, rmse)
        problems += [f"{name}: {problem}"] if problem else []
    absent: dict[str, str] = {}
    runs: dict[str, Callable[[], object]] = {OURS: lambda: program.launch(addresses)}
    if repeat and peer is not None:
        runs |= _peers(peer, program, contents, device.number, absent)
    times = take_turns(device, runs, repeat)
    device.free(tuple(addresses.values()))
    return {"case": case["file"], "rmse": worst, "problems": problems, "times_ms": times, "absent": absent}


def _peers(
    peer: Mapping[str, Any], program: Program, contents: Mapping[str, bytes], number: int, absent: dict[str, str]
) -> dict[str, Callable[[], object]]:
    """PyTorch's functions that run here; ``absent`` gets why the others don't."""
    described = {tensor["name"]: tensor for tensor in program.tensors}
    try:
        import torch

        tensors = [
            torch.frombuffer(bytearray(contents[name]), dtype=getattr(torch, described[name]["dtype"]))
            .reshape(described[name]["shape"])
            .to(f"cuda:{number}")
            for name in peer["inputs"]
        ]
        torch.set_float32_matmul_precision("high")  # TF32, as in the kernel
        found = sides(peer["name"], tensors, peer["arguments"])
    except (ImportError, AttributeError, RuntimeError, AssertionError) as error:
        absent["torch"] = _first_line(error)
        return {}
    runs = {}
    for name, run in found.items():
        try:
            run()
        except Exception as error:  # a peer raises whatever it likes
            absent[name] = _first_line(error)
        else:
            runs[name] = run
    return runs


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:160]


def take_turns(device: Device, runs: Mapping[str, Callable[[], object]], repeat: int) -> dict[str, list[float]]:
    """Milliseconds of ``repeat`` single calls of each, in turns."""
    times: dict[str, list[float]] = {side: [] for side in runs} if repeat else {}
    for turn in range(min(TURNS, repeat)):
        calls = repeat // TURNS + (turn < repeat % TURNS)
        for side in times:
            times[side] += device.milliseconds(runs[side], calls)
    return times
