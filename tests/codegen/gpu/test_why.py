"""Why an untuned schedule is as it is, in words."""

from __future__ import annotations

import pytest

from redfuser.algebra import derive
from redfuser.cascade.model import Cascade
from redfuser.codegen.gpu.schedule import candidates
from redfuser.codegen.gpu.why import why
from tests.codegen.gpu.programs import Attention, gpu, softmax

H800 = "for 132 multiprocessors"


@pytest.mark.parametrize(
    ("cascade", "text"),
    [
        (
            softmax(4096, 1024, "float16"),
            f"2 rows a block of 128 threads; 2048 blocks {H800}; the row stays in registers",
        ),
        (
            Attention("float16", heads=2, q_len=256, kv_len=256, dim=64).cascade(),
            f"128 points of i share each load; 4 blocks {H800}, which stream j",
        ),
        (
            Attention("float16", heads=1, q_len=64, kv_len=4096, dim=64).cascade(),
            f"64 points of i share each load; 1 block {H800}, so j is cut in 16 segments",
        ),
    ],
    ids=str,
)
def test_the_sentence_counts_what_blocks_share_out(cascade: Cascade, text: str) -> None:
    target = gpu("h800")
    assert why(cascade, candidates(cascade, derive(cascade), target)[0], target) == text
