/* Entries of fused programs: called with the tensors themselves, checked, then launched kernel by kernel. */

/* Makes a context of the device current, its primary one if none is. */
static int rf_enter(const char* kernel, int device, int* pushed) {
  static _Atomic(void*) primary[RF_MAX_DEVICES];
  void* context = NULL;
  int current = -1, code;
  *pushed = 0;
  if (!cu.CtxGetCurrent(&context) && context && !cu.CtxGetDevice(&current) && current == device) return 0;
  if (device < 0 || device >= RF_MAX_DEVICES) return rf_fail(kernel, "no such device");
  if (!(context = atomic_load(&primary[device]))) {
    /* Two threads may both retain it: the same context, which lives as long as the process. */
    if ((code = cu.DevicePrimaryCtxRetain(&context, device))) return rf_refused(kernel, "cuDevicePrimaryCtxRetain", code);
    atomic_store(&primary[device], context);
  }
  if ((code = cu.CtxPushCurrent(context))) return rf_refused(kernel, "cuCtxPushCurrent", code);
  *pushed = 1;
  return 0;
}

static int64_t rf_count(int64_t count, const int64_t* counts) { return count < 0 ? counts[-1 - count] : count; }

static int rf_check(const rf_program* program, const rf_tensor* wanted, const DLTensor* given, int device,
                    const int64_t* counts) {
  char text[256];
  const char* wrong = NULL;
  int64_t stride = 1;
  if (given->device.device_type != kDLCUDA) wrong = "isn't in GPU memory";
  else if (given->device.device_id != device) wrong = "is on another device than the first tensor";
  else if (given->dtype.code != wanted->code || given->dtype.bits != wanted->bits || given->dtype.lanes != 1)
    wrong = "has another type";
  else if (given->ndim != wanted->rank) wrong = "has another rank";
  for (int i = wanted->rank - 1; !wrong && i >= 0; i--) {
    int64_t extent = rf_count(wanted->shape[i], counts);
    if (given->shape[i] != extent) wrong = "has another shape";
    else if (given->strides && extent != 1 && given->strides[i] != stride) wrong = "isn't contiguous";
    stride *= extent;
  }
  /* With known sizes the compiler has chosen integers that are wide enough. */
  if (!wrong && program->dim_count && stride > INT32_MAX) wrong = "has 2^31 elements or more: fix sizes with --dim";
  if (!wrong) return 0;
  snprintf(text, sizeof text, "tensor %s %s", wanted->name, wrong);
  return rf_fail(program->name, text);
}

static int rf_encode(const rf_step* step, const char* tensor, const rf_map* map, void* address, rf_encoded_map* encoded,
                     const int64_t* counts) {
  char text[192];
  uint64_t shape[5], strides[4];
  int code;
  for (int i = 0; i < map->rank; i++) shape[i] = (uint64_t)rf_count(map->shape[i], counts);
  for (int i = 0; i + 1 < map->rank; i++) strides[i] = (uint64_t)rf_count(map->strides[i], counts);
  if ((uintptr_t)address % RF_MAP_ALIGNMENT) {
    snprintf(text, sizeof text, "tensor %s lies at %p, but must be aligned to %d bytes", tensor, address, RF_MAP_ALIGNMENT);
    return rf_fail(step->kernel->name, text);
  }
  code = cu.TensorMapEncodeTiled(encoded, map->type, (unsigned)map->rank, address, shape, strides, map->box,
                                 map->steps, map->interleave, map->swizzle, map->promotion, map->fill);
  return code ? rf_refused(step->kernel->name, "cuTensorMapEncodeTiled", code) : 0;
}

static int rf_run_step(const rf_program* program, const rf_step* step, void* const* addresses, int device,
                       const int64_t* counts) {
  rf_encoded_map maps[RF_MAX_MAPS];
  const void* values[RF_MAX_ARGUMENTS];
  rf_config config = {{0, 0, 0}, {step->block[0], step->block[1], step->block[2]}, step->shared, NULL, NULL, 0};
  int used = 0;
  for (int i = 0; i < 3; i++)
    if (!(config.grid[i] = (unsigned)rf_count(step->grid[i], counts))) return 0; /* nothing to compute */
  for (int i = 0; i < step->count; i++) {
    const rf_argument* argument = &step->arguments[i];
    if (argument->tensor < 0) {
      values[i] = &counts[-1 - argument->tensor];
    } else if (!argument->map) {
      values[i] = &addresses[argument->tensor];
    } else {
      rf_encoded_map* encoded = &maps[used++];
      const char* name = program->tensors[argument->tensor].name;
      if (rf_encode(step, name, argument->map, addresses[argument->tensor], encoded, counts)) return -1;
      values[i] = encoded;
    }
  }
  return rf_launch(step->kernel, device, &config, step->cluster, (void**)values);
}

static int rf_run(const rf_program* program, const TVMFFIAny* given, int count) {
  void* addresses[RF_MAX_ARGUMENTS];
  int64_t dims[RF_MAX_DIMS], counts[RF_MAX_COUNTS] = {0};
  int device = 0, pushed = 0, failed = 0;
  if (count != program->tensor_count + program->dim_count)
    return rf_fail(program->name, "called with another number of tensors");
  for (int i = 0; i < program->dim_count; i++) {
    const TVMFFIAny* dim = &given[program->first_dim + i];
    if (dim->type_index != kTVMFFIInt || dim->v_int64 < 0) return rf_fail(program->name, "a dimension isn't a number");
    dims[i] = dim->v_int64;
  }
  if (program->dim_count) program->work_out(dims, counts);
  for (int i = 0; i < program->tensor_count; i++) {
    const TVMFFIAny* item = &given[i < program->first_dim ? i : i + program->dim_count];
    const DLTensor* tensor = item->v_ptr;
    if (item->type_index == kTVMFFITensor) tensor = (DLTensor*)((char*)item->v_obj + sizeof(TVMFFIObject));
    else if (item->type_index != kTVMFFIDLTensorPtr) return rf_fail(program->name, "an argument isn't a tensor");
    if (!i) device = tensor->device.device_id;
    if (rf_check(program, &program->tensors[i], tensor, device, counts)) return -1;
    addresses[i] = (char*)tensor->data + tensor->byte_offset;
  }
  if (rf_need_driver(program->name) || rf_enter(program->name, device, &pushed)) return -1;
  for (int i = 0; i < program->step_count && !failed; i++)
    failed = rf_run_step(program, &program->steps[i], addresses, device, counts);
  if (pushed) cu.CtxPopCurrent(&(void*){NULL});
  return failed;
}

#define RF_PROGRAM(SYMBOL, INDEX)                                                                         \
  __attribute__((visibility("default"))) int SYMBOL(void* self, const TVMFFIAny* given, int32_t count,     \
                                                    TVMFFIAny* result) {                                  \
    (void)self;                                                                                           \
    memset(result, 0, sizeof *result);                                                                    \
    return rf_run(&rf_programs[INDEX], given, count);                                                     \
  }
