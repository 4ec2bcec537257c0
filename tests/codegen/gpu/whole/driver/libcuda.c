/* A CUDA driver that writes down what it was asked, one JSON object a line, and computes only as emulation.h says.
 *
 * "Device memory" is host memory. CUDA_RECORDING names the file to write; CUDA_RECORDING_CAPABILITY (90 if not given),
 * CUDA_RECORDING_VERSION (13000), CUDA_RECORDING_SHARED (232448) and CUDA_RECORDING_DEVICES (1) say what to pretend.
 * The kernels' parameters are read from the machine code itself, as the real driver does, so that an argument list
 * of another length or order shows.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "emulation.h"

typedef struct { unsigned char* start; size_t size; } Allocation;
typedef struct { int count; uint16_t size[MOST_PARAMETERS]; } Parameters;
typedef struct { const unsigned char* image; int number; } Module;
typedef struct { Module* module; char name[256]; Parameters parameters; int shared; } Function;
typedef struct { unsigned grid[3], block[3], shared; void* stream; void* attributes; unsigned count; } Config;
typedef struct { unsigned id, padding; union { unsigned extent[3]; char bytes[64]; } value; } Attribute;

static Allocation allocations[65536];
static int allocation_count, module_count, map_count;
static __thread void* current;
static char contexts[8];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int setting(const char* name, int otherwise) {
  const char* value = getenv(name);
  return value ? atoi(value) : otherwise;
}

static FILE* recording(void) {
  static FILE* file;
  if (!file) {
    const char* path = getenv("CUDA_RECORDING");
    file = fopen(path ? path : "/dev/null", "a");
    setvbuf(file, NULL, _IOLBF, 1 << 16);
  }
  return file;
}

/* A whole line at once: other threads record too. */
static void record(const char* format, ...) {
  va_list values;
  va_start(values, format);
  pthread_mutex_lock(&lock);
  vfprintf(recording(), format, values);
  pthread_mutex_unlock(&lock);
  va_end(values);
}

static void list(const char* name, const void* values, int bytes, int count) {
  fprintf(recording(), ", \"%s\": [", name);
  for (int i = 0; i < count; i++) {
    unsigned long long value = bytes == 8 ? ((const uint64_t*)values)[i] : ((const uint32_t*)values)[i];
    fprintf(recording(), "%s%llu", i ? ", " : "", value);
  }
  fprintf(recording(), "]");
}

/* An address as the number of the allocation and the place in it; -1 for one that isn't on the device. */
static void place(const void* address) {
  for (int i = allocation_count - 1; i >= 0; i--) {
    const unsigned char* start = allocations[i].start;
    if (start && (const unsigned char*)address >= start && (const unsigned char*)address < start + allocations[i].size) {
      fprintf(recording(), "{\"allocation\": %d, \"offset\": %zd, \"size\": %zu}", i, (const unsigned char*)address - start,
              allocations[i].size);
      return;
    }
  }
  fprintf(recording(), "{\"allocation\": -1}");
}

/* Sizes of a kernel's parameters: records of attribute 0x17 in its section .nv.info.NAME. */
static int read_parameters(const unsigned char* image, const char* name, Parameters* found) {
  const Elf64_Ehdr* header = (const Elf64_Ehdr*)image;
  const Elf64_Shdr* sections = (const Elf64_Shdr*)(image + header->e_shoff);
  const char* names = (const char*)image + sections[header->e_shstrndx].sh_offset;
  char wanted[320];
  int has_code = 0;
  snprintf(wanted, sizeof wanted, ".nv.info.%s", name);
  for (int i = 0; i < header->e_shnum; i++) {
    const char* section = names + sections[i].sh_name;
    if (!strncmp(section, ".text.", 6) && !strcmp(section + 6, name)) has_code = 1;
    if (strcmp(section, wanted)) continue;
    const unsigned char* at = image + sections[i].sh_offset;
    const unsigned char* end = at + sections[i].sh_size;
    while (at < end) {
      unsigned length = at[0] == 4 ? at[2] | at[3] << 8 : 0;
      if (at[0] == 4 && at[1] == 0x17) {
        unsigned ordinal = at[8] | at[9] << 8, flags;
        memcpy(&flags, at + 12, 4);
        found->size[ordinal] = flags >> 18 & 0x3fff;
        if ((int)ordinal >= found->count) found->count = (int)ordinal + 1;
      }
      at += 4 + length;
    }
  }
  return has_code;
}

