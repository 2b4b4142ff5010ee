/* copy_tree: copies a tree of files from an NFS server into a local directory.
 *
 *   copy_tree nfs://server/export/photos ./photos
 *
 * An example of the C API of libpenstock that blocks: each function returns when the server has answered. Errors are
 * negative errno values, and penstock_error_text() tells what happened.
 *
 *   cc -o copy_tree copy_tree.c $(pkg-config --cflags --libs penstock)
 */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <fcntl.h>
#include <penstock/penstock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static unsigned long files, octets;

/* Prints what went wrong with a name, and returns -1. */
static int failed(const char* name, const char* why) {
  fprintf(stderr, "copy_tree: %s: %s\n", name, why);
  return -1;
}

/* Returns "directory/name". The caller frees it. */
static char* join(const char* directory, const char* name) {
  const size_t size = strlen(directory) + strlen(name) + 2;
  char* path = malloc(size);
  if (path) snprintf(path, size, "%s/%s", directory, name);
  return path;
}

static int copy_file(penstock_mount* mount, const char* from, const char* to, const penstock_attributes* attributes) {
  const int local = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (local < 0) return failed(to, strerror(errno));
  const int64_t copied = penstock_download(mount, from, local, NULL, NULL, NULL);
  int result = 0;
  if (copied < 0) {
    result = failed(from, penstock_error_text());
  } else {
    const struct timespec times[2] = {
        {.tv_sec = (time_t)attributes->accessed.seconds, .tv_nsec = (long)attributes->accessed.nanoseconds},
        {.tv_sec = (time_t)attributes->modified.seconds, .tv_nsec = (long)attributes->modified.nanoseconds}};
    if (fchmod(local, attributes->mode & 07777) != 0 || futimens(local, times) != 0)
      result = failed(to, strerror(errno));
    ++files;
    octets += (unsigned long)copied;
  }
  if (close(local) != 0) result = failed(to, strerror(errno));
  return result;
}

static int copy_link(penstock_mount* mount, const char* from, const char* to) {
  char target[4096];
  if (penstock_readlink(mount, from, target, sizeof target, NULL) < 0) return failed(from, penstock_error_text());
  if (symlink(target, to) != 0) return failed(to, strerror(errno));
  return 0;
}

/* Copies what a directory holds. Goes on after an error, and returns -1 if there was one. */
static int copy_directory(penstock_mount* mount, const char* from, const char* to) {
  struct stat status;
  if (mkdir(to, 0755) != 0 && errno != EEXIST) return failed(to, strerror(errno));
  if (stat(to, &status) != 0) return failed(to, strerror(errno));
  if (!S_ISDIR(status.st_mode)) return failed(to, strerror(ENOTDIR));
  penstock_listing* listing;
  if (penstock_list(mount, from, &listing, NULL) < 0) return failed(from, penstock_error_text());
  int result = 0;
  penstock_entry entry = PENSTOCK_ENTRY_INIT;
  while (penstock_listing_next(listing, &entry)) {
    char* source = join(from, entry.name);
    char* target = join(to, entry.name);
    penstock_attributes attributes = PENSTOCK_ATTRIBUTES_INIT;
    if (!source || !target) {
      result = failed(from, "out of memory");
    } else if (penstock_stat(mount, source, PENSTOCK_NOFOLLOW, &attributes, NULL) < 0) {
      result = failed(source, penstock_error_text());
    } else if (attributes.type == PENSTOCK_DIRECTORY) {
      if (copy_directory(mount, source, target) != 0) result = -1;
    } else if (attributes.type == PENSTOCK_REGULAR) {
      if (copy_file(mount, source, target, &attributes) != 0) result = -1;
    } else if (attributes.type == PENSTOCK_SYMLINK) {
      if (copy_link(mount, source, target) != 0) result = -1;
    } else {
      fprintf(stderr, "copy_tree: %s: left out: not a file, directory or symbolic link\n", source);
    }
    free(source);
    free(target);
  }
  penstock_listing_free(listing);
  return result;
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: copy_tree nfs://SERVER/PATH DIRECTORY\n");
    return 2;
  }
  penstock_runtime* runtime;
  penstock_mount* mount;
  if (penstock_runtime_new(NULL, &runtime) < 0) {
    fprintf(stderr, "copy_tree: %s\n", penstock_error_text());
    return 1;
  }
  int result = 0;
  if (penstock_mount_open(runtime, argv[1], NULL, &mount, NULL) < 0) {
    result = failed(argv[1], penstock_error_text());
  } else {
    result = copy_directory(mount, "", argv[2]);
    if (penstock_mount_close(mount, NULL) < 0) result = failed(argv[1], penstock_error_text());
  }
  penstock_runtime_free(runtime);
  printf("copied %lu files with %lu octets\n", files, octets);
  return result == 0 ? 0 : 1;
}
