"""What changed between two fusion reports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from redfuser.records import encode
from redfuser.report.document import Document
from redfuser.report.value import CascadeEntry, FusionReport

SCHEMA = "redfuser.report-diff/1"


@dataclass(frozen=True)
class Change:
    """One difference.

    Args:
        cascade: id in the newer report, or in the older one for a cascade that is gone.
        field: what differs.
        old: value before; empty for a new cascade.
        new: value now; empty for a cascade that is gone.
        effect: ``better``, ``worse`` or empty where neither can be said.
    """

    cascade: str
    field: str
    old: str
    new: str
    effect: str = ""

    def __str__(self) -> str:
        return f"{self.cascade} {self.field}: {self.old or 'nothing'} -> {self.new or 'nothing'} {self.effect}".rstrip()


@dataclass(frozen=True)
class ReportDiff:
    """All differences between an older and a newer report, in the newer report's order."""

    old: str
    new: str
    changes: tuple[Change, ...]

    def as_data(self) -> dict[str, Any]:
        """JSON-ready data."""
        return {"schema": SCHEMA, **encode(self)}

    def __str__(self) -> str:
        return "\n".join(map(str, self.changes)) or "no differences"


def compare_reports(old: FusionReport, new: FusionReport) -> ReportDiff:
    """Compare cascade by cascade.

    Cascades are matched by the ONNX nodes they cover, and those left over by id, since ids count up in graph order
    and shift when the model changes.
    """
    changes = [*_pair("model", _model_fields(old), _model_fields(new))]
    pairs, gone = _match(old.cascades, new.cascades)
    for before, after in pairs:
        if before is None:
            changes.append(Change(after.id, "cascade", "", f"{after.kind} {after.verdict}"))
        else:
            changes += _pair(after.id, _fields(before), _fields(after))
    changes += [Change(entry.id, "cascade", f"{entry.kind} {entry.verdict}", "") for entry in gone]
    return ReportDiff(old.model.name, new.model.name, tuple(changes))


def describe_diff(diff: ReportDiff) -> Document:
    """The diff as a document for the renderings."""
    count = len(diff.changes)
    return Document(
        title=f"Fusion report changes: {diff.old} to {diff.new}",
        lead=(f"{count or 'no'} {'difference' if count == 1 else 'differences'} from {diff.old} to {diff.new}",),
        header=("cascade", "what", "before", "now", "effect"),
        rows=tuple((c.cascade, c.field, c.old, c.new, c.effect) for c in diff.changes),
        sections=(),
    )


def _match(
    old: Iterable[CascadeEntry], new: Iterable[CascadeEntry]
) -> tuple[list[tuple[CascadeEntry | None, CascadeEntry]], list[CascadeEntry]]:
    left = list(old)
    found: dict[str, CascadeEntry] = {}
    entries = list(new)
    for same in (lambda a, b: bool(a.onnx_nodes) and a.onnx_nodes == b.onnx_nodes, lambda a, b: a.id == b.id):
        for entry in entries:
            if entry.id in found:
                continue
            twin = next((other for other in left if same(other, entry)), None)
            if twin is not None:
                found[entry.id] = twin
                left.remove(twin)
    return [(found.get(entry.id), entry) for entry in entries], left


def _model_fields(report: FusionReport) -> dict[str, str]:
    return {"file": report.model.sha256, "target": f"{report.target.name} {report.target.arch}"}


def _fields(entry: CascadeEntry) -> dict[str, str]:
    return {
        "kind": entry.kind,
        "verdict": entry.verdict,
        "reason": str(entry.reason or ""),
        "exactness": entry.exactness or "",
        "strategy": entry.strategy,
        "schedule": ", ".join(f"{name} {value}" for name, value in sorted(entry.schedule.items())),
        "bytes moved": str(entry.traffic.read_bytes + entry.traffic.write_bytes) if entry.traffic else "",
        "time in us": f"{entry.time.value_us:.4g} {entry.time.how}" if entry.time else "",
    }


def _pair(cascade: str, old: dict[str, str], new: dict[str, str]) -> Iterator[Change]:
    for field in new:
        if old[field] != new[field]:
            yield Change(cascade, field, old[field], new[field], _effect(field, old[field], new[field]))


def _effect(field: str, old: str, new: str) -> str:
    if field == "verdict":
        return "better" if new == "fused" else "worse"
    if field in ("bytes moved", "time in us") and old and new:
        (before, *how_before), (now, *how_now) = old.split(), new.split()
        if how_before == how_now:
            return "better" if float(now) < float(before) else "worse"
    return ""
