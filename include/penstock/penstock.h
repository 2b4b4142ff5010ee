/**
 * @file
 * The NFS client of libpenstock: versions 3, 4.0, 4.1 and 4.2 (RFC 1813, RFC 7530, RFC 8881, RFC 7862) over TCP
 * (RFC 5531 §11) and over RDMA (RFC 8166, RFC 8267). Without an RDMA adapter, RDMA is iWARP in software (RFC 5040,
 * RFC 5041, RFC 5044).
 *
 * **Results.** A function that returns int or int64_t returns zero or more for success, and a negative errno for a
 * failure, such as -ENOENT. penstock_error_text() then says what happened, for people. No function ends the process,
 * writes to the standard streams, installs a signal handler or changes the locale, the umask or the working directory.
 *
 * **Waiting.** The last parameter of a function that waits for a server is a `const penstock_call *`. If it is null,
 * the function blocks until the server has answered. Otherwise it says how long the operation may take and what can
 * cancel it, and with penstock_call::done the function does not block: it starts the operation and returns zero, and
 * `done` gets the result later. If the function returns a negative number, it has started nothing, and `done` is not
 * called.
 *
 * **Memory.** Strings and structures that a function is given are copied before it returns. The octets that an
 * operation reads into or writes from, and the places for its results, belong to the operation until it has ended,
 * which for an operation that does not block is when `done` is called. No operation touches them later, however it
 * ended.
 *
 * **Cancelling.** An operation that is cancelled, or whose time is over, ends at once with -ECANCELED or -ETIMEDOUT.
 * The server may have executed it nevertheless, or may execute it later.
 *
 * **Threads.** A runtime that has threads of its own, and everything that belongs to it, may be used by any thread. A
 * runtime that its host drives (penstock_runtime_options::threads is zero), and everything that belongs to it, may be
 * used by one thread at a time. penstock_cancel() may be called by any thread in both cases. An object must not be
 * used by one thread while another one closes or frees it.
 *
 * **Processes.** After fork(), the child must not use the objects of its parent. Functions that are given one fail with
 * -EPERM there and do nothing. The child may make a runtime of its own.
 *
 * **Structures.** Structures begin with their size, so that they can grow: initialize them with the macro of the same
 * name, which ends in _INIT. A program that was built with an older header gets the old behaviour. A structure that is
 * larger than the library knows must have zeros in the rest, otherwise the function fails with -E2BIG.
 */
#ifndef PENSTOCK_PENSTOCK_H
#define PENSTOCK_PENSTOCK_H

#include <stddef.h>
#include <stdint.h>

#include "penstock/api.h"

PENSTOCK_BEGIN_DECLS

/** Event loops, their threads, and what mounts share. */
typedef struct penstock_runtime penstock_runtime;
/** A tree of files on a server. */
typedef struct penstock_mount penstock_mount;
/** An open regular file. */
typedef struct penstock_file penstock_file;
/** The entries of a directory. */
typedef struct penstock_listing penstock_listing;
/** Cancels operations. */
typedef struct penstock_cancellation penstock_cancellation;
/** A network of the host that carries RDMA connections: see provider.h. */
typedef struct penstock_provider penstock_provider;

/* ---- versions and errors ---- */

/** Returns the version of the library that runs, such as "1.0.0". The text is static. Any thread. */
PENSTOCK_API const char* penstock_version(void);

/**
 * Returns the text of the last failure of a function of this library on this thread: one line for people, without a
 * full stop. It stays until the thread calls the next function of this library that can fail. Never null.
 */
PENSTOCK_API const char* penstock_error_text(void);

/* ---- calls ---- */

/**
 * Receives the result of an operation that does not block.
 *
 * It runs on a thread of the runtime; in a runtime that its host drives, in a function of this library on a thread of
 * the host. It is never called by the function that starts the operation. It may call all functions that do not block,
 * and must not block itself, because other operations of the thread wait.
 *
 * @param context  penstock_call::context.
 * @param result   What the function would return if it blocked.
 * @param error    The text of the failure. Null for success. Valid until this function returns.
 */
typedef void penstock_done(void* context, int64_t result, const char* error);

