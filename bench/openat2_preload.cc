// A library for LD_PRELOAD: it does openat2(2) by openat(2), without the restrictions on paths. valgrind 3.19 and
// QEMU 7.2 do not know openat2(), and the server needs it. For measurements, and a server in an emulated processor,
// only: the restrictions keep a server within its exports.
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>

#include <cstdarg>

// The definition of glibc: any system call has at most six arguments.
extern "C" long syscall(long number, ...) noexcept {
  long arguments[6];
  va_list list;
  va_start(list, number);
  for (long& argument : arguments) argument = va_arg(list, long);
  va_end(list);
  if (number == SYS_openat2) {
    const auto* const how = reinterpret_cast<const open_how*>(arguments[2]);
    return ::openat(static_cast<int>(arguments[0]), reinterpret_cast<const char*>(arguments[1]),
                    static_cast<int>(how->flags), static_cast<mode_t>(how->mode));
  }
  static const auto original = reinterpret_cast<long (*)(long, ...)>(::dlsym(RTLD_NEXT, "syscall"));
  return original(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
}
