/* An I/O engine for fio: each job reads and writes files of an NFS server by libpenstock.
 *
 *   [job]
 *   ioengine=external:build/fio/penstock-fio.so
 *   nfs_url=nfs://server/export/folder?vers=4.2&proto=rdma
 *   filename=a:b
 *
 * A job has one connection and one thread: its runtime has no threads of its own, and fio's getevents drives it. Up to
 * iodepth reads, writes and fsyncs are under way at once. The engine uses the public C API only. bench/fio/build
 * compiles it against the source of the fio that loads it, because fio's structures differ between versions.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <penstock/penstock.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* fio's headers. */
#include <fio.h>
#include <optgroup.h>

/* New files are written in pieces of this size, each of which the library divides further. */
enum { LAYOUT_PIECE = 4 << 20 };

struct options {
  void* unused; /* fio takes an option at offset 0 for one without a place */
  char* nfs_url;
  char* rdma;
  char* rdma_device;
  char* krb5_keytab;
  char* krb5_principal;
  char* tls_ca;
  char* tls_cert;
  char* tls_key;
};

#define TEXT_OPTION(option, about)           \
  {.name = #option,                          \
   .lname = #option,                         \
   .type = FIO_OPT_STR_STORE,                \
   .off1 = offsetof(struct options, option), \
   .help = about,                            \
   .category = FIO_OPT_C_ENGINE,             \
   .group = FIO_OPT_G_NFS}

static struct fio_option options[] = {
    TEXT_OPTION(nfs_url, "nfs://host[:port]/folder[?option=value&...], see penstock-url(5)"),
    TEXT_OPTION(rdma, "How to make connections over RDMA: auto, verbs or iwarp"),
    TEXT_OPTION(rdma_device, "The only RDMA adapter to use"),
    TEXT_OPTION(krb5_keytab, "The keytab for sec=krb5, krb5i and krb5p; otherwise the user's tickets"),
    TEXT_OPTION(krb5_principal, "The principal in the keytab"),
    TEXT_OPTION(tls_ca, "A PEM file with the authorities of servers"),
    TEXT_OPTION(tls_cert, "A PEM file with the client's certificate"),
    TEXT_OPTION(tls_key, "A PEM file with the key of the certificate"),
    {.name = NULL},
};

/* A connection to the server, and the requests of a job that use it. One process and one thread use it. */
struct session {
  penstock_runtime* runtime;
  penstock_mount* mount;
  unsigned under_way;   /* requests that have not ended */
  struct io_u** ended;  /* a ring of requests that have ended, the oldest at `first` */
  unsigned size;        /* of the ring: iodepth */
  unsigned first;       /* in the ring */
  unsigned count;       /* in the ring */
  unsigned reported;    /* the first ones of the ring, which fio takes by event() */
  char last_error[512]; /* so that one failure of many requests is printed once */
};

static void print_message(void* context, penstock_log_level level, const char* module, const char* message) {
  (void)context;
  (void)level;
  log_err("penstock: %s: %s\n", module, message);
}

/* Prints the error, and makes it the job's. Returns the errno. */
static int fail(struct thread_data* td, int64_t result, const char* what, const char* name, const char* text) {
  const int number = (int)-result;
  log_err("penstock: %s %s: %s\n", what, name, text);
  td_vmsg(td, number, text, what);
  return number;
}

static int refuse(struct thread_data* td, const char* why) {
  log_err("penstock: %s\n", why);
  td_vmsg(td, EINVAL, why, "setup");
  return EINVAL;
}

/* Returns zero, or an errno. */
static int open_session(struct thread_data* td, struct session* session) {
  const struct options* given = td->eo;
  penstock_runtime_options runtime = PENSTOCK_RUNTIME_OPTIONS_INIT;
  runtime.threads = 0;
  runtime.log = print_message;
  runtime.rdma = given->rdma;
  runtime.rdma_device = given->rdma_device;
  int result = penstock_runtime_new(&runtime, &session->runtime);
  if (result < 0) return fail(td, result, "cannot start for", given->nfs_url, penstock_error_text());

  penstock_mount_options mount = PENSTOCK_MOUNT_OPTIONS_INIT;
  mount.krb5_keytab = given->krb5_keytab;
  mount.krb5_principal = given->krb5_principal;
  mount.tls_ca = given->tls_ca;
  mount.tls_cert = given->tls_cert;
  mount.tls_key = given->tls_key;
  result = penstock_mount_open(session->runtime, given->nfs_url, &mount, &session->mount, NULL);
  if (result == 0) return 0;
  const int number = fail(td, result, "cannot mount", given->nfs_url, penstock_error_text());
  penstock_runtime_free(session->runtime);
  return number;
}