/** How an operation ends. Initialize it with PENSTOCK_CALL_INIT. */
typedef struct penstock_call {
  size_t size;                         /**< sizeof(penstock_call) */
  penstock_done* done;                 /**< Gets the result. Null: the function blocks. */
  void* context;                       /**< For `done`. */
  int64_t timeout_ms;                  /**< After so many milliseconds the operation ends. Negative: no limit. */
  penstock_cancellation* cancellation; /**< Can end the operation. Null: nothing can. */
} penstock_call;
/** A call that blocks, without a limit. */
#define PENSTOCK_CALL_INIT {sizeof(penstock_call), NULL, NULL, -1, NULL}

/**
 * Makes an object that cancels operations: any number, one after another or at the same time.
 *
 * @param[out] cancellation  The object. The caller frees it.
 * @return Zero, or -ENOMEM.
 */
PENSTOCK_API int penstock_cancellation_new(penstock_cancellation** cancellation);

/**
 * Ends all operations that were started with this object and have not ended, with -ECANCELED, and from now on those
 * that are started with it. It calls no penstock_done function itself. Any thread; not in a signal handler. In a
 * runtime that its host drives, the operations end in the host's next call of penstock_runtime_dispatch(), for which
 * penstock_runtime_fd() becomes readable.
 */
PENSTOCK_API void penstock_cancel(penstock_cancellation* cancellation);

/** Frees the object, which may be null. Operations that were started with it go on. */
PENSTOCK_API void penstock_cancellation_free(penstock_cancellation* cancellation);

/* ---- runtimes ---- */

/** How important a message is. */
typedef enum penstock_log_level {
  PENSTOCK_LOG_DEBUG = 0,
  PENSTOCK_LOG_INFO = 1,
  PENSTOCK_LOG_WARNING = 2,
  PENSTOCK_LOG_ERROR = 3
} penstock_log_level;

/**
 * Receives a message of the library: one line, without a line break. All threads of the runtime call it, one at a time.
 * It must not call functions of this library and should not block.
 *
 * @param context  The context that was given together with the function.
 * @param level    How important the message is.
 * @param module   The part of the library that speaks, such as "rdma.iwarp". Static.
 * @param message  The text. Valid until the function returns.
 */
typedef void penstock_log(void* context, penstock_log_level level, const char* module, const char* message);

/** The settings of a runtime. Initialize them with PENSTOCK_RUNTIME_OPTIONS_INIT. */
typedef struct penstock_runtime_options {
  size_t size; /**< sizeof(penstock_runtime_options) */
  /**
   * The number of event loops, each on a thread of its own. Mounts are spread over them. Zero: there is one loop, which
   * the host drives by penstock_runtime_fd() and penstock_runtime_dispatch(). At most 256.
   */
  unsigned threads;
  /**
   * The most threads for calls of the system that block: the look-up of a server's name, Kerberos, local files. They
   * are started when they are needed. Zero: 16. From 4 to 1024.
   */
  unsigned blocking_threads;
  penstock_log* log;            /**< Receives the messages of the runtime. Null: they are dropped. */
  void* log_context;            /**< For `log`. */
  penstock_log_level log_level; /**< The least important messages that `log` gets. */
  /**
   * How connections over RDMA are made: "verbs" by an RDMA adapter, "iwarp" in software, "auto" by an adapter if one
   * leads to the server, otherwise in software. Null: "auto".
   */
  const char* rdma;
  const char* rdma_device; /**< The only RDMA adapter to use, such as "mlx5_0". Null: any. */
  /**
   * Makes all connections over RDMA, in the place of `rdma` and `rdma_device`, which must be null. The provider lives
   * longer than the runtime. Null: the host has none.
   */
  penstock_provider* provider;
} penstock_runtime_options;
/** One loop on a thread of its own, no log, RDMA by an adapter if there is one. */
#define PENSTOCK_RUNTIME_OPTIONS_INIT \
  {sizeof(penstock_runtime_options), 1, 0, NULL, NULL, PENSTOCK_LOG_WARNING, NULL, NULL, NULL}

/**
 * Makes a runtime, and starts its threads, which block all signals.
 *
 * @param options       Null: PENSTOCK_RUNTIME_OPTIONS_INIT.
 * @param[out] runtime  The runtime. The caller frees it.
 * @return Zero; -EINVAL for wrong options; -EAGAIN, -EMFILE or -ENOMEM if the system has no threads, descriptors or
 *     memory left.
 */
