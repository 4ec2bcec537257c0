// Tensor maps: what cuTensorMapEncodeTiled checks, and the walk over a box.
#pragma once
#include "memory.h"

namespace emulator {

enum TensorMapType { kUint8 = 0, kInt32 = 3, kFloat16 = 6, kFloat32 = 7, kBFloat16 = 9 };  // of CUtensorMapDataType

inline int element_bytes(int data_type) {
  static const int bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
  return data_type >= 0 && data_type < 13 ? bytes[data_type] : 0;
}

inline size_t box_bytes(const CUtensorMap &map) {
  size_t bytes = element_bytes(map.data_type);
  for (int i = 0; i < map.rank; i++) bytes *= map.box[i];
  return bytes;
}

// Visit the box row by row: f(offset of the row in the packed box, global address of its first element, first and one
// past the last byte of the row that lie inside the tensor). Rows wholly outside are passed over.
template <class F>
void visit_rows(const CUtensorMap &map, const int *coordinates, F f) {
  const int width = element_bytes(map.data_type);
  size_t rows = 1;
  for (int i = 1; i < map.rank; i++) rows *= map.box[i];
  for (size_t row = 0; row < rows; row++) {
    size_t rest = row;
    char *address = map.base + int64_t{coordinates[0]} * width;
    bool inside = true;
    for (int i = 1; i < map.rank; i++) {
      const int64_t at = coordinates[i] + static_cast<int64_t>(rest % map.box[i]);
      rest /= map.box[i];
      inside = inside && at >= 0 && at < map.extent[i];
      address += at * map.stride[i];
    }
    const int64_t first = std::max<int64_t>(0, -int64_t{coordinates[0]});
    const int64_t last = std::min<int64_t>(map.box[0], map.extent[0] - coordinates[0]);
    if (inside && first < last) f(row * map.box[0] * width, address, first * width, last * width);
  }
}

// The arguments of cuTensorMapEncodeTiled after the address: extents, strides in bytes of all but the innermost, box,
// element strides; then interleave, swizzle, L2 promotion, out-of-bounds fill. Returns what is wrong.
inline std::string encode_tensor_map(CUtensorMap &map, int data_type, int rank, void *base, const int64_t *values) {
  const int width = element_bytes(data_type);
  if (!width || rank < 1 || rank > 5)
    return "data type " + std::to_string(data_type) + ", rank " + std::to_string(rank);
  const int64_t *extent = values, *stride = extent + rank, *box = stride + rank - 1, *step = box + rank;
  const int64_t interleave = step[rank], swizzle = step[rank + 1], fill = step[rank + 3];
  map = {data_type, rank, static_cast<int>(swizzle), static_cast<char *>(base), {}, {}, {}};
  int64_t last = width;  // bytes to the end of the tensor's last element
  for (int i = 0; i < rank; i++) {
    map.extent[i] = extent[i];
    map.stride[i] = i ? stride[i - 1] : width;
    map.box[i] = static_cast<int>(box[i]);
    last += (extent[i] - 1) * map.stride[i];
    const std::string at = "[" + std::to_string(i) + "] = ";
    if (extent[i] < 1 || extent[i] > (int64_t{1} << 32)) return "extent" + at + std::to_string(extent[i]);
    if (i && (map.stride[i] % 16 || map.stride[i] < 0 || map.stride[i] >= (int64_t{1} << 40)))
      return "stride" + at + std::to_string(map.stride[i]) + " (it must be a multiple of 16)";
    if (box[i] < 1 || box[i] > 256) return "box" + at + std::to_string(box[i]);
    if (step[i] != 1) return "element stride" + at + std::to_string(step[i]) + " is not emulated";
  }
  const int64_t inner = box[0] * width, span = swizzle ? 16 << swizzle : 0;
  if (reinterpret_cast<uintptr_t>(base) % 16) return "the global address is not aligned to 16";
  if (interleave) return "interleaving is not emulated";
  if (fill) return "a fill of NaN is not emulated";
  if (swizzle < 0 || swizzle > 3) return "swizzle mode " + std::to_string(swizzle) + " is not emulated";
  if (inner % 16 || (span && inner > span))
    return "an inner box of " + std::to_string(inner) + " bytes with a swizzle span of " + std::to_string(span);
  for (const auto &[begin, array] : global_arrays)
    if (base >= array.begin && base < array.begin + array.bytes && map.base + last > array.begin + array.bytes)
      return "it reaches " + std::to_string(last) + " bytes far, but " + array.name + " has " +
             std::to_string(array.bytes);
  return "";
}

}  // namespace emulator