static void close_session(struct thread_data* td, struct session* session) {
  const struct options* given = td->eo;
  int result = penstock_mount_close(session->mount, NULL);
  if (result < 0) fail(td, result, "cannot unmount", given->nfs_url, penstock_error_text());
  result = penstock_runtime_free(session->runtime);
  if (result < 0) fail(td, result, "cannot end for", given->nfs_url, penstock_error_text());
}

/* ---- files ---- */

/* Makes the folders that lead to the file. */
static int make_folders(struct session* session, const char* name) {
  char path[PATH_MAX]; /* fio has no longer names */
  snprintf(path, sizeof path, "%s", name);
  int result = 0;
  for (char* end = strchr(path + 1, '/'); end && result == 0; end = strchr(end + 1, '/')) {
    *end = '\0';
    result = penstock_mkdir(session->mount, path, 0755, NULL);
    if (result == -EEXIST) result = 0;
    *end = '/';
  }
  return result;
}

/* Opens the file, and makes it and its folders if the flags say so. Returns zero, or an errno. */
static int open_on_server(struct thread_data* td, struct session* session, struct fio_file* f, int flags,
                          penstock_file** file) {
  int result = penstock_open(session->mount, f->file_name, flags, 0644, file, NULL);
  if (result == -ENOENT && (flags & O_CREAT) && strchr(f->file_name, '/')) {
    result = make_folders(session, f->file_name);
    if (result == 0) result = penstock_open(session->mount, f->file_name, flags, 0644, file, NULL);
  }
  return result < 0 ? fail(td, result, "cannot open", f->file_name, penstock_error_text()) : 0;
}

/* Asks the server for the size of a file. A file that does not exist has no octets. */
static int ask_size(struct thread_data* td, struct session* session, struct fio_file* f) {
  penstock_attributes attributes = PENSTOCK_ATTRIBUTES_INIT;
  f->filetype = FIO_TYPE_FILE; /* fio has looked for the name on this host */
  f->real_file_size = 0;
  const int result = penstock_stat(session->mount, f->file_name, 0, &attributes, NULL);
  if (result < 0 && result != -ENOENT) return fail(td, result, "cannot find", f->file_name, penstock_error_text());
  if (result == 0) {
    if (attributes.type != PENSTOCK_REGULAR) {
      return fail(td, -EINVAL, "cannot use", f->file_name, "it is not a regular file");
    }
    f->real_file_size = attributes.length;
  }
  fio_file_set_size_known(f);
  return 0;
}

/* Writes the octets that a file lacks. */
static int extend(struct thread_data* td, struct session* session, struct fio_file* f, uint64_t from, uint64_t to) {
  penstock_file* file;
  const int flags = O_WRONLY | (td->o.allow_create ? O_CREAT : 0);
  int number = open_on_server(td, session, f, flags, &file);
  if (number != 0) return number;
  char* buffer = malloc(LAYOUT_PIECE);
  if (!buffer) number = fail(td, -ENOMEM, "cannot lay out", f->file_name, "out of memory");
  while (number == 0 && from < to && !td->terminate) {
    const uint64_t piece = to - from < LAYOUT_PIECE ? to - from : LAYOUT_PIECE;
    const uint64_t block = td->o.max_bs[DDIR_WRITE] < piece ? td->o.max_bs[DDIR_WRITE] : piece;
    fill_io_buffer(td, buffer, block, piece);
    const int64_t written = penstock_pwrite(file, buffer, piece, from, NULL);
    if (written < 0) number = fail(td, written, "cannot lay out", f->file_name, penstock_error_text());
    from += piece;
  }
  free(buffer);
  const int result = penstock_close(file, NULL); /* makes the octets stable */
  if (result < 0 && number == 0) number = fail(td, result, "cannot lay out", f->file_name, penstock_error_text());
  return number;
}

/* ---- fio's hooks before the job ---- */