PENSTOCK_API int penstock_runtime_new(const penstock_runtime_options* options, penstock_runtime** runtime);

/**
 * Ends the threads of a runtime and frees it. Blocks while a thread is in a call of the system that cannot be
 * interrupted: the look-up of a name, Kerberos, a local file.
 *
 * @param runtime  Null: nothing happens.
 * @return Zero; -EBUSY, and the runtime stays, if it has mounts or operations that have not ended; -EDEADLK in a
 *     penstock_done function.
 */
PENSTOCK_API int penstock_runtime_free(penstock_runtime* runtime);

/**
 * Returns a descriptor that is readable (POLLIN) when penstock_runtime_dispatch() has something to do: a message has
 * arrived, a time is over. For poll(), epoll and event libraries. It belongs to the runtime: do not read it, and do not
 * close it.
 *
 * @return The descriptor; -EINVAL if the runtime has threads of its own.
 */
PENSTOCK_API int penstock_runtime_fd(const penstock_runtime* runtime);

/**
 * Does what is to be done now, in a runtime that its host drives: sends, receives, and calls the `done` of operations
 * that have ended. Call it when penstock_runtime_fd() is readable, or instead of waiting for that.
 *
 * @param runtime     A runtime without threads of its own.
 * @param timeout_ms  How many milliseconds the function waits until an operation ends. Zero: it does not wait.
 * Negative: no limit. It never waits if no operation is under way.
 * @return The number of operations that have ended; -EINVAL if the runtime has threads of its own; -EDEADLK in a
 *     penstock_done function.
 */
PENSTOCK_API int penstock_runtime_dispatch(penstock_runtime* runtime, int timeout_ms);

/* ---- mounts ---- */

/** What a URL does not say about a mount. Initialize it with PENSTOCK_MOUNT_OPTIONS_INIT. */
typedef struct penstock_mount_options {
  size_t size; /**< sizeof(penstock_mount_options) */
  /** For sec=krb5, krb5i and krb5p: the keytab from which the client gets its tickets. Null: the tickets of the user.
   */
  const char* krb5_keytab;
  const char* krb5_principal; /**< The principal in the keytab. Null: its first one. */
  const char* tls_ca; /**< For xprtsec=tls and mtls: a PEM file with the authorities of servers. Null: the system's. */
  const char* tls_cert; /**< For xprtsec=mtls: a PEM file with the client's certificate. */
  const char* tls_key;  /**< For xprtsec=mtls: a PEM file with the key of the certificate. */
  /** The most delegations of files that are not open (RFC 8881 §10.4). Zero: the client wants none. Negative: 1024. */
  int delegations;
} penstock_mount_options;
/** The user's tickets, the system's authorities, 1024 delegations. */
#define PENSTOCK_MOUNT_OPTIONS_INIT {sizeof(penstock_mount_options), NULL, NULL, NULL, NULL, NULL, -1}

/**
 * Connects to a server and mounts the export that a URL leads into.
 *
 * @param runtime  The mount belongs to it.
 * @param url      `nfs://host[:port]/path[?option=value&...]`. Percent-encoded. The path may name a directory in an
 *     export or a file. Options: `vers` (3, 4.0, 4.1, 4.2; else 4.1, or 3 if the server does not speak it), `proto`
 * (tcp, rdma), `sec` (sys, krb5, krb5i, krb5p), `xprtsec` (none, opportunistic, tls, mtls), `port`, `mountport`, `uid`,
 *     `gid`, `timeout` (seconds, 600: after so long without an answer an operation fails), `crc` (on, off),
 * `noresvport`; more in penstock(1).
 * @param options  Null: PENSTOCK_MOUNT_OPTIONS_INIT.
 * @param[out] mount  The mount. The caller closes it.
 * @param call     How the operation ends.
 * @return Zero, or why there is no mount:
 *     - -EINVAL: the URL or the options are wrong, or a file that they name cannot be used.
 *     - -EHOSTUNREACH, -ENETUNREACH: the name of the host is unknown, or no network leads to it.
 *     - -ECONNREFUSED: nothing listens at the port, or an RDMA server rejects the connection, because it is full.
 *     - -ETIMEDOUT: the server does not answer.
 *     - -ECONNRESET: the server closes connections before it answers: it is full, or it is no NFS server.
 *     - -EPROTO, -EPROTONOSUPPORT: the server speaks another protocol, or another version.
 *     - -EACCES: the server and the client do not agree on security: a certificate, Kerberos, the flavor, or the export
 *       is not for this client.
 *     - other negative errnos, for example -ENOENT if the path does not exist.
 *     An operation on an open mount fails with these errnos as well, if the server does not answer until `timeout`.
 */
