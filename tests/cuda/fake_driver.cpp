// A driver for a GPU that is the emulator of cuda_on_cpu.cpp, which has to be loaded already: what devices/cuda_driver.py calls.
// Machine code is a library that g++ made of the kernel. Memory is checked as the emulator checks it, when it is freed.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <map>
#include <unistd.h>

extern "C" {
char *emulator_allocate(size_t bytes, size_t alignment);
int emulator_free(char *memory, size_t bytes);
const char *emulator_launch(void (*entry)(const void *), const void *given, unsigned blocks, unsigned threads, size_t shared,
                            int fibres, int order);

enum { SUCCESS = 0, INVALID_VALUE = 1, INVALID_IMAGE = 200, NOT_FOUND = 500, ILLEGAL_ADDRESS = 700, LAUNCH_FAILED = 719 };

static std::map<uint64_t, size_t> sizes;
static int depth;  // of the stack of contexts
static char message[512] = "fake error";

// What a test asks about the driver.
int fake_devices = 1, fake_capability = 90;
size_t fake_allocations() { return sizes.size(); }
long fake_launches, fake_uploads, fake_downloads;

static int failed(int code, const char *text) {
  snprintf(message, sizeof message, "%s", text);
  return code;
}

// Whether bytes at an address are of one allocation; everything happens within a context.
static int check(uint64_t address, size_t bytes) {
  if (!depth) return failed(201, "no context is current");
  auto found = sizes.upper_bound(address);
  if (found == sizes.begin()) return failed(INVALID_VALUE, "memory that was not allocated");
  --found;
  return address + bytes > found->first + found->second ? failed(INVALID_VALUE, "more than was allocated") : SUCCESS;
}

int cuInit(unsigned) { return SUCCESS; }
int cuDeviceGetCount(int *count) { return *count = fake_devices, SUCCESS; }
int cuDeviceGet(int *device, int ordinal) { return *device = ordinal, SUCCESS; }
int cuDeviceGetName(char *name, int size, int) { return snprintf(name, size, "emulated GPU"), SUCCESS; }
int cuDeviceGetAttribute(int *value, int attribute, int) {
  return *value = attribute == 75 ? fake_capability / 10 : fake_capability % 10, SUCCESS;
}
int cuDevicePrimaryCtxRetain(void **context, int) { return *context = (void *)1, SUCCESS; }
int cuCtxPushCurrent_v2(void *context) { return context == (void *)1 ? depth++, SUCCESS : INVALID_VALUE; }
int cuCtxPopCurrent_v2(void **) { return depth ? depth--, SUCCESS : INVALID_VALUE; }
int cuStreamCreate(void **stream, unsigned) { return *stream = (void *)2, SUCCESS; }
int cuStreamSynchronize(void *stream) { return stream == (void *)2 ? SUCCESS : INVALID_VALUE; }
int cuDeviceGetDefaultMemPool(void **pool, int) { return *pool = (void *)3, SUCCESS; }
int cuMemPoolSetAttribute(void *pool, int, void *) { return pool == (void *)3 ? SUCCESS : INVALID_VALUE; }

int cuMemAllocAsync(uint64_t *address, size_t bytes, void *) {
  if (!depth) return failed(201, "no context is current");
  *address = (uint64_t)emulator_allocate(bytes, 16);
  sizes[*address] = bytes;
  return SUCCESS;
}

int cuMemFreeAsync(uint64_t address, void *) {
  auto found = sizes.find(address);
  if (found == sizes.end()) return failed(INVALID_VALUE, "memory that was not allocated");
  const int beside = emulator_free((char *)address, found->second);
  sizes.erase(found);
  return beside ? failed(ILLEGAL_ADDRESS, "something was written beside an array") : SUCCESS;
}

int cuMemsetD8Async(uint64_t address, unsigned char value, size_t bytes, void *) {
  const int wrong = check(address, bytes);
  return wrong ? wrong : (memset((void *)address, value, bytes), SUCCESS);
}

int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *) {
  const int wrong = check(to, bytes);
  fake_uploads++;
  return wrong ? wrong : (memcpy((void *)to, from, bytes), SUCCESS);
}

int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *) {
  const int wrong = check(from, bytes);
  fake_downloads++;
  return wrong ? wrong : (memcpy(to, (void *)from, bytes), SUCCESS);
}

int cuModuleLoadData(void **module, const char *image) {
  uint64_t sections;
  uint16_t size, count;
  memcpy(&sections, image + 40, 8);
  memcpy(&size, image + 58, 2);
  memcpy(&count, image + 60, 2);
  const size_t bytes = sections + (size_t)size * count;  // an ELF file ends with the table of its sections
  char name[] = "/tmp/tinyfn-fake-driver-XXXXXX";
  const int file = mkstemp(name);
  if (write(file, image, bytes) != (ssize_t)bytes) return INVALID_IMAGE;
  close(file);
  *module = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  unlink(name);
  return *module ? SUCCESS : failed(INVALID_IMAGE, dlerror());
}

int cuModuleGetFunction(void **function, void *module, const char *) {
  *function = dlsym(module, "enter_0");
  return *function ? SUCCESS : NOT_FOUND;
}

int cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned threads_y, unsigned threads_z,
                   unsigned shared, void *, void **parameters, void **) {
  if (!depth) return failed(201, "no context is current");
  if (!x || y != 1 || z != 1 || threads_y != 1 || threads_z != 1) return INVALID_VALUE;
  fake_launches++;
  const char *wrong = emulator_launch((void (*)(const void *))function, parameters[0], x, threads, shared, 1, fake_launches % 4);
  return *wrong ? failed(LAUNCH_FAILED, wrong) : SUCCESS;
}

int cuGetErrorString(int, const char **text) { return *text = message, SUCCESS; }
}
