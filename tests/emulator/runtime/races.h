// Accesses to shared memory that nothing orders, and ordinary writes that no proxy fence follows.
#pragma once
#include <array>
#include <numeric>
#include "clocks.h"
#include "memory.h"

namespace emulator {

struct Cell {  // of one byte
  Epoch write, read;
  int more_reads = -1;  // index of further readers, none of them ordered after another
  bool unfenced = false;
};
inline std::vector<Cell> cells;
inline std::vector<std::vector<Epoch>> reader_lists;
inline std::vector<int> unused_lists;  // of a byte that was written since, or of an earlier block
inline std::vector<size_t> unfenced_bytes;

// The tensor cores, ldmatrix and TMA stores read for whole warps: the time of each warp's first lane, by chunks of 16
// bytes.
constexpr size_t kChunk = 16;
constexpr uint32_t kUnfinished = ~uint32_t{0};
inline std::vector<std::array<uint32_t, kMaxThreads / 32>> collective_reads;

// Forget the last block: what this one has, which accesses don't go beyond.
inline void reset_races() {
  const auto forget = [](size_t begin, size_t end) {
    std::fill(cells.begin() + begin, cells.begin() + end, Cell{});
    std::fill(collective_reads.begin() + begin / kChunk, collective_reads.begin() + (end + kChunk - 1) / kChunk,
              std::array<uint32_t, kMaxThreads / 32>{});
  };
  const size_t end = kMaxDynamic + static_bytes();
  cells.resize(end);
  collective_reads.resize(end / kChunk + 1);
  forget(0, (dynamic_bytes + kChunk - 1) / kChunk * kChunk);
  forget(kMaxDynamic, end);
  unused_lists.resize(reader_lists.size());
  std::iota(unused_lists.begin(), unused_lists.end(), 0);
  unfenced_bytes.clear();
}

inline int new_list(Epoch one, Epoch other) {
  if (unused_lists.empty()) {
    unused_lists.push_back(int(reader_lists.size()));
    reader_lists.emplace_back();
  }
  const int list = unused_lists.back();
  unused_lists.pop_back();
  reader_lists[list].assign({one, other});
  return list;
}
inline void forget_readers(Cell &cell) {
  if (cell.more_reads >= 0) unused_lists.push_back(cell.more_reads);
  cell.read = {};
  cell.more_reads = -1;
}

inline std::string describe_race(size_t at, const char *what, const char *earlier, uint16_t owner) {
  return std::string(what) + " of " + place_of_byte(at) + " races with an earlier " + earlier + " by " +
         name_of(owner) + ": nothing orders them";
}
inline void report_race(size_t at, const char *what, const char *earlier, uint16_t owner) {
  fail("%s", describe_race(at, what, earlier, owner).c_str());
}

// A write may repeat the value that another thread or block has just written: copies of a fragment in several threads
// do so. It is a race if the bytes differ afterwards, which is known at the thread's next step.
struct Suspicion {
  const unsigned char *address = nullptr;
  size_t bytes;
  unsigned char value[16];
  std::string report;
};
inline Suspicion suspicion;
inline void suspect(const void *address, size_t bytes, std::string report) {
  suspicion = {static_cast<const unsigned char *>(address), std::min<size_t>(bytes, 16), {}, std::move(report)};
  memcpy(suspicion.value, address, suspicion.bytes);
}
inline void settle_suspicion() {
  if (!suspicion.address) return;
  const bool changed = memcmp(suspicion.address, suspicion.value, suspicion.bytes);
  suspicion.address = nullptr;
  if (changed) fail("%s", suspicion.report.c_str());
}

inline void note_read(size_t at, size_t bytes, int thread, const char *what = "a read") {
  for (size_t i = at; i < at + bytes; i++) {
    Cell &cell = cells[i];
    if (!is_before(cell.write, thread)) report_race(i, what, "write", cell.write.owner);
    if (cell.more_reads >= 0) {
      auto &readers = reader_lists[cell.more_reads];
      const auto own = std::find_if(readers.begin(), readers.end(), [&](Epoch e) { return e.owner == thread; });
      if (own != readers.end())
        *own = now(thread);
      else
        readers.push_back(now(thread));
    } else if (is_before(cell.read, thread)) {
      cell.read = now(thread);
    } else {
      cell.more_reads = new_list(cell.read, now(thread));
    }
  }
}

inline void check_written(size_t at, size_t bytes, int thread, const char *what) {
  for (size_t i = at; i < at + bytes; i++)
    if (!is_before(cells[i].write, thread)) report_race(i, what, "write", cells[i].write.owner);
}
inline void note_collective_read(size_t at, size_t bytes, int thread, const char *what) {
  check_written(at, bytes, thread, what);
  const int leader = thread / 32 * 32;
  for (size_t chunk = at / kChunk; chunk <= (at + bytes - 1) / kChunk; chunk++)
    collective_reads[chunk][thread / 32] = now(leader).time;
}

inline void check_readers(size_t at, size_t bytes, int thread, const char *what) {
  for (size_t i = at; i < at + bytes; i++) {
    const Cell &cell = cells[i];
    if (cell.more_reads >= 0) {
      for (Epoch reader : reader_lists[cell.more_reads])
        if (!is_before(reader, thread)) report_race(i, what, "read", reader.owner);
    } else if (!is_before(cell.read, thread)) {
      report_race(i, what, "read", cell.read.owner);
    }
  }
  for (size_t chunk = at / kChunk; chunk <= (at + bytes - 1) / kChunk; chunk++)
    for (int w = 0; w * 32 < thread_count; w++)
      if (w != thread / 32 && !is_before({collective_reads[chunk][w], uint16_t(w * 32)}, thread))
        report_race(std::max(at, chunk * kChunk), what, "collective read", uint16_t(w * 32));
}

inline void note_write(size_t at, size_t bytes, int thread) {
  check_readers(at, bytes, thread, "a write");
  for (size_t i = at; i < at + bytes; i++) {
    Cell &cell = cells[i];
    if (!is_before(cell.write, thread))
      suspect(byte_address(at), bytes, describe_race(i, "a write", "write", cell.write.owner));
    cell.write = now(thread);
    forget_readers(cell);
    if (!cell.unfenced) unfenced_bytes.push_back(i);
    cell.unfenced = true;
  }
}

// A TMA load writes in the name of its mbarrier, at the end of a phase that is still to come.
inline void note_asynchronous_write(size_t at, size_t bytes, int thread, Epoch arrival) {
  check_readers(at, bytes, thread, "a TMA load");
  for (size_t i = at; i < at + bytes; i++) {
    Cell &cell = cells[i];
    if (!is_before(cell.write, thread)) report_race(i, "a TMA load", "write", cell.write.owner);
    forget_readers(cell);
    cell.write = arrival;
    cell.unfenced = false;
  }
}

// fence.proxy.async: what is ordered before it may be read by TMA and the tensor cores.
inline void fence_writes(int thread) {
  std::erase_if(unfenced_bytes, [thread](size_t i) {
    if (!cells[i].unfenced) return true;
    if (!is_before(cells[i].write, thread)) return false;
    cells[i].unfenced = false;
    return true;
  });
}
inline void check_fenced(size_t at, size_t bytes, const char *what) {
  for (size_t i = at; i < at + bytes; i++)
    if (cells[i].unfenced) fail("%s of %s, written without a fence.proxy.async since", what, place_of_byte(i).c_str());
}

}  // namespace emulator
