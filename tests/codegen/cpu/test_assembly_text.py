from redfuser.codegen.cpu.assembly_text import read_assembly

X86 = """\
kernel:
\tsubq\t$72, %rsp
\tvmovups\t%ymm0, 32(%rsp)                # 32-byte Spill
\tvfmadd231ps\t%ymm1, %ymm2, %ymm0
\tvfnmadd213ps\t%ymm1, %ymm2, %ymm0
\tretq
"""

ARM = """\
kernel:
\tsub\tsp, sp, #64
\tstr\tq0, [sp, #16]                   // 16-byte Folded Spill
\tfmla\tv0.4s, v1.4s, v2.4s
\tfnmsub\ts0, s1, s2, s3
\tret
"""


def test_each_architecture_in_its_own_words() -> None:
    counts = {"instructions": 5, "fused_multiply_adds": 2, "spills": 1}
    assert read_assembly(X86, "x86_64") == counts | {"stack_bytes": 72, "vector_bits": 256}
    assert read_assembly(ARM, "aarch64") == counts | {"stack_bytes": 64, "vector_bits": 128}


def test_scalar_code() -> None:
    counts = {"instructions": 1, "fused_multiply_adds": 0, "spills": 0, "stack_bytes": 0, "vector_bits": 64}
    assert read_assembly("f:\n\tretq\n", "x86_64") == counts
    assert read_assembly("f:\n\tret\n", "aarch64") == counts