PENSTOCK_API int penstock_mount_open(penstock_runtime* runtime, const char* url, const penstock_mount_options* options,
                                     penstock_mount** mount, const penstock_call* call);

/**
 * Gives back what the server keeps for a mount, ends its connections and frees it.
 *
 * @param mount  Null: nothing happens.
 * @param call   How the operation ends. Without a limit of its own it takes at most 10 seconds if the server does not
 *     answer. A cancellation is ignored.
 * @return Zero; -ETIMEDOUT, and the mount is freed, if the server did not answer. The mount stays with -EBUSY: it has
 *     open files or operations that have not ended; and with -EDEADLK, -EPERM, -EINVAL, -E2BIG and -ENOMEM, which have
 *     started nothing.
 */
PENSTOCK_API int penstock_mount_close(penstock_mount* mount, const penstock_call* call);

/** What a mount has agreed on with its server. Initialize it with PENSTOCK_MOUNT_INFO_INIT. */
typedef struct penstock_mount_info {
  size_t size;            /**< sizeof(penstock_mount_info) */
  char version[16];       /**< "3", "4.0", "4.1", "4.2" */
  char transport[8];      /**< "tcp" or "rdma" */
  uint32_t read_size;     /**< The most octets of one READ. */
  uint32_t write_size;    /**< The most octets of one WRITE. */
  uint64_t reconnections; /**< How many lost connections were replaced. */
} penstock_mount_info;
/** Room for the answer. */
#define PENSTOCK_MOUNT_INFO_INIT {sizeof(penstock_mount_info), "", "", 0, 0, 0}

/**
 * Tells what a mount has agreed on with its server. Asks the server nothing.
 *
 * @param[in,out] info  Its size tells how much the caller understands.
 * @return Zero.
 */
PENSTOCK_API int penstock_mount_get_info(penstock_mount* mount, penstock_mount_info* info, const penstock_call* call);

/**
 * Asks the server for an answer, without any work (procedure 0: RFC 1813 §3.3.0, RFC 8881 §16.1).
 *
 * @return Zero.
 */
PENSTOCK_API int penstock_ping(penstock_mount* mount, const penstock_call* call);

/* ---- names ----
 * Paths are relative to the path of the mount's URL, with or without a '/' at the beginning; "" and "/" name the URL's
 * path itself. They are octets, in UTF-8 by convention (RFC 8881 §14). ".." leads up to the root of the export at most.
 * The client follows symbolic links, except where PENSTOCK_NOFOLLOW or a function says that it does not. */

/** Attributes of a file that a server has no value for have zeros. */
typedef enum penstock_file_type {
  PENSTOCK_REGULAR = 1,
  PENSTOCK_DIRECTORY = 2,
  PENSTOCK_BLOCK_DEVICE = 3,
  PENSTOCK_CHARACTER_DEVICE = 4,
  PENSTOCK_SYMLINK = 5,
  PENSTOCK_SOCKET = 6,
  PENSTOCK_FIFO = 7,
  PENSTOCK_OTHER = 8 /**< An attribute directory, or a type of a later version of NFS. */
} penstock_file_type;

/** A point in time. */
typedef struct penstock_time {
  int64_t seconds;      /**< Since 1970-01-01T00:00:00Z. */
  uint32_t nanoseconds; /**< From 0 to 999999999. */
} penstock_time;

/** The uid or gid of an owner whom the server names by a text that is not a number. */
#define PENSTOCK_NO_ID UINT32_MAX

