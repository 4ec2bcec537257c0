/* Loads and launches the kernels of a compiled module through the CUDA driver.
 *
 * Compiled into every module together with generated tables, which define the images, kernels and programs below.
 * The driver is opened when the first kernel is launched, so that a module loads on machines without one. All state
 * is per image and context, created once under a lock and read without one: any number of threads may launch.
 * Launches go to the stream that TVM's environment names for the device, in the context that is current there.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/ffi/c_api.h>
#include <tvm/ffi/extra/c_env_api.h>

enum { RF_MAX_DEVICES = 64, RF_MAX_ARGUMENTS = 256, RF_MAX_MAPS = 16, RF_DRIVER = 13000, RF_STATIC_SHARED = 48 * 1024 };
enum { RF_MAX_DIMS = 64, RF_MAX_COUNTS = 256 };
enum { RF_ATTRIBUTE_MAJOR = 75, RF_ATTRIBUTE_MINOR = 76, RF_ATTRIBUTE_SHARED = 97 };
enum { RF_FUNCTION_SHARED = 8, RF_LAUNCH_CLUSTER = 4, RF_MAP_ALIGNMENT = 16 };

/* The driver's own structures, as cuda.h declares them. */
typedef struct { unsigned grid[3], block[3], shared; void* stream; void* attributes; unsigned count; } rf_config;
typedef struct { unsigned id, padding; union { unsigned extent[3]; char bytes[64]; } value; } rf_attribute;
typedef struct { _Alignas(64) uint64_t opaque[16]; } rf_encoded_map;

/* Machine code of one or several kernels, in the contexts it was loaded into so far. */
typedef struct rf_loaded { struct rf_loaded* next; uint64_t context; void* module; } rf_loaded;
typedef struct {
  const unsigned char* code;
  const char* arch;
  int major, minor, exact; /* exact: code with features of one architecture alone (sm_90a) */
  _Atomic(rf_loaded*) loaded;
  pthread_mutex_t lock;
} rf_image;

/* One entry of an image. */
typedef struct rf_function { struct rf_function* next; uint64_t context; void* handle; atomic_uint shared; } rf_function;
typedef struct { rf_image* image; const char* name; _Atomic(rf_function*) functions; } rf_kernel;

/* A program: kernels with everything known, launched one after another on the tensors of a call. */
/* A count that follows from open dimensions stands as -1, -2… for the first, second… of those worked out on a call. */
typedef struct { const char* name; uint8_t code, bits; int rank; int64_t shape[8]; } rf_tensor;
typedef struct {
  int type, rank;
  int64_t shape[5], strides[4];
  uint32_t box[5], steps[5];
  int interleave, swizzle, promotion, fill;
} rf_map;
typedef struct { int tensor; const rf_map* map; } rf_argument; /* no map: the tensor's address; negative: a count */
typedef struct {
  rf_kernel* kernel;
  int64_t grid[3];
  unsigned block[3], cluster[3], shared;
  int count;
  const rf_argument* arguments;
} rf_step;
typedef struct {
  const char* name;
  int tensor_count;
  const rf_tensor* tensors;
  int step_count;
  const rf_step* steps;
  int first_dim, dim_count; /* dimensions are passed before this tensor */
  void (*work_out)(const int64_t* dims, int64_t* counts);
} rf_program;

static struct {
  int (*Init)(unsigned);
  int (*DriverGetVersion)(int*);
  int (*DeviceGetAttribute)(int*, int, int);
  int (*DeviceGetName)(char*, int, int);
  int (*DevicePrimaryCtxRetain)(void**, int);
  int (*CtxGetCurrent)(void**);
  int (*CtxGetDevice)(int*);
  int (*CtxGetId)(void*, unsigned long long*);
  int (*CtxPushCurrent)(void*);
  int (*CtxPopCurrent)(void**);
  int (*ModuleLoadData)(void**, const void*);
  int (*ModuleGetFunction)(void**, void*, const char*);
  int (*FuncSetAttribute)(void*, int, int);
  int (*LaunchKernelEx)(const rf_config*, void*, void**, void**);
  int (*TensorMapEncodeTiled)(void*, int, unsigned, void*, const uint64_t*, const uint64_t*, const uint32_t*,
                              const uint32_t*, int, int, int, int);
  int (*GetErrorName)(int, const char**);
} cu;

