/* many_reads: reads 1,000 pieces of a file at the same time, in the poll loop of the program.
 *
 *   many_reads nfs://server/export/photos/cat.jpg
 *
 * An example of the C API of libpenstock that does not block. The runtime has no threads: the program waits for the
 * descriptor of the runtime beside its own (here a clock that ticks), and lets the library do what is ready.
 *
 *   cc -o many_reads many_reads.c $(pkg-config --cflags --libs penstock)
 */
#define _POSIX_C_SOURCE 200809L

#include <fcntl.h>
#include <inttypes.h>
#include <penstock/penstock.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { COUNT = 1000, MOST = 64 * 1024 };

/* What an operation has told. */
struct result {
  int ended;
  int64_t value;
  char error[256];
};

static void note(void* context, int64_t value, const char* error) {
  struct result* result = context;
  result->ended = 1;
  result->value = value;
  snprintf(result->error, sizeof result->error, "%s", error ? error : "");
}

static penstock_call call_for(struct result* result) {
  penstock_call call = PENSTOCK_CALL_INIT;
  memset(result, 0, sizeof *result);
  call.done = note;
  call.context = result;
  call.timeout_ms = 60000;
  return call;
}

struct program {
  penstock_runtime* runtime;
  int clock;
  unsigned long ticks;
};

/* The poll loop of a program: it serves its own descriptor, and that of the library. Returns the result. */
static int64_t wait_for(struct program* program, const struct result* result) {
  while (!result->ended) {
    struct pollfd waits[2] = {{.fd = penstock_runtime_fd(program->runtime), .events = POLLIN},
                              {.fd = program->clock, .events = POLLIN}};
    if (poll(waits, 2, -1) < 0) continue;
    if (waits[0].revents) penstock_runtime_dispatch(program->runtime, 0);
    uint64_t expired;
    if (waits[1].revents && read(program->clock, &expired, sizeof expired) > 0) program->ticks += expired;
  }
  if (result->value < 0) fprintf(stderr, "many_reads: %s\n", result->error);
  return result->value;
}

/* Reads the file in COUNT pieces, all at the same time. Returns the number of octets, or a negative number. */
static int64_t read_pieces(struct program* program, penstock_file* file, uint64_t length) {
  const size_t piece = (size_t)((length + COUNT - 1) / COUNT);
  if (piece > MOST) {
    fprintf(stderr, "many_reads: the file has more than %d octets\n", COUNT * MOST);
    return -1;
  }
  char* memory = malloc(piece * COUNT + 1);
  struct result* results = calloc(COUNT, sizeof *results);
  int64_t sum = memory && results ? 0 : -1;
  int started = 0;
  for (; sum == 0 && started < COUNT; ++started) {
    const penstock_call call = call_for(&results[started]);
    const uint64_t offset = (uint64_t)started * piece;
    if (penstock_pread(file, memory + offset, piece, offset, &call) < 0) {
      fprintf(stderr, "many_reads: %s\n", penstock_error_text());
      sum = -1;
      break;
    }
  }
  /* Those that were started use the memory until they have ended. */
  for (int i = 0; i < started; ++i) {
    const int64_t read = wait_for(program, &results[i]);
    if (read < 0) sum = -1;
    if (sum >= 0) sum += read;
  }
  free(results);
  free(memory);
  return sum;
}

static int run(struct program* program, const char* url) {
  struct result result;
  penstock_mount* mount;
  penstock_call call = call_for(&result);
  if (penstock_mount_open(program->runtime, url, NULL, &mount, &call) < 0) {
    fprintf(stderr, "many_reads: %s\n", penstock_error_text());
    return 1;
  }
  if (wait_for(program, &result) < 0) return 1;

  int64_t sum = -1;
  penstock_file* file;
  penstock_attributes attributes = PENSTOCK_ATTRIBUTES_INIT;
  call = call_for(&result);
  if (penstock_open(mount, "", O_RDONLY, 0, &file, &call) == 0 && wait_for(program, &result) == 0) {
    call = call_for(&result);
    if (penstock_fstat(file, &attributes, &call) == 0 && wait_for(program, &result) == 0) {
      sum = read_pieces(program, file, attributes.length);
    }
    call = call_for(&result);
    if (penstock_close(file, &call) == 0) wait_for(program, &result);
  }
  call = call_for(&result);
  if (penstock_mount_close(mount, &call) == 0) wait_for(program, &result);
  if (sum < 0) return 1;
  printf("%d reads at the same time have read %" PRId64 " of %" PRIu64 " octets\n", COUNT, sum, attributes.length);
  return sum == (int64_t)attributes.length ? 0 : 1;
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: many_reads nfs://SERVER/FILE\n");
    return 2;
  }
  struct program program = {.clock = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)};
  const struct itimerspec each = {.it_interval = {.tv_nsec = 1000000}, .it_value = {.tv_nsec = 1000000}};
  if (program.clock < 0 || timerfd_settime(program.clock, 0, &each, NULL) != 0) {
    perror("many_reads: timerfd");
    return 1;
  }
  penstock_runtime_options options = PENSTOCK_RUNTIME_OPTIONS_INIT;
  options.threads = 0;
  if (penstock_runtime_new(&options, &program.runtime) < 0) {
    fprintf(stderr, "many_reads: %s\n", penstock_error_text());
    return 1;
  }
  const int code = run(&program, argv[1]);
  penstock_runtime_free(program.runtime);
  close(program.clock);
  return code;
}
