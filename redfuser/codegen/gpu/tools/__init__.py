"""The tools that turn scripts into machine code: TileLang in a worker process, nvcc, the kernel cache."""