static char rf_no_driver[256]; /* why the driver can't be used; empty if it can */
static pthread_once_t rf_once = PTHREAD_ONCE_INIT;

static int rf_fail(const char* kernel, const char* what) {
  char text[768];
  snprintf(text, sizeof text, "kernel %s: %s", kernel, what);
  TVMFFIErrorSetRaisedFromCStr("RuntimeError", text);
  return -1;
}

static int rf_refused(const char* kernel, const char* call, int code) {
  const char* name = NULL;
  char text[256];
  if (cu.GetErrorName) cu.GetErrorName(code, &name);
  snprintf(text, sizeof text, "%s failed with %s (%d)", call, name ? name : "an unknown error", code);
  return rf_fail(kernel, text);
}

static void rf_open_driver(void) {
  struct { const char* name; void** place; } functions[] = {
    {"cuInit", (void**)&cu.Init}, {"cuDriverGetVersion", (void**)&cu.DriverGetVersion},
    {"cuDeviceGetAttribute", (void**)&cu.DeviceGetAttribute}, {"cuDeviceGetName", (void**)&cu.DeviceGetName},
    {"cuDevicePrimaryCtxRetain", (void**)&cu.DevicePrimaryCtxRetain}, {"cuCtxGetCurrent", (void**)&cu.CtxGetCurrent},
    {"cuCtxGetDevice", (void**)&cu.CtxGetDevice}, {"cuCtxGetId", (void**)&cu.CtxGetId},
    {"cuCtxPushCurrent_v2", (void**)&cu.CtxPushCurrent}, {"cuCtxPopCurrent_v2", (void**)&cu.CtxPopCurrent},
    {"cuModuleLoadData", (void**)&cu.ModuleLoadData}, {"cuModuleGetFunction", (void**)&cu.ModuleGetFunction},
    {"cuFuncSetAttribute", (void**)&cu.FuncSetAttribute}, {"cuLaunchKernelEx", (void**)&cu.LaunchKernelEx},
    {"cuTensorMapEncodeTiled", (void**)&cu.TensorMapEncodeTiled}, {"cuGetErrorName", (void**)&cu.GetErrorName},
  };
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  int version = 0, code;
  if (!library) {
    snprintf(rf_no_driver, sizeof rf_no_driver, "there is no NVIDIA driver: libcuda.so.1 cannot be opened");
    return;
  }
  if ((*(void**)&cu.DriverGetVersion = dlsym(library, "cuDriverGetVersion"))) cu.DriverGetVersion(&version);
  if (version < RF_DRIVER) {
    snprintf(rf_no_driver, sizeof rf_no_driver, "the NVIDIA driver supports CUDA %d.%d, but %d.%d is needed (driver 580)",
             version / 1000, version % 1000 / 10, RF_DRIVER / 1000, RF_DRIVER % 1000 / 10);
    return;
  }
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    if (!(*functions[i].place = dlsym(library, functions[i].name))) {
      snprintf(rf_no_driver, sizeof rf_no_driver, "the NVIDIA driver has no %s", functions[i].name);
      return;
    }
  }
  if ((code = cu.Init(0))) snprintf(rf_no_driver, sizeof rf_no_driver, "cuInit failed with error %d", code);
}

static int rf_need_driver(const char* kernel) {
  pthread_once(&rf_once, rf_open_driver);
  return rf_no_driver[0] ? rf_fail(kernel, rf_no_driver) : 0;
}

static int rf_fits(const rf_kernel* kernel, int device) {
  int major = 0, minor = 0;
  const rf_image* image = kernel->image;
  char name[128] = "", text[384];
  cu.DeviceGetAttribute(&major, RF_ATTRIBUTE_MAJOR, device);
  cu.DeviceGetAttribute(&minor, RF_ATTRIBUTE_MINOR, device);
  if (major == image->major && (image->exact ? minor == image->minor : minor >= image->minor)) return 0;
  cu.DeviceGetName(name, sizeof name, device);
  snprintf(text, sizeof text, "compiled for %s; device %d (%s) has compute capability %d.%d: compile for its target",
           image->arch, device, name, major, minor);
  return rf_fail(kernel->name, text);
}

