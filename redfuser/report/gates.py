"""Gates on a report: what a build step requires to be fused."""

from __future__ import annotations

from redfuser.errors import FusionGateError
from redfuser.options import CompileOptions
from redfuser.report.value import FusionReport


def check_gates(report: FusionReport, options: CompileOptions) -> None:
    """Check ``require_fused`` and ``fail_on_missed``.

    Raises:
        FusionGateError: names each gate that isn't met and the cascades that stand in its way.
    """
    fused = {**report.kinds(fused_only=True), "any": report.fused}
    broken = [
        f"{gate} but {fused.get(gate.kind, 0)} fused"
        for gate in options.require_fused
        if not gate.holds(fused.get(gate.kind, 0))
    ]
    missed = [entry for entry in report.cascades if entry.reason is not None]
    if options.fail_on_missed and missed:
        broken.append(f"{len(missed)} of {len(report.cascades)} cascades not fused")
    if not broken:
        return
    reasons = "; ".join(f"{entry.id} ({entry.kind}): {entry.reason}" for entry in missed[:8])
    more = f"; and {len(missed) - 8} more" if len(missed) > 8 else ""
    raise FusionGateError(
        f"fusion gate not met: {'; '.join(broken)}" + (f". Not fused: {reasons}{more}" if reasons else ""),
        "redfuser analyze MODEL shows every candidate and why it wasn't fused",
    )
