"""Products of matrices of bytes in int32: AMX tiles, or VNNI vectors where there are none."""
