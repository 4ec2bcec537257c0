"""Products of matrices of bytes in int32: AMX tiles, else VNNI vectors, else AVX2's pairs of 16-bit integers."""
