// The runtime as one translation unit, and its C interface for runtime.py.
#include "launch.h"

extern "C" {

const char *emulator_error() { return emulator::error.c_str(); }
size_t emulator_error_offset() { return emulator::error_offset; }

void emulator_options(int arrival, int order, int reversed_blocks, unsigned seed) {
  emulator::options = {emulator::Arrival(arrival), emulator::Order(order), reversed_blocks != 0, seed};
}

void emulator_blocks(const unsigned *numbers, int count) {
  emulator::chosen_blocks.assign(numbers, numbers + count);
}

int emulator_tensor_map_bytes() { return sizeof(CUtensorMap); }

int emulator_tensor_map(CUtensorMap *map, int data_type, int rank, void *base, const int64_t *values) {
  const std::string wrong = emulator::encode_tensor_map(*map, data_type, rank, base, values);
  emulator::error = wrong.empty() ? "" : "tensor map: " + wrong;
  emulator::error_offset = 0;
  return !wrong.empty();
}

void emulator_forget_arrays() { emulator::global_arrays.clear(); }

void emulator_add_array(const char *name, char *begin, size_t bytes) {
  emulator::global_arrays[begin] = {name, begin, bytes, {}, {}};
}

void emulator_remove_array(const char *begin) { emulator::global_arrays.erase(begin); }

}