int cuInit(unsigned flags) { return flags != 0; }
int cuDriverGetVersion(int* version) { *version = setting("CUDA_RECORDING_VERSION", 13000); return 0; }
int cuGetErrorName(int code, const char** name) { *name = code == 1 ? "CUDA_ERROR_INVALID_VALUE" : "CUDA_ERROR_RECORDED"; return 0; }
int cuGetErrorString(int code, const char** text) { return cuGetErrorName(code, text); }
int cuDeviceGetName(char* name, int length, int device) { snprintf(name, length, "Recorder %d", device); return 0; }

int cuDeviceGetAttribute(int* value, int attribute, int device) {
  int capability = setting("CUDA_RECORDING_CAPABILITY", 90);
  (void)device;
  *value = attribute == 75 ? capability / 10 : attribute == 76 ? capability % 10
         : attribute == 97 ? setting("CUDA_RECORDING_SHARED", 232448) : attribute == 10 ? 32 : 1024;
  return 0;
}

int cuDevicePrimaryCtxRetain(void** context, int device) { *context = &contexts[device]; return 0; }
int cuCtxGetCurrent(void** context) { *context = current; return 0; }
int cuCtxSetCurrent(void* context) { current = context; return 0; }
int cuCtxGetId(void* context, unsigned long long* id) { *id = 100 + (char*)context - contexts; return context == NULL; }
int cuCtxGetDevice(int* device) { *device = (int)((char*)current - contexts); return current ? 0 : 201; }

int cuCtxPushCurrent_v2(void* context) {
  record("{\"event\": \"push\", \"device\": %d, \"over\": %d}\n", (int)((char*)context - contexts), current != NULL);
  current = context;
  return 0;
}

int cuCtxPopCurrent_v2(void** context) {
  *context = current;
  current = NULL;
  record("{\"event\": \"pop\"}\n");
  return 0;
}

int cuMemAlloc_v2(void** address, size_t size) {
  pthread_mutex_lock(&lock);
  /* Zeros, of which only what is touched takes memory: tests allocate more than a machine may have. */
  *address = mmap(NULL, size ? size : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  emulate_allocation(*address, size, allocation_count);
  allocations[allocation_count++] = (Allocation){*address, size};
  pthread_mutex_unlock(&lock);
  return 0;
}

int cuMemFree_v2(void* address) {
  pthread_mutex_lock(&lock);
  emulate_free(address);
  for (int i = 0; i < allocation_count; i++)
    if (address && allocations[i].start == address) {
      munmap(address, allocations[i].size ? allocations[i].size : 1);
      allocations[i].start = NULL;
    }
  pthread_mutex_unlock(&lock);
  return 0;
}

int cuMemGetInfo_v2(size_t* unused, size_t* total) {
  *unused = *total = (size_t)1 << 34;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < allocation_count; i++)
    if (allocations[i].start) *unused -= allocations[i].size;
  pthread_mutex_unlock(&lock);
  return 0;
}

int cuMemcpyHtoD_v2(void* to, const void* from, size_t size) { memcpy(to, from, size); return 0; }
int cuMemcpyDtoH_v2(void* to, const void* from, size_t size) { memcpy(to, from, size); return 0; }
int cuCtxSynchronize(void) { return 0; }
int cuEventCreate(void** event, unsigned flags) { *event = &contexts[7]; return flags != 0; }
int cuEventRecord(void* event, void* stream) { (void)stream; return event == NULL; }
int cuEventSynchronize(void* event) { return event == NULL; }
int cuEventElapsedTime(float* ms, void* from, void* to) { (void)from; (void)to; *ms = 0.25f; return 0; }

