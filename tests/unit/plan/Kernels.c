/* Kernels with the plan's calling convention, for the runtime's tests. */
#include <stdint.h>

/* Four chunks of an 8 x 4 matrix: result = a + a (also in place). */
void twice(void *const *buffers, int64_t chunk) {
  const float *a = buffers[0];
  float *out = buffers[2];
  for (int i = 0; i < 8; ++i)
    out[chunk * 8 + i] = a[chunk * 8 + i] + a[chunk * 8 + i];
}

/* The same, wrong in one element. */
void twice_wrong(void *const *buffers, int64_t chunk) {
  twice(buffers, chunk);
  if (chunk == 2)
    ((float *)buffers[2])[chunk * 8 + 3] *= 1.0001f;
}

void add_i64(void *const *buffers, int64_t chunk) {
  const int64_t *a = buffers[0], *b = buffers[1];
  int64_t *out = buffers[2];
  (void)chunk;
  *out = *a + *b;
}
