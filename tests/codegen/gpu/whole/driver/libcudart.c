/* The part of the CUDA runtime that TVM uses, on top of the recording driver beside it. */
#include <stdlib.h>
#include <string.h>

int cuMemAlloc_v2(void**, size_t);
int cuMemFree_v2(void*);
int cuMemGetInfo_v2(size_t*, size_t*);
int cuDeviceGetAttribute(int*, int, int);
int cuDevicePrimaryCtxRetain(void**, int);
int cuCtxSetCurrent(void*);

static __thread int device;

static int count(void) { const char* given = getenv("CUDA_RECORDING_DEVICES"); return given ? atoi(given) : 1; }

int cudaGetDeviceCount(int* found) { *found = count(); return 0; }
int cudaGetDevice(int* current) { *current = device; return 0; }
int cudaSetDevice(int chosen) {
  void* context;
  if (chosen >= count()) return 101;
  cuDevicePrimaryCtxRetain(&context, device = chosen);
  return cuCtxSetCurrent(context);
}
int cudaDeviceGetAttribute(int* value, int attribute, int of) { return of >= count() ? 101 : cuDeviceGetAttribute(value, attribute, of); }
int cudaGetDeviceProperties(void* properties, int of) { (void)of; memset(properties, 0, 512); strcpy(properties, "Recorder"); return 0; }
const char* cudaGetErrorName(int code) { (void)code; return "cudaErrorRecorded"; }
const char* cudaGetErrorString(int code) { (void)code; return "an error of the recording runtime"; }
int cudaGetLastError(void) { return 0; }
int cudaPeekAtLastError(void) { return 0; }

int cudaMalloc(void** address, size_t size) { cudaSetDevice(device); return cuMemAlloc_v2(address, size); }
int cudaFree(void* address) { return cuMemFree_v2(address); }
int cudaMallocHost(void** address, size_t size) { return (*address = malloc(size)) ? 0 : 2; }
int cudaFreeHost(void* address) { free(address); return 0; }
int cudaMemGetInfo(size_t* unused, size_t* total) { return cuMemGetInfo_v2(unused, total); }
int cudaMemcpyAsync(void* to, const void* from, size_t size, int kind, void* stream) { (void)kind; (void)stream; memcpy(to, from, size); return 0; }
int cudaMemcpyPeerAsync(void* to, int there, const void* from, int here, size_t size, void* stream) { (void)there; (void)here; return cudaMemcpyAsync(to, from, size, 0, stream); }

int cudaEventCreate(void** event) { *event = (void*)1; return 0; }
int cudaEventDestroy(void* event) { (void)event; return 0; }
int cudaEventElapsedTime(float* ms, void* from, void* to) { (void)from; (void)to; *ms = 1; return 0; }
int cudaEventRecord(void* event, void* stream) { (void)event; (void)stream; return 0; }
int cudaEventSynchronize(void* event) { (void)event; return 0; }
int cudaStreamCreate(void** stream) { *stream = NULL; return 0; }
int cudaStreamCreateWithFlags(void** stream, unsigned flags) { (void)flags; *stream = (void*)77; return 0; }
int cudaStreamDestroy(void* stream) { (void)stream; return 0; }
int cudaStreamSynchronize(void* stream) { (void)stream; return 0; }
int cudaStreamWaitEvent(void* stream, void* event, unsigned flags) { (void)stream; (void)event; (void)flags; return 0; }
int cudaStreamBeginCapture(void* stream, int mode) { (void)stream; (void)mode; return 0; }
int cudaStreamEndCapture(void* stream, void** graph) { (void)stream; *graph = NULL; return 0; }
int cudaGraphInstantiate(void** instance, void* graph, unsigned long long flags) { (void)graph; (void)flags; *instance = NULL; return 0; }
int cudaGraphLaunch(void* instance, void* stream) { (void)instance; (void)stream; return 0; }
int cudaGraphDestroy(void* graph) { (void)graph; return 0; }
int cudaGraphExecDestroy(void* instance) { (void)instance; return 0; }