/** The attributes of a file (RFC 1813 §2.5, RFC 8881 §5.8). Initialize them with PENSTOCK_ATTRIBUTES_INIT. */
typedef struct penstock_attributes {
  size_t size;             /**< sizeof(penstock_attributes) */
  penstock_file_type type; /**< The type. */
  uint32_t mode;           /**< The twelve mode bits of POSIX. */
  uint32_t links;          /**< How many names it has. */
  uint32_t uid;            /**< The owner's number, or PENSTOCK_NO_ID. */
  uint32_t gid;            /**< The group's number, or PENSTOCK_NO_ID. */
  uint32_t device_major;   /**< For a device. */
  uint32_t device_minor;   /**< For a device. */
  uint64_t length;         /**< The size of the file in octets. */
  uint64_t used;           /**< How many octets of storage it takes. */
  uint64_t file_id;        /**< Its number in its file system: an inode number. */
  uint64_t file_system;    /**< The number of its file system. */
  uint64_t change;         /**< Another value after every change of the file or its attributes. */
  penstock_time accessed;  /**< When it was read last. */
  penstock_time modified;  /**< When its data changed last. */
  penstock_time changed;   /**< When its data or attributes changed last. */
  char owner[256];         /**< The owner as the server names it: a number or name\@domain. Empty if it is longer. */
  char group[256];         /**< The group, likewise. */
} penstock_attributes;
/** Room for the answer. */
#define PENSTOCK_ATTRIBUTES_INIT \
  {sizeof(penstock_attributes), PENSTOCK_OTHER, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, {0, 0}, {0, 0}, {0, 0}, "", ""}

/** Do not follow a symbolic link at the end of a path. */
#define PENSTOCK_NOFOLLOW 1u

/**
 * Reads the attributes of a file.
 *
 * @param path   The file.
 * @param flags  Zero or PENSTOCK_NOFOLLOW.
 * @param[in,out] attributes  Its size tells how much the caller understands.
 * @return Zero.
 */
PENSTOCK_API int penstock_stat(penstock_mount* mount, const char* path, unsigned flags, penstock_attributes* attributes,
                               const penstock_call* call);

/** Values of penstock_new_attributes::set. */
enum {
  PENSTOCK_SET_MODE = 1,          /**< Set `mode`. */
  PENSTOCK_SET_UID = 2,           /**< Set `uid`. */
  PENSTOCK_SET_GID = 4,           /**< Set `gid`. */
  PENSTOCK_SET_LENGTH = 8,        /**< Set `length`. */
  PENSTOCK_SET_ACCESSED = 16,     /**< Set `accessed`. */
  PENSTOCK_SET_ACCESSED_NOW = 32, /**< Set the time of the last access to the server's time. */
  PENSTOCK_SET_MODIFIED = 64,     /**< Set `modified`. */
  PENSTOCK_SET_MODIFIED_NOW = 128 /**< Set the time of the last modification to the server's time. */
};

/** Attributes to set. Initialize them with PENSTOCK_NEW_ATTRIBUTES_INIT. */
typedef struct penstock_new_attributes {
  size_t size;            /**< sizeof(penstock_new_attributes) */
  unsigned set;           /**< Which of the following values to set: a sum of PENSTOCK_SET_... */
  uint32_t mode;          /**< The twelve mode bits of POSIX. */
  uint32_t uid;           /**< The owner. */
  uint32_t gid;           /**< The group. */
  uint64_t length;        /**< The size of a regular file: cuts it, or extends it by zeros. */
  penstock_time accessed; /**< When it was read last. */
  penstock_time modified; /**< When its data changed last. */
} penstock_new_attributes;
/** Sets nothing. */
#define PENSTOCK_NEW_ATTRIBUTES_INIT {sizeof(penstock_new_attributes), 0, 0, 0, 0, 0, {0, 0}, {0, 0}}

/**
 * Sets attributes of a file, all of them or none.
 *
 * @param path   The file.
 * @param flags  Zero or PENSTOCK_NOFOLLOW.
 * @param attributes  What to set.
 * @return Zero.
 */
PENSTOCK_API int penstock_set_attributes(penstock_mount* mount, const char* path, unsigned flags,
                                         const penstock_new_attributes* attributes, const penstock_call* call);

/**
 * Reads the text of a symbolic link.
 *
 * @param path         The link.
 * @param[out] buffer  Receives the text, which may be relative or absolute, and a NUL.
 * @param size         The room in `buffer`, in octets.
 * @return The length of the text without its NUL; -ERANGE, and nothing in `buffer`, if it has not enough room; -EINVAL
 * if it is not a link.
 */
