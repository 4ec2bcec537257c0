"""A worker that dies, hangs or talks nonsense, and one that doesn't start."""

from __future__ import annotations

import sys

import pytest

from redfuser.codegen.gpu import Refused, Script
from redfuser.codegen.gpu.tools.worker import Limits, Worker
from redfuser.errors import MissingToolError

READY = "import json, sys, time\nprint(json.dumps({'ready': True}), flush=True)\n"
ANSWER = {
    "source": "// source",
    "entry": "k",
    "arguments": [{"parameter": "x"}],
    "grid": [1, 1, 1],
    "block": [32, 1, 1],
    "cluster": [1, 1, 1],
    "dynamic_shared": 0,
}
SCRIPT = Script("k", "", (), ())


def worker(body: str, seconds: float = 20) -> Worker:
    """A worker whose process runs ``body``."""
    return Worker(Limits(start_s=20, seconds=seconds), (sys.executable, "-c", body))


def serve(answer: str) -> str:
    return f"{READY}for line in sys.stdin:\n    {answer}\n"


def test_an_answer_is_read() -> None:
    with worker(serve(f"print(json.dumps({ANSWER!r}), flush=True)")) as healthy:
        assert healthy.lower(SCRIPT, "sm_90a").entry == "k"
        assert healthy.lower(SCRIPT, "sm_90a").arguments[0].parameter == "x"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("sys.exit('out of memory')", "exit code 1 while lowering k .witness: out of memory"),
        ("time.sleep(60)", "took more than 1 s"),
        ("print(json.dumps({'error': 'ValueError: no layout'}), flush=True)", "no layout"),
    ],
)
def test_a_bad_end_is_a_reason_and_the_next_script_gets_a_new_process(answer: str, said: str) -> None:
    with worker(serve(answer), seconds=1) as ailing:
        for _ in range(2):
            with pytest.raises(Refused, match=said):
                ailing.lower(SCRIPT, "sm_90a")


def test_a_process_that_does_not_start_is_an_error_with_a_mend() -> None:
    with worker("import sys; sys.exit('no module named tilelang')") as absent:
        with pytest.raises(MissingToolError, match="no module named tilelang") as caught:
            absent.lower(SCRIPT, "sm_90a")
        assert "redfuser[gpu]" in caught.value.hint
