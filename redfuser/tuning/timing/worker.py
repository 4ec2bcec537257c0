"""The process that times kernels, so that one that crashes takes nothing else with it.

Started as ``python -m redfuser.tuning.timing.worker``. Reads one request a line: ``{"jobs": [Job…], "plan": Plan}``.
Answers with one line for each event: ``{"ready": true}`` once, when it has started; ``{"begin": n}`` before job n
runs, so that its death can be blamed on it; ``{"job": n, "seconds": […]}`` or ``{"job": n, "failure": "…"}``;
``{"done": true}`` at the end of a request.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from redfuser.tuning.timing.measure import serve


def main() -> None:
    """Serve requests until stdin ends."""
    # What a library prints must not mix with the answers.
    answers, sys.stdout = sys.stdout, sys.stderr
    import tvm

    def answer(event: dict[str, Any]) -> None:
        print(json.dumps(event), file=answers, flush=True)

    answer({"ready": True})
    for line in sys.stdin:
        request = json.loads(line)
        serve(request["jobs"], request["plan"], answer, tvm.runtime.load_module, tvm.cpu())


if __name__ == "__main__":
    main()
