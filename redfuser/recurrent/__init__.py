"""Recurrent layers: what they compute, shared by the frontend, which lowers them, and the back ends' own kernels."""