PENSTOCK_API int penstock_readlink(penstock_mount* mount, const char* path, char* buffer, size_t size,
                                   const penstock_call* call);

/**
 * Makes a directory.
 *
 * @param mode  The twelve mode bits of POSIX. The process's umask does not count; the server's may.
 * @return Zero; -EEXIST if the name is taken.
 */
PENSTOCK_API int penstock_mkdir(penstock_mount* mount, const char* path, uint32_t mode, const penstock_call* call);

/** Removes an empty directory. @return Zero; -ENOTEMPTY, -ENOTDIR; -EBUSY for the root of the export. */
PENSTOCK_API int penstock_rmdir(penstock_mount* mount, const char* path, const penstock_call* call);

/** Removes a name of anything but a directory. Does not follow a symbolic link. @return Zero; -EISDIR. */
PENSTOCK_API int penstock_unlink(penstock_mount* mount, const char* path, const penstock_call* call);

/** Gives a file another name, in place of an object that has it, as rename() of POSIX does. @return Zero. */
PENSTOCK_API int penstock_rename(penstock_mount* mount, const char* from, const char* to, const penstock_call* call);

/** Gives a file one more name. Does not follow a symbolic link. @return Zero; -EEXIST if the name is taken. */
PENSTOCK_API int penstock_link(penstock_mount* mount, const char* file, const char* name, const penstock_call* call);

/**
 * Makes a symbolic link.
 *
 * @param target  The text of the link, which need not lead to anything.
 * @param path    The name of the link.
 * @return Zero; -EEXIST if the name is taken.
 */
PENSTOCK_API int penstock_symlink(penstock_mount* mount, const char* target, const char* path,
                                  const penstock_call* call);

/** The space of a file system. Initialize it with PENSTOCK_SPACE_INIT. */
typedef struct penstock_space {
  size_t size;               /**< sizeof(penstock_space) */
  uint64_t total_octets;     /**< What the file system holds. */
  uint64_t free_octets;      /**< What is free. */
  uint64_t available_octets; /**< What is free for this user. */
  uint64_t total_files;      /**< How many files it can hold. */
  uint64_t free_files;       /**< How many more. */
  uint64_t available_files;  /**< How many more of this user. */
} penstock_space;
/** Room for the answer. */
#define PENSTOCK_SPACE_INIT {sizeof(penstock_space), 0, 0, 0, 0, 0, 0}

/**
 * Tells the space of the file system that holds a file (RFC 1813 §3.3.18, RFC 8881 §5.8.2).
 *
 * @param[in,out] space  Its size tells how much the caller understands.
 * @return Zero.
 */
PENSTOCK_API int penstock_statfs(penstock_mount* mount, const char* path, penstock_space* space,
                                 const penstock_call* call);

/* ---- directories ---- */

/** An entry of a directory. Initialize it with PENSTOCK_ENTRY_INIT. */
typedef struct penstock_entry {
  size_t size;      /**< sizeof(penstock_entry) */
  const char* name; /**< The name. Valid until the listing is freed. */
  /** The attributes, of a symbolic link itself. Valid until the next call with the listing. Null if the server does not
   * tell them. */
  const penstock_attributes* attributes;
} penstock_entry;
/** Room for an entry. */
#define PENSTOCK_ENTRY_INIT {sizeof(penstock_entry), NULL, NULL}

/**
 * Reads a directory.
 *
 * @param path          The directory.
 * @param[out] listing  All entries but "." and "..", in the server's order. The caller frees it. It needs no mount.
 * @return The number of entries.
 */
PENSTOCK_API int64_t penstock_list(penstock_mount* mount, const char* path, penstock_listing** listing,
                                   const penstock_call* call);

/**
 * Takes the next entry of a listing, from the first one on.
 *
 * @param[in,out] entry  Its size tells how much the caller understands.
 * @return 1; 0 if there is none left.
 */
PENSTOCK_API int penstock_listing_next(penstock_listing* listing, penstock_entry* entry);

/** Begins a listing again. */
PENSTOCK_API void penstock_listing_rewind(penstock_listing* listing);

/** Frees a listing, which may be null, and the names of its entries. */
PENSTOCK_API void penstock_listing_free(penstock_listing* listing);