/* Runs in the process that starts the jobs. Connections do not survive its fork(): so this one ends here. */
static int engine_setup(struct thread_data* td) {
  const struct options* given = td->eo;
  if (strcmp(fio_version_string, PENSTOCK_FIO_VERSION) != 0) {
    log_err("penstock: this engine was built for %s, this is %s: build it again by bench/fio/build\n",
            PENSTOCK_FIO_VERSION, fio_version_string);
    return EINVAL;
  }
  if (!given->nfs_url || !*given->nfs_url) return refuse(td, "nfs_url= is missing");
  if (td_trim(td)) return refuse(td, "NFS files cannot be trimmed");
  if (td->o.fill_device) return refuse(td, "fill_device= is not supported");
  if (td->o.pre_read) return refuse(td, "pre_read= is not supported");
  struct session session = {0};
  int number = open_session(td, &session);
  if (number != 0) return number;
  struct fio_file* f;
  unsigned i;
  for_each_file(td, f, i) {
    number = ask_size(td, &session, f);
    if (number != 0) break;
  }
  close_session(td, &session);
  return number != 0 ? number : td->error;
}

/* Makes a file long enough for the job, as fio does for local files: its octets are written if the job reads them or
 * overwrites them. Octets that it has stay. Runs where engine_setup() runs, when the size is known. */
static int engine_prepopulate(struct thread_data* td, struct fio_file* f) {
  const uint64_t from = f->real_file_size;
  const uint64_t to = f->file_offset + f->io_size;
  if (to <= from) return 0;
  f->real_file_size = to;
  if (!td_read(td) && (!td->o.overwrite || td->o.file_append)) return 0;
  if (read_only) {
    char why[128];
    snprintf(why, sizeof why, "it has %" PRIu64 " octets, the job needs %" PRIu64 ", and --readonly forbids writing",
             from, to);
    return fail(td, -EROFS, "cannot lay out", f->file_name, why);
  }
  struct session session = {0};
  int number = open_session(td, &session);
  if (number != 0) return number;
  number = extend(td, &session, f, from, to);
  close_session(td, &session);
  return number != 0 ? number : td->error;
}

/* ---- fio's hooks in the job's process and thread ---- */

static int engine_init(struct thread_data* td) {
  struct session* session = calloc(1, sizeof *session);
  if (session) session->ended = calloc(td->o.iodepth, sizeof *session->ended);
  if (!session || !session->ended) {
    free(session);
    return fail(td, -ENOMEM, "cannot start", td->o.name, "out of memory");
  }
  session->size = td->o.iodepth;
  const int number = open_session(td, session);
  if (number != 0) {
    free(session->ended);
    free(session);
    return number;
  }
  td->io_ops_data = session;
  return 0;
}

static void engine_cleanup(struct thread_data* td) {
  struct session* session = td->io_ops_data;
  if (!session) return;
  while (session->under_way > 0 && penstock_runtime_dispatch(session->runtime, -1) > 0) continue;
  close_session(td, session);
  free(session->ended);
  free(session);
}

static int engine_open(struct thread_data* td, struct fio_file* f) {
  int flags = O_RDONLY;
  if (td_write(td)) flags = O_RDWR | (td->o.allow_create ? O_CREAT : 0) | td->o.sync_io;
  penstock_file* file;
  const int number = open_on_server(td, td->io_ops_data, f, flags, &file);
  if (number == 0) f->engine_data = file;
  return number;
}

static int engine_close(struct thread_data* td, struct fio_file* f) {
  penstock_file* file = f->engine_data;
  f->engine_data = NULL;
  const int result = penstock_close(file, NULL);
  return result < 0 ? fail(td, result, "cannot close", f->file_name, penstock_error_text()) : 0;
}

/* An open file is closed first: version 3 has no files without names. */
static int engine_unlink(struct thread_data* td, struct fio_file* f) {
  struct session* session = td->io_ops_data;
  if (!session) return ENOTCONN; /* the job has not begun */
  if (f->engine_data) engine_close(td, f);
  const int result = penstock_unlink(session->mount, f->file_name, NULL);
  if (result == -ENOENT) return ENOENT; /* fio tries it twice */
  return result < 0 ? fail(td, result, "cannot remove", f->file_name, penstock_error_text()) : 0;
}

