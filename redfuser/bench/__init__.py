"""Benchmarks: a model or a workload, fused against everything else that can run it, in one interleaved run."""
