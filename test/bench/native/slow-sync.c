/* Makes every flush take SLOW_SYNC_MS longer, as on an SD card. Preloaded into the gateway by the benchmark. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

static void wait_a_little(void) {
  const char *text = getenv("SLOW_SYNC_MS");
  long ms = text ? atol(text) : 0;
  struct timespec time = { ms / 1000, (ms % 1000) * 1000000L };
  nanosleep(&time, NULL);
}

int fsync(int file) {
  int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
  wait_a_little();
  return real(file);
}

int fdatasync(int file) {
  int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
  wait_a_little();
  return real(file);
}