/* ---- files ---- */

/**
 * Opens a regular file.
 *
 * @param path   The file.
 * @param flags  As for open(): O_RDONLY, O_WRONLY or O_RDWR, with O_CREAT, O_EXCL, O_TRUNC, O_NOFOLLOW, O_CLOEXEC
 * (which is without effect), and O_SYNC or O_DSYNC: penstock_pwrite() then returns when the data are on stable storage.
 * @param mode   With O_CREAT: the twelve mode bits of a new file. The process's umask does not count.
 * @param[out] file  The file. The caller closes it.
 * @return Zero; -EINVAL for other flags; -EEXIST with O_EXCL if the name is taken; -EISDIR.
 */
PENSTOCK_API int penstock_open(penstock_mount* mount, const char* path, int flags, uint32_t mode, penstock_file** file,
                               const penstock_call* call);

/**
 * Makes what was written to a file stable, as penstock_fsync() does, closes the file and frees it. The file is freed
 * also if this fails.
 *
 * @param file  Null: nothing happens.
 * @param call  A cancellation or the end of the time ends the wait. The file is closed later, if the server answers.
 * @return Zero; the failure of what penstock_fsync() does, or of closing. The file stays open with -EBUSY: it has
 *     operations that have not ended; and with -EDEADLK, -EPERM, -EINVAL, -E2BIG and -ENOMEM, which have started
 *     nothing.
 */
PENSTOCK_API int penstock_close(penstock_file* file, const penstock_call* call);

/**
 * Reads from a file. Reads of any size are divided into READs of the size that the server takes, several at a time.
 *
 * @param[out] buffer  Receives the octets. After a failure its contents are undefined.
 * @param count        How many octets to read.
 * @param offset       Where in the file.
 * @return The number of octets that were read, fewer than `count` only at the end of the file.
 */
PENSTOCK_API int64_t penstock_pread(penstock_file* file, void* buffer, size_t count, uint64_t offset,
                                    const penstock_call* call);

/**
 * Writes to a file. Writes of any size are divided into WRITEs of the size that the server takes, several at a time.
 * The data may be lost if the server restarts before penstock_fsync() or penstock_close() has succeeded; those tell.
 * With O_SYNC or O_DSYNC the data are on stable storage when this function has succeeded.
 *
 * @param buffer  The octets.
 * @param count   How many.
 * @param offset  Where in the file.
 * @return `count`. After a failure, a part of the octets may have been written.
 */
PENSTOCK_API int64_t penstock_pwrite(penstock_file* file, const void* buffer, size_t count, uint64_t offset,
                                     const penstock_call* call);

/**
 * Waits until everything that was written to this open file, by operations that have ended, is on the server's stable
 * storage (RFC 1813 §3.3.21, RFC 8881 §18.3).
 *
 * @return Zero; -EIO if the server has restarted and may have lost data that were written since the last success: write
 *     them again. Each loss is told once.
 */
PENSTOCK_API int penstock_fsync(penstock_file* file, const penstock_call* call);

/** Reads the attributes of an open file, as penstock_stat(). */
PENSTOCK_API int penstock_fstat(penstock_file* file, penstock_attributes* attributes, const penstock_call* call);

/** Sets the size of an open file: cuts it, or extends it by zeros. @return Zero. */
PENSTOCK_API int penstock_ftruncate(penstock_file* file, uint64_t length, const penstock_call* call);

/** A lock of a range of a file. Initialize it with PENSTOCK_LOCK_REQUEST_INIT. */
typedef struct penstock_lock_request {
  size_t size;       /**< sizeof(penstock_lock_request) */
  uint64_t offset;   /**< The first octet. */
  uint64_t length;   /**< The number of octets, also beyond the end of the file. Zero: to the end, wherever that is. */
  int exclusive;     /**< Zero: other owners may have shared locks. Otherwise: no other locks. */
  const char* owner; /**< Within this open file: who has the lock. Null: "". */
  /** How many milliseconds to wait for other owners. Zero: not at all. Negative: without a limit. */
  int64_t wait_ms;
} penstock_lock_request;
/** An exclusive lock of the whole file, without waiting. */
#define PENSTOCK_LOCK_REQUEST_INIT {sizeof(penstock_lock_request), 0, 0, 1, NULL, 0}