static int rf_load(rf_kernel* kernel, int device, uint64_t context, void** module) {
  rf_image* image = kernel->image;
  rf_loaded* found = atomic_load_explicit(&image->loaded, memory_order_acquire);
  int code;
  while (found && found->context != context) found = found->next;
  if (found) return *module = found->module, 0;
  if (rf_fits(kernel, device)) return -1;
  if (!(found = malloc(sizeof *found))) return rf_fail(kernel->name, "out of memory");
  if ((code = cu.ModuleLoadData(&found->module, image->code)))
    return free(found), rf_refused(kernel->name, "cuModuleLoadData", code);
  found->context = context;
  found->next = atomic_load_explicit(&image->loaded, memory_order_relaxed);
  atomic_store_explicit(&image->loaded, found, memory_order_release);
  return *module = found->module, 0;
}

/* The kernel in the current context; the image is loaded and the function looked up once a context. */
static rf_function* rf_find(rf_kernel* kernel, int device) {
  void* context = NULL;
  unsigned long long id = 0;
  int code;
  rf_function* found;
  if ((code = cu.CtxGetCurrent(&context)) || (code = cu.CtxGetId(context, &id)))
    return rf_refused(kernel->name, "cuCtxGetId", code), NULL;
  for (found = atomic_load_explicit(&kernel->functions, memory_order_acquire); found; found = found->next)
    if (found->context == id) return found;
  pthread_mutex_lock(&kernel->image->lock);
  for (found = atomic_load_explicit(&kernel->functions, memory_order_relaxed); found; found = found->next)
    if (found->context == id) break;
  if (!found) {
    void* module = NULL;
    rf_function* fresh = calloc(1, sizeof *fresh);
    if (!fresh) {
      rf_fail(kernel->name, "out of memory");
    } else if (rf_load(kernel, device, id, &module)) {
      free(fresh);
    } else if ((code = cu.ModuleGetFunction(&fresh->handle, module, kernel->name))) {
      rf_refused(kernel->name, "cuModuleGetFunction", code);
      free(fresh);
    } else {
      fresh->context = id;
      fresh->next = atomic_load_explicit(&kernel->functions, memory_order_relaxed);
      atomic_store_explicit(&kernel->functions, found = fresh, memory_order_release);
    }
  }
  pthread_mutex_unlock(&kernel->image->lock);
  return found;
}

/* More than 48 KB of shared memory must be asked for beforehand. */
static int rf_opt_in(const rf_kernel* kernel, rf_function* function, int device, unsigned shared) {
  int most = 0, code;
  char text[160];
  if (shared <= RF_STATIC_SHARED || shared <= atomic_load(&function->shared)) return 0;
  cu.DeviceGetAttribute(&most, RF_ATTRIBUTE_SHARED, device);
  if ((int)shared > most) {
    snprintf(text, sizeof text, "needs %u bytes of shared memory a block; the device has %d", shared, most);
    return rf_fail(kernel->name, text);
  }
  if ((code = cu.FuncSetAttribute(function->handle, RF_FUNCTION_SHARED, (int)shared)))
    return rf_refused(kernel->name, "cuFuncSetAttribute", code);
  atomic_store(&function->shared, shared);
  return 0;
}

static int rf_launch(rf_kernel* kernel, int device, rf_config* config, const unsigned cluster[3], void** values) {
  rf_attribute attribute = {.id = RF_LAUNCH_CLUSTER};
  rf_function* function = rf_find(kernel, device);
  int code;
  if (!function || rf_opt_in(kernel, function, device, config->shared)) return -1;
  if (cluster && cluster[0] * cluster[1] * cluster[2] > 1) {
    memcpy(attribute.value.extent, cluster, sizeof attribute.value.extent);
    config->attributes = &attribute;
    config->count = 1;
  }
  config->stream = TVMFFIEnvGetStream(kDLCUDA, device);
  code = cu.LaunchKernelEx(config, function->handle, values, NULL);
  return code ? rf_refused(kernel->name, "cuLaunchKernelEx", code) : 0;
}
