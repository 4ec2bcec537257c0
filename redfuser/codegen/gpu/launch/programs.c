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

static int rf_check(const rf_program* program, const rf_tensor* wanted, const DLTensor* given, int device) {
  char text[256];
  const char* wrong = NULL;
  int64_t stride = 1;
  if (given->device.device_type != kDLCUDA) wrong = "isn't in GPU memory";
  else if (given->device.device_id != device) wrong = "is on another device than the first tensor";
  else if (given->dtype.code != wanted->code || given->dtype.bits != wanted->bits || given->dtype.lanes != 1)
    wrong = "has another type";
  else if (given->ndim != wanted->rank) wrong = "has another rank";
  for (int i = wanted->rank - 1; !wrong && i >= 0; i--) {
    if (given->shape[i] != wanted->shape[i]) wrong = "has another shape";
    else if (given->strides && wanted->shape[i] != 1 && given->strides[i] != stride) wrong = "isn't contiguous";
    stride *= wanted->shape[i];
  }
  if (!wrong) return 0;
  snprintf(text, sizeof text, "tensor %s %s", wanted->name, wrong);
  return rf_fail(program->name, text);
}

static int rf_encode(const rf_step* step, const char* tensor, const rf_map* map, void* address, rf_encoded_map* encoded) {
  char text[192];
  int code;
  if ((uintptr_t)address % RF_MAP_ALIGNMENT) {
    snprintf(text, sizeof text, "tensor %s lies at %p, but must be aligned to %d bytes", tensor, address, RF_MAP_ALIGNMENT);
    return rf_fail(step->kernel->name, text);
  }
  code = cu.TensorMapEncodeTiled(encoded, map->type, (unsigned)map->rank, address, map->shape, map->strides, map->box,
                                 map->steps, map->interleave, map->swizzle, map->promotion, map->fill);
  return code ? rf_refused(step->kernel->name, "cuTensorMapEncodeTiled", code) : 0;
}

static int rf_run_step(const rf_program* program, const rf_step* step, void* const* addresses, int device) {
  rf_encoded_map maps[RF_MAX_MAPS];
  const void* values[RF_MAX_ARGUMENTS];
  rf_config config = {{step->grid[0], step->grid[1], step->grid[2]},
                      {step->block[0], step->block[1], step->block[2]}, step->shared, NULL, NULL, 0};
  int used = 0;
  for (int i = 0; i < step->count; i++) {
    const rf_argument* argument = &step->arguments[i];
    if (!argument->map) {
      values[i] = &addresses[argument->tensor];
    } else {
      rf_encoded_map* encoded = &maps[used++];
      const char* name = program->tensors[argument->tensor].name;
      if (rf_encode(step, name, argument->map, addresses[argument->tensor], encoded)) return -1;
      values[i] = encoded;
    }
  }
  return rf_launch(step->kernel, device, &config, step->cluster, (void**)values);
}

static int rf_run(const rf_program* program, const TVMFFIAny* given, int count) {
  void* addresses[RF_MAX_ARGUMENTS];
  int device = 0, pushed = 0, failed = 0;
  if (count != program->tensor_count) return rf_fail(program->name, "called with another number of tensors");
  for (int i = 0; i < count; i++) {
    const DLTensor* tensor = given[i].v_ptr;
    if (given[i].type_index == kTVMFFITensor) tensor = (DLTensor*)((char*)given[i].v_obj + sizeof(TVMFFIObject));
    else if (given[i].type_index != kTVMFFIDLTensorPtr) return rf_fail(program->name, "an argument isn't a tensor");
    if (!i) device = tensor->device.device_id;
    if (rf_check(program, &program->tensors[i], tensor, device)) return -1;
    addresses[i] = (char*)tensor->data + tensor->byte_offset;
  }
  if (rf_need_driver(program->name) || rf_enter(program->name, device, &pushed)) return -1;
  for (int i = 0; i < program->step_count && !failed; i++)
    failed = rf_run_step(program, &program->steps[i], addresses, device);
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