/* Ends a request. */
static void note_end(void* context, int64_t result, const char* error) {
  struct io_u* io_u = context;
  struct session* session = io_u->engine_data;
  char text[sizeof session->last_error];
  if (result < 0) {
    io_u->error = (unsigned)-result;
    snprintf(text, sizeof text, "%s", error);
  } else if (io_u->ddir == DDIR_READ && (uint64_t)result < io_u->xfer_buflen) {
    /* fio asks for octets that the file had at the beginning of the job. fio itself would go on with the rest, and take
     * no octets at all for success. */
    io_u->error = EIO;
    snprintf(text, sizeof text, "%s: a read of %llu octets at %llu got %" PRId64 ": the file has become shorter",
             io_u->file->file_name, io_u->xfer_buflen, io_u->offset, result);
  }
  if (io_u->error && strcmp(text, session->last_error) != 0) {
    log_err("penstock: %s\n", text);
    memcpy(session->last_error, text, sizeof text);
  }
  --session->under_way;
  session->ended[(session->first + session->count++) % session->size] = io_u;
}

static enum fio_q_status engine_queue(struct thread_data* td, struct io_u* io_u) {
  struct session* session = td->io_ops_data;
  penstock_file* file = io_u->file->engine_data;
  penstock_call call = PENSTOCK_CALL_INIT;
  call.done = note_end;
  call.context = io_u;
  io_u->engine_data = session;
  fio_ro_check(td, io_u);

  int64_t result;
  switch (io_u->ddir) {
    case DDIR_READ:
      result = penstock_pread(file, io_u->xfer_buf, io_u->xfer_buflen, io_u->offset, &call);
      break;
    case DDIR_WRITE:
      result = penstock_pwrite(file, io_u->xfer_buf, io_u->xfer_buflen, io_u->offset, &call);
      break;
    case DDIR_SYNC:
    case DDIR_DATASYNC:
      result = penstock_fsync(file, &call);
      break;
    default:
      log_err("penstock: %s is not supported\n", io_ddir_name(io_u->ddir));
      io_u->error = EOPNOTSUPP;
      return FIO_Q_COMPLETED;
  }
  if (result < 0) {
    log_err("penstock: %s\n", penstock_error_text());
    io_u->error = (unsigned)-result;
    return FIO_Q_COMPLETED;
  }
  ++session->under_way;
  /* The request leaves when fio waits for events. If fio sleeps before that, the request leaves now. */
  if (td->o.thinktime || should_check_rate(td)) {
    result = penstock_runtime_dispatch(session->runtime, 0);
    if (result < 0) fail(td, result, "cannot send for", td->o.name, penstock_error_text());
  }
  return FIO_Q_QUEUED;
}

static int engine_get_events(struct thread_data* td, unsigned min, unsigned max, const struct timespec* t) {
  (void)t; /* fio gives a time only together with a minimum of zero */
  struct session* session = td->io_ops_data;
  session->first = (session->first + session->reported) % session->size;
  session->count -= session->reported;
  session->reported = 0;
  /* By default fio takes one request at a time, and starts another one then. While it takes those that have ended, the
   * new ones gather, so that few calls of the system send many of them. */
  bool asks = min == 0 && session->count == 0;
  while (asks || (session->count < min && session->under_way > 0)) {
    const int result = penstock_runtime_dispatch(session->runtime, asks ? 0 : -1);
    if (result < 0) return -fail(td, result, "cannot wait for", td->o.name, penstock_error_text());
    asks = false;
  }
  session->reported = session->count < max ? session->count : max;
  return (int)session->reported;
}

static struct io_u* engine_event(struct thread_data* td, int event) {
  const struct session* session = td->io_ops_data;
  return session->ended[(session->first + (unsigned)event) % session->size];
}

/* fio finds the engine by this name. */
struct ioengine_ops ioengine = {
    .name = "penstock",
    .version = FIO_IOOPS_VERSION,
    /* FIO_DISKLESSIO: fio looks for no local files. FIO_NO_OFFLOAD: another thread must not use a job's session. */
    .flags = FIO_DISKLESSIO | FIO_NOEXTEND | FIO_NODISKUTIL | FIO_NO_OFFLOAD,
    .setup = engine_setup,
    .prepopulate_file = engine_prepopulate,
    .init = engine_init,
    .cleanup = engine_cleanup,
    .open_file = engine_open,
    .close_file = engine_close,
    .unlink_file = engine_unlink,
    .queue = engine_queue,
    .getevents = engine_get_events,
    .event = engine_event,
    .options = options,
    .option_struct_size = sizeof(struct options),
};
