"""Kernels with one fault each: the text of a right one, changed in one place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """A change of a source, and the error that it must lead to.

    Args:
        name: what is wrong.
        case: the right kernel.
        old, new: the text that is replaced, where it stands first.
        error: a regular expression for the error; None where only the result is wrong.
        after: text behind which to look for ``old``.
        everywhere: replace all of them.
        slow: not among the tests that always run.
    """

    name: str
    case: str
    old: str
    new: str
    error: str | None
    after: str = ""
    everywhere: bool = False
    slow: bool = False

    def apply(self, source: str) -> str:
        """The faulty source.

        Raises:
            ValueError: the text to replace isn't there.
        """
        start = source.index(self.after)
        head, tail = source[:start], source[start:]
        if self.old not in tail:
            raise ValueError(f"{self.name}: {self.case} has no {self.old!r}")
        return head + tail.replace(self.old, self.new, -1 if self.everywhere else 1)


K_WAIT = "mbarrier[(k_1 & 1)].wait((k_1 >> 1));"
V_WAIT = "mbarrier[((k_1 & 1) + 2)].wait((k_1 >> 1));"
K_FREE = "mbarrier[((k_1 & 1) + 4)].arrive();"
SYNC = "tl::__sync_thread_partial(3, 256);"
COPY_WAIT = "tl::cp_async_wait<3>();"

HOPPER = (
    Fault(
        "no wait for K", "attention_sm90", K_WAIT, "", "wgmma's read of .* races with an earlier write by a TMA load"
    ),
    Fault("no wait for V", "attention_sm90", V_WAIT, "", "races with an earlier write by a TMA load", slow=True),
    Fault("no wait for Q", "attention_sm90", "mbarrier[8].wait(0);", "", "races with an earlier write by a TMA load"),
    Fault(
        "no wait for a free stage",
        "attention_sm90",
        "mbarrier[((k & 1) + 4)].wait(((k >> 1) ^ 1));",
        "",
        "a TMA load of .* races with an earlier|more arrivals than its count",
    ),
    Fault("wrong parity of the consumer", "attention_sm90", K_WAIT, K_WAIT.replace("1));", "1) ^ 1);"), "races with"),
    Fault("wrong parity of the producer", "attention_sm90", "].wait(((k >> 1) ^ 1));", "].wait((k >> 1));", "deadlock"),
    Fault("a stage is never freed", "attention_sm90", K_FREE, "", "deadlock", slow=True),
    Fault(
        "a stage is freed before its product",
        "attention_sm90",
        K_WAIT,
        K_WAIT + K_FREE,
        "races with|more arrivals",
        slow=True,
    ),
    Fault(
        "fewer bytes announced than come",
        "attention_sm90",
        "arrive_and_expect_tx(32768);\n        #pragma",
        "arrive_and_expect_tx(16384);\n        #pragma",
        "tx-count|races with|deadlock",
    ),
    Fault(
        "one arrival too few", "attention_sm90", "mbarrier[4].init(256)", "mbarrier[4].init(255)", "phase", slow=True
    ),
    Fault(
        "one arrival too many",
        "attention_sm90",
        "mbarrier[4].init(256)",
        "mbarrier[4].init(257)",
        "deadlock",
        slow=True,
    ),
    Fault(
        "no barrier after init", "attention_sm90", "  __syncthreads();\n", "", "before its init|races", everywhere=True
    ),
    Fault("no wgmma wait", "attention_sm90", "tl::warpgroup_wait<0>();", "", "accumulator|races with"),
    Fault("a wait for all but one group", "attention_sm90", "wait<0>();", "wait<1>();", "accumulator|races", slow=True),
    Fault("no wgmma commit", "attention_sm90", "tl::warpgroup_commit_batch();", "", "accumulator|races with"),
    Fault("no wgmma fence", "attention_sm90", "tl::warpgroup_arrive();", "", "without wgmma.fence"),
    Fault("a descriptor with the wrong swizzle", "attention_sm90", "<1, 1, 64>(desc_b", "<2, 1, 64>(desc_b", None),
    Fault(
        "a descriptor with the wrong stride",
        "attention_sm90",
        "<1, 1, 64>(desc_b",
        "<1, 1, 32>(desc_b",
        None,
        slow=True,
    ),
    Fault("a descriptor with the wrong leading step", "attention_sm90", "<1, 1024, 64>", "<1, 512, 64>", None),
    Fault(
        "V read as K-major",
        "attention_sm90",
        "64, 128, 16, false, true, 1, 1>",
        "64, 128, 16, false, false, 1, 1>",
        None,
    ),
    Fault("no barrier before the output is staged", "attention_sm90", SYNC, "", "races with"),
    Fault("no proxy fence", "attention_sm90", "tl::fence_proxy_async();", "", "without a fence.proxy.async"),
    Fault("no barrier before the output is stored", "attention_sm90", SYNC, "", "races with", after="stmatrix"),
    Fault(
        "a barrier for threads that never come",
        "attention_sm90",
        SYNC,
        SYNC.replace("256", "384"),
        "deadlock",
        slow=True,
    ),
    Fault(
        "a store that nobody waits for",
        "attention_sm90",
        "tl::tma_store_wait<0, true>();",
        "",
        "TMA store that was not",
    ),
    Fault(
        "a store that is never committed",
        "attention_sm90",
        "tl::tma_store_arrive();",
        "",
        "TMA store that was not",
        slow=True,
    ),
    Fault(
        "a load into the next stage",
        "product_sm90",
        "Bs)[(((step % 3)",
        "Bs)[((((step + 1) % 3)",
        "races with",
    ),
    Fault(
        "a load to a misaligned place",
        "product_sm90",
        "As)[((step % 3) * 8192)]",
        "As)[((step % 3) * 8192 + 8)]",
        "aligned to 128",
    ),
    Fault(
        "staging without the swizzle",
        "product_sm90_staged",
        "+ (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8)",
        "+ ((((int)threadIdx.x) & 31) >> 4) * 8",
        None,
    ),
)

AMPERE = (
    Fault("no wait for a copy", "attention_sm80", COPY_WAIT, "", None),
    Fault("a wait for too few copies", "attention_sm80", COPY_WAIT, "tl::cp_async_wait<4>();", None, slow=True),
    Fault("no barrier after the wait", "attention_sm80", "__syncthreads();", "", "races with", after=COPY_WAIT),
    Fault(
        "no barrier before a stage is used again",
        "attention_sm80",
        "  __syncthreads();",
        "",
        "races with",
        after="mma_sync",
    ),
    Fault("a copy past the end of an array", "attention_sm80", "Vs)[", "Vs)[100000 + ", "dynamic shared bytes"),
    Fault("a read past the end of an array", "attention_sm80", ") < 25)) {", ") < 50)) {", "of Q, which has"),
    Fault("no mask on the last keys", "attention_sm80", "condval_1 = -CUDART_INF_F", "condval_1 = 0.f", None),
    Fault("a misaligned vector", "attention_sm80", "*(uint4*)(Q + (", "*(uint4*)(Q + 4 + (", "misaligned"),
    Fault(
        "a matrix row that is misaligned",
        "attention_sm80",
        "x4((&(((half_t*)Qs)[(",
        "x4((&(((half_t*)Qs)[4 + (",
        "aligned to 16",
    ),
    Fault("no barrier in a reduction", "layer_norm_sm90", "tl::NamedBarrier<128>", "NoBarrier", "races with"),
    Fault(
        "a reduction over half the threads",
        "layer_norm_sm90",
        "AllReduce<tl::SumOp, 128",
        "AllReduce<tl::SumOp, 64",
        None,
    ),
    Fault("a write past the last row", "layer_norm_sm80", "< 3)", "< 4)", "which has", everywhere=True),
    Fault(
        "an addition that isn't atomic", "column_sums_sm80", "AtomicAdd((&(Y", "plain_add((&(Y", "in the same launch"
    ),
)

SELECTIONS = (
    Fault("NaN below all numbers", "selection_sm86", "= 2143289344;", "= -2143289344;", None),
    Fault("ties go to the last", "routing_sm80", "- ((int64_t)i)) - (((", "+ ((int64_t)i)) + (((", None),
    Fault("a round takes the same again", "routing_sm80", "if ((list2_candidates[i_1] == ", "if ((0 == ", None),
    Fault(
        "a round searches half a row",
        "routing_sm80",
        "AllReduce<tl::MaxOp, 16",
        "AllReduce<tl::MaxOp, 8",
        None,
        after="place < 6",
    ),
    Fault("no barrier before a list is read", "routing_sm80", "  __syncthreads();", "", "races with"),
)

# What some of the new texts call.
PRELUDE = (
    "template <class T> void plain_add(T *address, T value) { *address += value; } "
    "struct NoBarrier { template <int phase> static void sync() {} };\n"
)
