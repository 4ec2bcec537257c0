/* Entries of kernels that TVM's host code launches: arguments, then launch extents, in one packed call. */

/* kinds, a letter a parameter: p address, i integer, f float, d double.
 * extents, a letter each: x y z grid, X Y Z block, s dynamic shared memory. */
static int rf_packed(rf_kernel* kernel, const char* kinds, const char* extents, const TVMFFIAny* given, int count) {
  union { float f; double d; int64_t i; void* p; } values[RF_MAX_ARGUMENTS];
  void* places[RF_MAX_ARGUMENTS];
  rf_config config = {{1, 1, 1}, {1, 1, 1}, 0, NULL, NULL, 0};
  int parameters = (int)strlen(kinds), device = -1, code;
  if (count != parameters + (int)strlen(extents) || parameters > RF_MAX_ARGUMENTS)
    return rf_fail(kernel->name, "called with another number of arguments");
  for (int i = 0; i < parameters; i++) {
    places[i] = &values[i];
    switch (kinds[i]) {
      case 'p': values[i].p = given[i].v_ptr; break;
      case 'f': values[i].f = (float)given[i].v_float64; break;
      case 'd': values[i].d = given[i].v_float64; break;
      default: values[i].i = given[i].v_int64;
    }
  }
  for (int i = 0; extents[i]; i++) {
    unsigned extent = (unsigned)given[parameters + i].v_int64;
    if (extents[i] == 's') { config.shared = extent; continue; }
    if (!extent) return 0; /* nothing to compute */
    if (extents[i] >= 'x') config.grid[extents[i] - 'x'] = extent;
    else config.block[extents[i] - 'X'] = extent;
  }
  if (rf_need_driver(kernel->name)) return -1;
  /* The host code has made the tensors' device current. */
  if ((code = cu.CtxGetDevice(&device))) return rf_refused(kernel->name, "cuCtxGetDevice", code);
  return rf_launch(kernel, device, &config, NULL, places);
}

#define RF_PACKED(SYMBOL, INDEX, KINDS, EXTENTS)                                                     \
  __attribute__((visibility("hidden"))) int SYMBOL(void* self, const TVMFFIAny* given, int32_t count, \
                                                   TVMFFIAny* result) {                              \
    (void)self;                                                                                      \
    memset(result, 0, sizeof *result);                                                               \
    return rf_packed(&rf_kernels[INDEX], KINDS, EXTENTS, given, count);                              \
  }