/**
 * Locks a range of a file (RFC 8881 §18.10). Locks are advisory. The locks of one owner conflict with those of other
 * owners, other open files and other clients. A new lock replaces older locks of its owner in the range. It is released
 * by penstock_unlock() and penstock_close().
 *
 * An operation that is cancelled after the server has granted the lock gives it back.
 *
 * @return Zero; -EAGAIN if others have the range locked; -ENOLCK once after the server has forgotten the owner's locks,
 *     because the lease has expired or another client has got a lock; -ENOLCK also if a server of version 3 has no
 *     lock manager (NLM).
 */
PENSTOCK_API int penstock_lock(penstock_file* file, const penstock_lock_request* request, const penstock_call* call);

/** Releases the locks of an owner in a range, if there are any (RFC 8881 §18.12). @return Zero. */
PENSTOCK_API int penstock_unlock(penstock_file* file, const penstock_lock_request* request, const penstock_call* call);

/**
 * Tells whether a lock would conflict with another one (RFC 8881 §18.11).
 *
 * @param request            The lock. Its wait_ms is ignored.
 * @param[in,out] conflict   Receives the range and kind of a lock that conflicts. Null: nobody asks.
 * @return Zero if the lock is available now; 1 if another one conflicts.
 */
PENSTOCK_API int penstock_test_lock(penstock_file* file, const penstock_lock_request* request,
                                    penstock_lock_request* conflict, const penstock_call* call);

/* ---- whole files ---- */

/**
 * Reads a whole file.
 *
 * @param path        The file.
 * @param[out] data   The octets, with a NUL after them that `size` does not count. Free them by penstock_free().
 * @param[out] size   How many.
 * @return Zero; -EFBIG if they do not fit in memory.
 */
PENSTOCK_API int penstock_read_file(penstock_mount* mount, const char* path, void** data, size_t* size,
                                    const penstock_call* call);

/**
 * Makes a file with these contents, or replaces the contents of one. After success they are on the server's stable
 * storage. If the server restarts meanwhile, everything that it may have lost is written again (RFC 1813 §4.11).
 *
 * @param path  The file.
 * @param data  The octets.
 * @param size  How many.
 * @param mode  The twelve mode bits of a new file.
 * @return Zero. After a failure the file may have a part of the octets.
 */
PENSTOCK_API int penstock_write_file(penstock_mount* mount, const char* path, const void* data, size_t size,
                                     uint32_t mode, const penstock_call* call);

/** Tells how far a copy is, on the thread on which penstock_done functions run. It must not block. */
typedef void penstock_progress(void* context, uint64_t done, uint64_t total);

/**
 * Copies a file of the server into a local file. A local regular file gets exactly the contents, from its beginning on,
 * and is not synced. Into a pipe, a socket or a device, the octets are written in their order.
 *
 * @param path      The file on the server.
 * @param fd        The local file, open for writing. It stays open; the operation uses a duplicate. If the operation is
 *     cancelled or its time is over, a write to the local file that is under way is not undone; while it blocks, as
 *     into a full pipe that nobody reads, penstock_mount_close() waits for it, longer than its limit.
 * @param progress  Null: nobody is told.
 * @param context   For `progress`.
 * @return The number of octets; -EIO if the file became shorter meanwhile. After a failure the local file has a part.
 */
PENSTOCK_API int64_t penstock_download(penstock_mount* mount, const char* path, int fd, penstock_progress* progress,
                                       void* context, const penstock_call* call);

/**
 * Copies a local file into a file of the server, which is made or whose contents are replaced. After success the data
 * are on the server's stable storage.
 *
 * @param fd        The local regular file, open for reading. It stays open; the operation uses a duplicate.
 * @param path      The file on the server.
 * @param mode      The twelve mode bits of a new file.
 * @param progress  Null: nobody is told.
 * @param context   For `progress`.
 * @return The number of octets.
 */
PENSTOCK_API int64_t penstock_upload(penstock_mount* mount, int fd, const char* path, uint32_t mode,
                                     penstock_progress* progress, void* context, const penstock_call* call);

/** Frees memory that a function of this library has allocated for its caller. It may be null. */
PENSTOCK_API void penstock_free(void* memory);

PENSTOCK_END_DECLS

#endif
