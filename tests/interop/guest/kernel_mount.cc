// Mounts NFS by the system call alone:
//
//     kernel_mount HOST:PATH DIRECTORY OPTIONS
//
// mount.nfs does not accept version 2. The kernel's client still does, and asks MOUNT for the handle itself.
#include <sys/mount.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

int main(int count, char** arguments) {
  if (count != 4) {
    std::fprintf(stderr, "usage: kernel_mount HOST:PATH DIRECTORY OPTIONS\n");
    return 2;
  }
  if (::mount(arguments[1], arguments[2], "nfs", 0, arguments[3]) == 0) return 0;
  std::fprintf(stderr, "kernel_mount %s (%s): %s\n", arguments[1], arguments[3], std::strerror(errno));
  return 1;
}