int cuModuleLoadData(void** module, const void* image) {
  Module* loaded = calloc(1, sizeof *loaded);
  pthread_mutex_lock(&lock);
  *loaded = (Module){image, module_count++};
  pthread_mutex_unlock(&lock);
  if (memcmp(image, ELFMAG, SELFMAG)) return 209; /* text to be compiled at load is refused */
  record("{\"event\": \"load\", \"module\": %d, \"machine\": %d}\n", loaded->number, ((const Elf64_Ehdr*)image)->e_machine);
  return *module = loaded, 0;
}

int cuModuleUnload(void* module) { free(module); return 0; }

int cuModuleGetFunction(void** function, void* module, const char* name) {
  Function* found = calloc(1, sizeof *found);
  found->module = module;
  snprintf(found->name, sizeof found->name, "%s", name);
  if (!read_parameters(found->module->image, name, &found->parameters)) return 500;
  return *function = found, 0;
}

int cuFuncSetAttribute(void* function, int attribute, int value) {
  Function* changed = function;
  if (attribute == 8) changed->shared = value;
  record("{\"event\": \"attribute\", \"kernel\": \"%s\", \"attribute\": %d, \"value\": %d}\n", changed->name, attribute, value);
  return value > setting("CUDA_RECORDING_SHARED", 232448);
}

int cuTensorMapEncodeTiled(void* map, int type, unsigned rank, void* address, const uint64_t* shape, const uint64_t* strides,
                           const uint32_t* box, const uint32_t* steps, int interleave, int swizzle, int promotion, int fill) {
  pthread_mutex_lock(&lock);
  memset(map, 0, 128);
  memcpy(map, "TMA-MAP", 8);
  ((uint64_t*)map)[1] = (uint64_t)map_count;
  fprintf(recording(), "{\"event\": \"map\", \"map\": %d, \"type\": %d, \"address\": ", map_count++, type);
  place(address);
  list("shape", shape, 8, (int)rank);
  list("strides", strides, 8, (int)rank - 1);
  list("box", box, 4, (int)rank);
  list("steps", steps, 4, (int)rank);
  fprintf(recording(), ", \"interleave\": %d, \"swizzle\": %d, \"promotion\": %d, \"fill\": %d}\n", interleave, swizzle, promotion, fill);
  const int codes[4] = {interleave, swizzle, promotion, fill};
  const int refused = emulate_map(map_count - 1, type, (int)rank, address, shape, strides, box, steps, codes);
  pthread_mutex_unlock(&lock);
  return ((uintptr_t)map % 64 || (uintptr_t)address % 16) ? 1 : refused;
}

int cuLaunchKernelEx(const Config* config, void* function, void** values, void** extra) {
  const Function* launched = function;
  const unsigned one[3] = {1, 1, 1}, *cluster = one;
  (void)extra;
  pthread_mutex_lock(&lock);
  for (unsigned i = 0; i < config->count; i++) {
    const Attribute* attribute = (const Attribute*)config->attributes + i;
    if (attribute->id == 4) cluster = attribute->value.extent;
  }
  fprintf(recording(), "{\"event\": \"launch\", \"kernel\": \"%s\", \"device\": %d, \"stream\": %llu", launched->name,
          (int)((char*)current - contexts), (unsigned long long)(uintptr_t)config->stream);
  list("grid", config->grid, 4, 3);
  list("block", config->block, 4, 3);
  list("cluster", cluster, 4, 3);
  fprintf(recording(), ", \"shared\": %u, \"arguments\": [", config->shared);
  for (int i = 0; i < launched->parameters.count; i++) {
    int size = launched->parameters.size[i];
    if (i) fprintf(recording(), ", ");
    if (size == 128 && !memcmp(values[i], "TMA-MAP", 8)) fprintf(recording(), "{\"map\": %d}", (int)((uint64_t*)values[i])[1]);
    else if (size == 8) place(*(void**)values[i]);
    else fprintf(recording(), "{\"bytes\": %d, \"value\": %d}", size, *(int*)values[i]);
  }
  fprintf(recording(), "]}\n");
  pthread_mutex_unlock(&lock);
  if (!config->grid[0] || !config->block[0] || config->block[0] * config->block[1] * config->block[2] > 1024) return 1;
  if (config->shared > (launched->shared > 49152 ? (unsigned)launched->shared : 49152u)) return 1;
  return emulate_launch(launched->name, values, config->grid, config->block, cluster, config->shared);
}
