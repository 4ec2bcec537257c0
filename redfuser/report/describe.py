"""A fusion report in words: the document that every rendering lays out."""

from __future__ import annotations

from collections.abc import Iterable

from redfuser.expr.binding import USUAL_SIZE
from redfuser.report.derivation_entries import ReductionEntry
from redfuser.report.document import Block, Document, Section
from redfuser.report.paper import derivation_lines
from redfuser.report.value import (
    CascadeEntry,
    ChoiceEntry,
    FusionReport,
    NumericError,
    ProductEntry,
    Time,
    Traffic,
)

#: What ``products`` says of float32 -> the same in words.
SINGLE = {
    "tf32": "float32 as TF32 on tensor cores: factors are rounded to 11 bits (--fp32 3xtf32 or --fp32 ieee for more)",
    "3xtf32": "float32 as three products of TF32 on tensor cores",
    "ieee": "float32 without tensor cores",
}

HEADER = ("cascade", "kind", "verdict", "strategy", "memory traffic", "time", "why not")


def describe_report(report: FusionReport) -> Document:
    """The whole report as a document; one table row and one section a cascade, one section a product."""
    return Document(
        title=f"Fusion report: {report.model.name}",
        lead=tuple(_lead(report)),
        header=HEADER,
        rows=tuple(map(_row, report.cascades)),
        sections=(*map(_section, report.cascades), *map(_product, report.products)),
    )


def summary_lines(report: FusionReport) -> list[str]:
    """What was found and fused, why not, and the expected gain: one line each."""
    total = len(report.cascades)
    if not total:
        return ["no cascaded reductions found"]
    kinds = ", ".join(f"{count} {kind}" for kind, count in report.kinds().items())
    lines = [f"found {total} cascaded {'reduction' if total == 1 else 'reductions'} ({kinds}); fused {report.fused}"]
    lines += [f"not fused: {text}" for text in _reasons(report.cascades)]
    gain = _total_traffic(report.cascades)
    if gain is not None:
        symbolic = any(isinstance(extent, str) for spec in report.model.inputs for extent in spec.shape)
        where = f" (symbolic dimensions taken as {USUAL_SIZE}, or the nearest in range)" if symbolic else ""
        lines.append(f"fused cascades: {describe_traffic(gain)}{where}")
    listed = [*(entry.products for entry in report.cascades), *(entry.products for entry in report.products)]
    rounded = sum("tf32" in products for products in listed)
    if rounded:
        kernels = "1 kernel multiplies" if rounded == 1 else f"{rounded} kernels multiply"
        lines.append(f"{kernels} {SINGLE['tf32']}")
    return lines


def describe_traffic(traffic: Traffic) -> str:
    """Bytes moved, fused against unfused."""
    fused = traffic.read_bytes + traffic.write_bytes
    unfused = traffic.unfused_read_bytes + traffic.unfused_write_bytes
    return f"{bytes_text(fused)} moved instead of {bytes_text(unfused)} ({traffic.saved:.1f} times less)"


