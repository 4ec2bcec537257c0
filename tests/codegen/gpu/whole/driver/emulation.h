/* Launches that compute: the recording driver hands them to the emulator of tests/emulator.
 *
 * CUDA_EMULATION names a text file: the emulator's runtime, the four numbers of its schedule, then a line a kernel with
 * its entry, its library, and a letter a parameter: p an address, v a value. Without it nothing here does anything.
 * What the emulator finds wrong goes to stderr, and the launch fails.
 */
#include <dlfcn.h>

enum { EMULATED_MAPS = 65536, MAP_BYTES = 128, LAUNCH_FAILED = 719 };
enum { MOST_PARAMETERS = 256 }; /* as the launcher's RF_MAX_ARGUMENTS */
typedef int (*EmulatedKernel)(void** arguments, const int* grid, const int* block, size_t shared);
typedef struct { char entry[256], kinds[MOST_PARAMETERS + 1]; EmulatedKernel run; } Emulated;

static struct {
  int on;
  Emulated* kernels;
  int count;
  const char* (*error)(void);
  int (*tensor_map)(void*, int, int, void*, const int64_t*);
  void (*add_array)(const char*, void*, size_t);
  void (*remove_array)(const void*);
  void* maps[EMULATED_MAPS]; /* by the numbers that the recording gives them */
} emulation;

static void* loaded(const char* path, int scope) {
  void* library = dlopen(path, RTLD_NOW | scope);
  if (!library) fprintf(stderr, "emulation: %s\n", dlerror()), abort();
  return library;
}

static void load_runtime(FILE* file) {
  char path[512];
  int schedule[4];
  if (fscanf(file, "%511s %d %d %d %d", path, schedule, schedule + 1, schedule + 2, schedule + 3) != 5) abort();
  void* runtime = loaded(path, RTLD_GLOBAL);
  *(void**)&emulation.error = dlsym(runtime, "emulator_error");
  *(void**)&emulation.tensor_map = dlsym(runtime, "emulator_tensor_map");
  *(void**)&emulation.add_array = dlsym(runtime, "emulator_add_array");
  *(void**)&emulation.remove_array = dlsym(runtime, "emulator_remove_array");
  void (*options)(int, int, int, unsigned);
  *(void**)&options = dlsym(runtime, "emulator_options");
  options(schedule[0], schedule[1], schedule[2], (unsigned)schedule[3]);
}

__attribute__((constructor)) static void start_emulation(void) {
  const char* path = getenv("CUDA_EMULATION");
  FILE* file = path ? fopen(path, "r") : NULL;
  char library[512], symbol[300];
  Emulated kernel;
  if (!file) return;
  load_runtime(file);
  while (fscanf(file, "%255s %511s %256s", kernel.entry, library, kernel.kinds) == 3) {
    snprintf(symbol, sizeof symbol, "run_%s", kernel.entry);
    *(void**)&kernel.run = dlsym(loaded(library, RTLD_LOCAL), symbol);
    emulation.kernels = realloc(emulation.kernels, (size_t)(emulation.count + 1) * sizeof kernel);
    emulation.kernels[emulation.count++] = kernel;
  }
  fclose(file);
  emulation.on = 1;
}

/* Fresh memory holds NaN, or -1: whatever is read before it is written shows. */
static void emulate_allocation(void* start, size_t size, int number) {
  char name[32];
  if (!emulation.on) return;
  snprintf(name, sizeof name, "allocation %d", number);
  memset(start, 0xff, size);
  emulation.add_array(name, start, size);
}

static void emulate_free(const void* start) {
  if (emulation.on) emulation.remove_array(start);
}

static int emulate_map(int number, int type, int rank, void* address, const uint64_t* shape, const uint64_t* strides,
                       const uint32_t* box, const uint32_t* steps, const int codes[4]) {
  int64_t values[24], *next = values;
  if (!emulation.on) return 0;
  for (int i = 0; i < rank; i++) *next++ = (int64_t)shape[i];
  for (int i = 0; i + 1 < rank; i++) *next++ = (int64_t)strides[i];
  for (int i = 0; i < rank; i++) *next++ = box[i];
  for (int i = 0; i < rank; i++) *next++ = steps[i];
  for (int i = 0; i < 4; i++) *next++ = codes[i];
  if (number >= EMULATED_MAPS) return 1;
  emulation.maps[number] = aligned_alloc(64, MAP_BYTES);
  if (!emulation.tensor_map(emulation.maps[number], type, rank, address, values)) return 0;
  return fprintf(stderr, "emulation: %s\n", emulation.error()), 1;
}

/* Parameters as the host side of the emulator's kernels takes them: addresses themselves, values by their place. */
static int emulate_launch(const char* entry, void** values, const unsigned* grid, const unsigned* block,
                          const unsigned* cluster, unsigned shared) {
  void* arguments[MOST_PARAMETERS];
  if (!emulation.on) return 0;
  if (cluster[0] * cluster[1] * cluster[2] > 1) return fprintf(stderr, "emulation: %s has clusters\n", entry), 1;
  for (int k = 0; k < emulation.count; k++) {
    const Emulated* kernel = &emulation.kernels[k];
    if (strcmp(kernel->entry, entry)) continue;
    for (int i = 0; kernel->kinds[i]; i++) {
      if (kernel->kinds[i] == 'p') arguments[i] = *(void**)values[i];
      else if (!memcmp(values[i], "TMA-MAP", 8)) arguments[i] = emulation.maps[((uint64_t*)values[i])[1]];
      else arguments[i] = values[i];
    }
    if (!kernel->run(arguments, (const int*)grid, (const int*)block, shared)) return 0;
    return fprintf(stderr, "emulation: %s: %s\n", entry, emulation.error()), LAUNCH_FAILED;
  }
  return fprintf(stderr, "emulation: there is no kernel %s\n", entry), 1;
}
