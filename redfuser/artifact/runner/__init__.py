"""Runs a bundle of GPU kernels where the GPU is. Bundles carry a copy of these files: Python, NumPy and a driver do."""