def bytes_text(count: int) -> str:
    """A number of bytes for people."""
    units = ("B", "KB", "MB", "GB", "TB")
    step = min((len(str(count)) - 1) // 3, len(units) - 1)
    return f"{count / 1000**step:.3g} {units[step]}"


def _lead(report: FusionReport) -> Iterable[str]:
    model, target = report.model, report.target
    features = f" +{' +'.join(target.features)}" if target.features else ""
    units = "cores" if target.kind == "cpu" else "multiprocessors"
    yield f"model {model.name}: opset {model.opset}, {model.nodes} nodes, sha256 {model.sha256}"
    yield f"target {target.name}: {target.arch}{features}, {target.cores} {units}"
    yield from summary_lines(report)


def _reasons(cascades: Iterable[CascadeEntry]) -> Iterable[str]:
    groups: dict[tuple[str, str], list[str]] = {}
    for entry in cascades:
        if entry.reason is not None:
            groups.setdefault((entry.reason.code, entry.reason.text), []).append(entry.id)
    for (code, text), ids in groups.items():
        shown = ", ".join(ids[:4]) + (f" and {len(ids) - 4} more" if len(ids) > 4 else "")
        yield f"{shown}: {text} [{code}]"


def _total_traffic(cascades: Iterable[CascadeEntry]) -> Traffic | None:
    parts = [entry.traffic for entry in cascades if entry.fused and entry.traffic is not None]
    if not parts:
        return None
    return Traffic(
        read_bytes=sum(part.read_bytes for part in parts),
        write_bytes=sum(part.write_bytes for part in parts),
        unfused_read_bytes=sum(part.unfused_read_bytes for part in parts),
        unfused_write_bytes=sum(part.unfused_write_bytes for part in parts),
        flops=sum(part.flops for part in parts),
    )


def _row(entry: CascadeEntry) -> tuple[str, ...]:
    return (
        entry.id,
        entry.kind,
        entry.verdict,
        entry.strategy,
        f"{entry.traffic.saved:.1f}x less" if entry.traffic and entry.fused else "",
        f"{entry.time.value_us:.4g} us, {entry.time.how}" if entry.time else "",
        entry.reason.text if entry.reason else "",
    )


def _section(entry: CascadeEntry) -> Section:
    blocks = [Block("reductions", tuple(map(_reduction, entry.reductions)))]
    if entry.reason is not None:
        witness = (f"witness: {entry.reason.witness}",) if entry.reason.witness else ()
        blocks.append(Block("why not", (f"{entry.reason.text} [{entry.reason.code}]", *witness)))
    if entry.derivation is not None:
        blocks.append(Block("derivation", tuple(derivation_lines(entry.derivation, entry.exactness))))
    if entry.choice is not None and not entry.schedule:
        blocks.append(Block("measured", (str(entry.choice),)))
    if entry.schedule:
        how = (str(entry.choice),) if entry.choice is not None else ()
        blocks.append(Block("schedule", (_schedule(entry), *how)))
    if entry.traffic is not None:
        blocks.append(Block("memory traffic", tuple(_traffic(entry.traffic))))
    if entry.time is not None:
        blocks.append(_time(entry.time, entry.choice))
    blocks += [_products(entry), _resources(entry)]
    if entry.error is not None:
        blocks.append(Block("error against float64", (_error(entry.error),)))
    ends = [f"{', '.join(b.onnx_nodes)}: {b.reason.text} [{b.reason.code}]" for b in entry.boundaries]
    blocks.append(Block("ends before", tuple(ends)))
    blocks.append(Block("ONNX nodes", entry.onnx_nodes))
    strategy = f" ({entry.strategy})" if entry.fused else ""
    return Section(f"{entry.id}: {entry.kind}, {entry.verdict}{strategy}", tuple(b for b in blocks if b.lines))


def _product(entry: ProductEntry) -> Section:
    how = (str(entry.choice),) if entry.choice is not None else ()
    time = [_time(entry.time, entry.choice)] if entry.time is not None else []
    blocks = [Block("schedule", (_schedule(entry), *how)), *time, _products(entry), _resources(entry)]
    return Section(f"{entry.id}: matrix product", tuple(b for b in blocks if b.lines))


def _schedule(entry: CascadeEntry | ProductEntry) -> str:
    return f"{entry.strategy}: {', '.join(f'{name} {value}' for name, value in sorted(entry.schedule.items()))}"


def _time(time: Time, choice: ChoiceEntry | None) -> Block:
    """One execution, and beside it what it was chosen before."""
    after = (
        f", the next {'in line' if choice.how == 'rule' else 'best'} {choice.next_us:.4g} us"
        if choice and choice.next_us
        else ""
    )
    return Block("time", (f"{time.value_us:.4g} us ({time.how}{after})",))


def _products(entry: CascadeEntry | ProductEntry) -> Block:
    return Block("matrix products", tuple(SINGLE.get(kind, f"{kind} on tensor cores") for kind in entry.products))


def _resources(entry: CascadeEntry | ProductEntry) -> Block:
    used = ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in entry.resources.items())
    return Block("resources", (used,) if used else ())


def _reduction(entry: ReductionEntry) -> str:
    return f"{entry.name}[{', '.join(entry.axes)}] = {entry.op} over {entry.over} of {entry.map}"


def _traffic(traffic: Traffic) -> Iterable[str]:
    yield f"reads {bytes_text(traffic.read_bytes)}, writes {bytes_text(traffic.write_bytes)}"
    yield (
        f"unfused: reads {bytes_text(traffic.unfused_read_bytes)}, writes {bytes_text(traffic.unfused_write_bytes)}"
        f" ({traffic.saved:.1f} times as much)"
    )
    yield f"{traffic.flops:.3g} floating-point operations"


def _error(error: NumericError) -> str:
    unfused = "" if error.unfused_rmse is None else f" (unfused {error.unfused_rmse:.2e})"
    verdict = "within the accuracy rule" if error.passed else "OUTSIDE the accuracy rule"
    return f"root mean square {error.rmse:.2e}{unfused}, largest {error.max_abs:.2e}: {verdict}"
