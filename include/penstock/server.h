/**
 * @file
 * The NFS server of libpenstock: versions 3, 4.0, 4.1 and 4.2 (RFC 1813, RFC 7530, RFC 8881, RFC 7862) over TCP
 * (RFC 5531 §11) and over RDMA (RFC 8166), with MOUNT, NLM and the other small programs beside them. It serves
 * directories of this host, and file systems that the host process implements (penstock_file_system_ops).
 *
 * What penstock.h says about results, structures and processes holds here as well.
 *
 * **Threads.** Any thread may call these functions; calls for one server wait for each other. The functions of a file
 * system or of a provider must not call functions of a server: those fail with -EDEADLK. All threads that a server
 * starts end in penstock_server_stop(). They have names that begin with "penstock-", and take no signals.
 *
 * **The process.** A server changes nothing that belongs to the whole process: no signal actions, no umask, no locale,
 * no limits, no working directory. There may be several in one process. The soft limit of open files (RLIMIT_NOFILE)
 * bounds the connections and files that a server keeps open, so a host with many clients raises it before it starts a
 * server. A server writes to its state directory, and to nothing else but the directories that it serves. If a server
 * finds itself in a state that cannot be, it ends the process by abort(): no storage is better than wrong data.
 */
#ifndef PENSTOCK_SERVER_H
#define PENSTOCK_SERVER_H

#include <stddef.h>
#include <stdint.h>

#include "penstock/api.h"
#include "penstock/penstock.h"

PENSTOCK_BEGIN_DECLS

/** A server. */
typedef struct penstock_server penstock_server;
/** A tree of files that the host process implements. */
typedef struct penstock_file_system penstock_file_system;

/* ---- servers ---- */

/** The settings of a server. Initialize them with PENSTOCK_SERVER_OPTIONS_INIT. */
typedef struct penstock_server_options {
  size_t size; /**< sizeof(penstock_server_options) */
  /**
   * A directory for what must survive a restart: the server's identity, its clients and their state (RFC 8881 §8.4.2),
   * the key of file handles. It is made if it does not exist. Only one server at a time may use it. Required.
   */
  const char* state_directory;
  /**
   * Where the server offers NFS over TCP: addresses with ports, "127.0.0.1:2049,[::1]:2049". With port 0 the system
   * chooses one: see penstock_server_address(). Null: "127.0.0.1:2049". Empty: nowhere.
   */
  const char* tcp;
  /** Where it offers NFS over RDMA, likewise. Null: "127.0.0.1:20049". Empty: nowhere. */
  const char* rdma;
  /**
   * Where it offers MOUNT and the other small programs over TCP and UDP, likewise. The port of `tcp` answers MOUNT as
   * well. Null: "127.0.0.1:20048". Empty: nowhere.
   */
  const char* mount;
  /**
   * Where it shows its metrics over HTTP, without authentication: "127.0.0.1:9469". One address. Null or empty:
   * nowhere.
   */
  const char* metrics;
  /** How RDMA is done: "verbs" by an adapter, "iwarp" in software, "auto" by the adapter of an address if there is one.
   * Null: "auto". */
  const char* rdma_provider;
  const char* rdma_device; /**< The only RDMA adapter to use, such as "mlx5_0". Null: any. */
  const char* tls_cert;    /**< A PEM file with the server's certificate: offers TLS over TCP (RFC 9289). Null: none. */
  const char* tls_key;     /**< A PEM file with its key, without a password. */
  const char* tls_ca;      /**< A PEM file with the authorities of clients' certificates. Null: none is accepted. */
  /** The keytab of the service nfs, for RPCSEC_GSS with Kerberos. Null: that of the host, if it has one. */
  const char* keytab;
  /** The domain of the names of owners in version 4 (RFC 8881 §5.9). Null: owners are numbers. */
  const char* domain;
  unsigned threads; /**< The number of event loops, each on a thread of its own. Zero: one for each processor. */
  /**
   * The most threads for calls that block: those of disks and of penstock_file_system_ops. They are started when they
   * are needed. One client alone gets a quarter of them, and data gets three quarters, so that a hanging function
   * leaves threads for others. Zero: 64. From 4 to 4096.
   */
  unsigned blocking_threads;
  unsigned lease_seconds; /**< How long a silent client keeps its state (RFC 8881 §8.3). Zero: 90. */
  /** How long clients may reclaim their state after a restart (RFC 8881 §8.4.2). Zero: 90. */
  unsigned grace_seconds;
  unsigned drain_ms;        /**< How many milliseconds penstock_server_stop() waits for clients. Zero: 5000. */
  unsigned max_connections; /**< Of all clients together. Zero: 1024, and fewer if the process may open few files. */
  uint64_t
      memory; /**< Octets for the calls and replies of all clients, 32 MiB or more. Zero: a quarter of the memory. */
  int nfs2;   /**< Not zero: serve version 2 as well, to clients whose handles fit (RFC 1094). */
  int port_mapper; /**< Not zero: answer as a port mapper at port 111, on a host without rpcbind (RFC 1833). */
  /**
   * Not zero: give clients delegations (RFC 8881 §10.2), so that they open and read files without asking. Only if
   * nothing but the clients of this server changes the files: it does not notice changes by others.
   */
  int delegations;
  penstock_log* log;            /**< Receives the messages of the server. Null: they are dropped. */
  void* log_context;            /**< For `log`. */
  penstock_log_level log_level; /**< The least important messages that `log` gets. */
  /**
   * Accepts all connections over RDMA, in the place of `rdma_provider` and `rdma_device`, which must be null. It
   * listens at the addresses of `rdma`. It lives longer than the server. Null: the host has none. See provider.h.
   */
  penstock_provider* provider;
} penstock_server_options;
/** The default settings; a state directory is missing. */
#define PENSTOCK_SERVER_OPTIONS_INIT \
  {sizeof(penstock_server_options),  \
   NULL,                             \
   NULL,                             \
   NULL,                             \
   NULL,                             \
   NULL,                             \
   NULL,                             \
   NULL,                             \
   NULL,                             \
   NULL,                             \
   NULL,                             \
   NULL,                             \
   NULL,                             \
   0,                                \
   0,                                \
   0,                                \
   0,                                \
   0,                                \
   0,                                \
   0,                                \
   0,                                \
   0,                                \
   0,                                \
   NULL,                             \
   NULL,                             \
   PENSTOCK_LOG_WARNING,             \
   NULL}

/**
 * Makes a server, which does nothing yet. The options are copied.
 *
 * @param options      The settings.
 * @param[out] server  The server. The caller frees it.
 * @return Zero; -EINVAL for wrong options, or without a state directory.
 */
PENSTOCK_API int penstock_server_new(const penstock_server_options* options, penstock_server** server);

/** Stops a server, if it runs, and frees it. It may be null. When this returns, `log` is not called again. */
PENSTOCK_API void penstock_server_free(penstock_server* server);

/**
 * Exports a file system of the host. While the server runs, clients see it at once. The server holds a reference to the
 * file system. It may be exported several times, by several servers.
 *
 * @param path     The path that clients see: absolute, such as "/photos". "/" is possible.
 * @param clients  Who may use it, and how, as in exports(5): "*(ro)", "192.0.2.0/24(rw,no_root_squash) *(ro)". Without
 *     options, clients get ro, root_squash and secure (ports below 1024); add "insecure" for others.
 * @return Zero; -EINVAL for a path or clients that are wrong; -EEXIST if the path is exported.
 */
PENSTOCK_API int penstock_server_export(penstock_server* server, const char* path, const char* clients,
                                        penstock_file_system* file_system);

/**
 * Exports a directory of this host. A process of root acts as each caller in turn; any other process acts as itself,
 * and checks what each caller may do. File handles survive a restart. The process's umask has no effect on new files.
 * Other file systems that are mounted below the directory are not served.
 *
 * @param path       As for penstock_server_export().
 * @param directory  The directory. While the server runs it must exist; otherwise penstock_server_start() fails.
 * @param clients    As for penstock_server_export().
 * @return Zero; -EINVAL, -EEXIST; while the server runs, -ENOENT, -ENOTDIR, -EACCES as well.
 */
PENSTOCK_API int penstock_server_export_directory(penstock_server* server, const char* path, const char* directory,
                                                  const char* clients);

/**
 * Ends an export. While the server runs, calls that use it end first, and clients then find its handles stale. The
 * server drops its reference to the file system when the last call has ended, which may be after this function.
 *
 * @return Zero; -ENOENT if the path is not exported.
 */
PENSTOCK_API int penstock_server_unexport(penstock_server* server, const char* path);

/**
 * Starts a server: it listens, and its threads serve clients from now on. A server that was stopped may be started
 * again. Its clients then reclaim their state if it has the same ports, exports and state directory.
 *
 * @return Zero; -EALREADY if it runs; -EADDRINUSE, -EADDRNOTAVAIL, -EACCES for an address; -EBUSY if another server
 * uses the state directory; -ENOENT, -ENOTDIR for a directory; -EINVAL for options that contradict each other; -EAGAIN
 * if the system has no threads left. After a failure the server does not run.
 */
PENSTOCK_API int penstock_server_start(penstock_server* server);

/** What a server offers at an address. */
typedef enum penstock_service {
  PENSTOCK_SERVICE_TCP = 0,     /**< NFS over TCP. */
  PENSTOCK_SERVICE_RDMA = 1,    /**< NFS over RDMA. */
  PENSTOCK_SERVICE_MOUNT = 2,   /**< MOUNT and the other small programs. */
  PENSTOCK_SERVICE_METRICS = 3, /**< The metrics. */
} penstock_service;

/**
 * Tells where a running server listens, with the ports that the system has chosen.
 *
 * @param service      What the address offers.
 * @param index        The number of the address, from zero on.
 * @param[out] buffer  Receives "127.0.0.1:2049" or "[::1]:2049", and a NUL.
 * @param size         The room in `buffer`, in octets. 64 is enough.
 * @return The length of the text; -ENOENT if there are fewer addresses; -ENOTCONN if the server does not run; -ERANGE
 * if `buffer` has not enough room.
 */
PENSTOCK_API int penstock_server_address(penstock_server* server, penstock_service service, unsigned index,
                                         char* buffer, size_t size);

/**
 * Stops a server: it accepts no more calls, gives clients penstock_server_options::drain_ms to take their replies, and
 * ends its threads. Blocks longer than that only while a function of a file system, or a disk, does not return. Clients
 * that come back after the next start keep their files open.
 *
 * @return Zero; also if the server does not run.
 */
PENSTOCK_API int penstock_server_stop(penstock_server* server);

/* ---- file systems of the host ---- */

/** The most octets of a penstock_handle. */
#define PENSTOCK_HANDLE_SIZE 40

/**
 * The name that a file system gives to one of its objects, such as an inode number. No two objects have the same
 * handle, also not one after the other: clients keep handles, and must not reach another file by one. A file system
 * whose clients shall survive a restart keeps its handles; another one makes new ones each time, for example with a
 * random number in them. The server signs handles, so that a function gets only handles that a function of the file
 * system has returned, in this run or, with the same state directory, in an earlier one. NFS version 2 takes handles of
 * up to 19 octets.
 */
typedef struct penstock_handle {
  uint32_t size;                              /**< The number of octets, at least one. */
  unsigned char octets[PENSTOCK_HANDLE_SIZE]; /**< The octets. */
} penstock_handle;

/** The client's user on whose behalf a function of a file system is called, after the export's squashing. */
typedef struct penstock_caller {
  size_t size;            /**< sizeof(penstock_caller) in the library. */
  uint32_t uid;           /**< The user. Zero is root. */
  uint32_t gid;           /**< The group. */
  const uint32_t* groups; /**< Further groups. */
  size_t group_count;     /**< How many. */
  const char* address;    /**< Of the client's host: "192.0.2.7". Empty if the server itself calls. */
} penstock_caller;

/** How stable data are (RFC 1813 §3.3.7, stable_how). */
typedef enum penstock_stability {
  PENSTOCK_UNSTABLE = 0,  /**< May be lost when the file system ends without `commit`. */
  PENSTOCK_DATA_SYNC = 1, /**< The data survive. */
  PENSTOCK_FILE_SYNC = 2  /**< The data and the file's attributes survive. */
} penstock_stability;

/** Values of the parameter `flags` of `set_xattr` (RFC 8276 §8.4.2). */
enum {
  PENSTOCK_XATTR_CREATE = 1, /**< Fail with -EEXIST if the attribute exists. */
  PENSTOCK_XATTR_REPLACE = 2 /**< Fail with -ENODATA if it does not exist. */
};

/**
 * Takes an entry of a directory, in `read_directory`.
 *
 * @param context     The context that `read_directory` was given.
 * @param name        The name. Copied.
 * @param file_id     penstock_attributes::file_id of the object.
 * @param cookie      The position behind this entry, 3 or more: `read_directory` may be called with it to continue
 * there.
 * @param handle      The handle of the object. Null: the server calls `lookup` if it needs it.
 * @param attributes  The attributes of the object. Null: the server calls `get_attributes` if it needs them.
 * @return Zero: go on. Not zero: there is no room, the entry was not taken: `read_directory` returns now, with zero.
 */
typedef int penstock_add_entry(void* context, const char* name, uint64_t file_id, uint64_t cookie,
                               const penstock_handle* handle, const penstock_attributes* attributes);

/** Takes the name of an extended attribute, in `list_xattrs`. @return Zero; not zero: return it. */
typedef int penstock_add_name(void* context, const char* name);

/**
 * The functions of a file system. Initialize the table with PENSTOCK_FILE_SYSTEM_OPS_INIT, and set the functions that
 * the file system has. It is copied.
 *
 * **Calls.** Threads of the server's pool call the functions, several at a time, and they may block. With
 * PENSTOCK_FS_NONBLOCKING, the event loops call them directly; then they must not wait for anything. Arguments are
 * valid until the function returns. `self` is the pointer that was given to penstock_file_system_new().
 *
 * **Results.** Zero or more for success, a negative errno for a failure. The server tells clients the status of NFS for
 * it (RFC 1813 §2.6, RFC 8881 §15): -ENOENT, -EACCES, -EPERM, -EEXIST, -ENOTDIR, -EISDIR, -EINVAL, -EFBIG, -ENOSPC,
 * -EROFS, -EMLINK, -ENAMETOOLONG, -ENOTEMPTY, -EDQUOT, -ESTALE, -EOPNOTSUPP, -ENODATA, -EIO, -EXDEV, -ENXIO; -EAGAIN
 * and -ENOMEM: the client tries again later. Any other value is a server fault. So is a result that cannot be, such as
 * more octets than were asked for; the log then says so. -ESTALE is the answer to a handle whose object no longer
 * exists.
 *
 * **What the server does itself.** Unless PENSTOCK_FS_CHECKS_PERMISSIONS is set, it checks the rights of the caller by
 * the mode bits, as POSIX asks, before it calls a function. It checks names and the types of objects; it answers "."
 * and, in the root, ".."; it lists both; it applies the client's umask; it clears the set-id bits after a write; it
 * executes exclusive creates, for which it sets times (RFC 1813 §3.3.8); it reads attributes before and after a change.
 * A function need not do that again, but it decides about everything that may change meanwhile: `create` fails with
 * -EEXIST if the name exists, `remove` with -ENOENT if it does not.
 *
 * **Missing functions.** `root`, `get_attributes`, `lookup`, `read` and `read_directory` are required. If all functions
 * that change something are null, the file system is read-only (EROFS). Otherwise clients get EOPNOTSUPP, or the
 * default that stands at the function.
 */
typedef struct penstock_file_system_ops {
  size_t size; /**< sizeof(penstock_file_system_ops) */

  /** The file system is no longer used by any server or by the host: frees `self`. Any thread. Null: nothing. */
  void (*destroy)(void* self);

  /** Tells the handle of the root directory, always the same. Called without a caller, when a server starts. */
  int (*root)(void* self, penstock_handle* root);

  /**
   * Tells the attributes of an object. They must all be set, but for the following: `owner` and `group` are not used,
   * nor is `file_system` (penstock_file_system_options::id). If `change` is zero, the server makes it from `changed`,
   * which then must differ after every change.
   */
  int (*get_attributes)(void* self, const penstock_caller* caller, const penstock_handle* object,
                        penstock_attributes* attributes);
  /** Sets attributes, all or none. Times of "now" are the file system's. */
  int (*set_attributes)(void* self, const penstock_caller* caller, const penstock_handle* object,
                        const penstock_new_attributes* values);

  /** Finds the entry `name` of a directory, or its parent directory, for "..". */
  int (*lookup)(void* self, const penstock_caller* caller, const penstock_handle* directory, const char* name,
                penstock_handle* found);
  /** Reads the text of a symbolic link into `buffer`, without a NUL. Returns its length, of at most `size`. */
  int (*read_link)(void* self, const penstock_caller* caller, const penstock_handle* symlink, char* buffer,
                   size_t size);
  /** Reads data. Returns the number of octets, fewer than `count` only at the end of the file. */
  int64_t (*read)(void* self, const penstock_caller* caller, const penstock_handle* file, void* buffer, size_t count,
                  uint64_t offset);
  /**
   * Calls `add` for the entries after `cookie`, which is zero for the beginning, until it refuses one or there are no
   * more. "." and ".." are not among them. An entry that exists all the time is given once, even if others come and go
   * between calls. -EINVAL for a cookie that cannot be.
   */
  int (*read_directory)(void* self, const penstock_caller* caller, const penstock_handle* directory, uint64_t cookie,
                        penstock_add_entry* add, void* context);

  /**
   * Writes data. Sets `stability`, which is what the client asks for, to what is true: if that is less, the server
   * calls `commit`. Returns the number of octets, more than zero.
   */
  int64_t (*write)(void* self, const penstock_caller* caller, const penstock_handle* file, const void* data,
                   size_t count, uint64_t offset, penstock_stability* stability);
  /** Makes all data of a file stable. Null: they always are, as far as this file system can do it. */
  int (*commit)(void* self, const penstock_caller* caller, const penstock_handle* file);
  /**
   * Tells a number that changes when unstable data may have been lost: clients then write them again. Null: a random
   * number for each penstock_file_system.
   */
  uint64_t (*write_verifier)(void* self);

  /** Makes a regular file with these attributes, which have at least a mode and an owner. -EEXIST if the name exists.
   */
  int (*create)(void* self, const penstock_caller* caller, const penstock_handle* directory, const char* name,
                const penstock_new_attributes* attributes, penstock_handle* made);
  /** Makes a directory, likewise. */
  int (*make_directory)(void* self, const penstock_caller* caller, const penstock_handle* directory, const char* name,
                        const penstock_new_attributes* attributes, penstock_handle* made);
  /** Makes a symbolic link, likewise. */
  int (*make_symlink)(void* self, const penstock_caller* caller, const penstock_handle* directory, const char* name,
                      const char* target, const penstock_new_attributes* attributes, penstock_handle* made);
  /** Makes a FIFO, a socket or a device, likewise. */
  int (*make_node)(void* self, const penstock_caller* caller, const penstock_handle* directory, const char* name,
                   penstock_file_type type, uint32_t device_major, uint32_t device_minor,
                   const penstock_new_attributes* attributes, penstock_handle* made);
  /** Removes a name of anything but a directory. */
  int (*remove)(void* self, const penstock_caller* caller, const penstock_handle* directory, const char* name);
  /** Removes an empty directory. */
  int (*remove_directory)(void* self, const penstock_caller* caller, const penstock_handle* directory,
                          const char* name);
  /**
   * Renames an object, as rename() of POSIX: it replaces a target of the same kind, and does nothing if both names lead
   * to the same file. -EINVAL if a directory would come below itself.
   */
  int (*rename)(void* self, const penstock_caller* caller, const penstock_handle* from_directory, const char* from,
                const penstock_handle* to_directory, const char* to);
  /** Gives a file, which is not a directory, one more name. */
  int (*link)(void* self, const penstock_caller* caller, const penstock_handle* file, const penstock_handle* directory,
              const char* name);

  /**
   * Tells which of the rights `wanted` (RFC 1813 §3.3.4) the caller has. Null: by the mode bits. With
   * PENSTOCK_FS_CHECKS_PERMISSIONS it should not be null.
   */
  int (*access)(void* self, const penstock_caller* caller, const penstock_handle* object, uint32_t wanted,
                uint32_t* granted);
  /** Tells the space. Null: zeros. */
  int (*get_space)(void* self, const penstock_caller* caller, const penstock_handle* object, penstock_space* space);

  /** Reads an extended attribute (RFC 8276). Returns its length; -ERANGE if that is more than `size`; -ENODATA. */
  int64_t (*get_xattr)(void* self, const penstock_caller* caller, const penstock_handle* object, const char* name,
                       void* buffer, size_t size);
  /** Sets an extended attribute. `flags`: zero, PENSTOCK_XATTR_CREATE or PENSTOCK_XATTR_REPLACE. */
  int (*set_xattr)(void* self, const penstock_caller* caller, const penstock_handle* object, const char* name,
                   const void* value, size_t size, int flags);
  /** Removes an extended attribute. -ENODATA if there is none. */
  int (*remove_xattr)(void* self, const penstock_caller* caller, const penstock_handle* object, const char* name);
  /** Calls `add` for the name of each extended attribute. Returns what `add` returns, if that is not zero. */
  int (*list_xattrs)(void* self, const penstock_caller* caller, const penstock_handle* object, penstock_add_name* add,
                     void* context);

  /**
   * Finds data, or a hole, at or after `offset`, which is not beyond the end of the file (RFC 7862 §15.11). Returns 1
   * and sets `found`; 0 if there is none before the end of the file. Null: all octets are data.
   */
  int (*seek)(void* self, const penstock_caller* caller, const penstock_handle* file, uint64_t offset, int hole,
              uint64_t* found);
  /** Reserves space for a range, and extends the file to it (RFC 7862 §15.1). */
  int (*allocate)(void* self, const penstock_caller* caller, const penstock_handle* file, uint64_t offset,
                  uint64_t length);
  /** Replaces a range within the file by zeros, and frees its space (RFC 7862 §15.4). */
  int (*deallocate)(void* self, const penstock_caller* caller, const penstock_handle* file, uint64_t offset,
                    uint64_t length);
  /**
   * Copies up to `count` octets that exist in `from`, as many as a short time allows. Ranges do not overlap. Returns
   * the number, more than zero. The data may be unstable. Null: the server reads and writes.
   */
  int64_t (*copy)(void* self, const penstock_caller* caller, const penstock_handle* from, uint64_t from_offset,
                  const penstock_handle* to, uint64_t to_offset, uint64_t count);

  /**
   * A client of version 4 has a file open: it must stay usable by its handle without a name, until `unpin` is called as
   * often as this. Null: a file that loses its last name is gone (-ESTALE) for those who have it open.
   */
  int (*pin)(void* self, const penstock_handle* file);
  /** Undoes one `pin`. Required with `pin`. */
  void (*unpin)(void* self, const penstock_handle* file);
} penstock_file_system_ops;
/** A table without functions. */
#define PENSTOCK_FILE_SYSTEM_OPS_INIT \
  {sizeof(penstock_file_system_ops),  \
   NULL,                              \
   NULL,                              \
   NULL,                              \
   NULL,                              \
   NULL,                              \
   NULL,                              \
   NULL,                              \
   NULL,                              \
   NULL,                              \
   NULL,                              \
   NULL,                              \
   NULL,                              \
   NULL,                              \
   NULL,                              \
   NULL,                              \
   NULL,                              \
   NULL,                              \
   NULL,                              \
   NULL,                              \
   NULL,                              \
   NULL,                              \
   NULL,                              \
   NULL,                              \
   NULL,                              \
   NULL,                              \
   NULL,                              \
   NULL,                              \
   NULL,                              \
   NULL,                              \
   NULL,                              \
   NULL}

/** Values of penstock_file_system_options::flags. */
enum {
  PENSTOCK_FS_NONBLOCKING = 1,        /**< No function ever waits: the event loops may call them. */
  PENSTOCK_FS_CHECKS_PERMISSIONS = 2, /**< The functions check the rights of the caller, and the server does not. */
  PENSTOCK_FS_CASE_INSENSITIVE = 4    /**< Names that differ in case only are the same. */
};

/** The properties of a file system. Initialize them with PENSTOCK_FILE_SYSTEM_OPTIONS_INIT. */
typedef struct penstock_file_system_options {
  size_t size;    /**< sizeof(penstock_file_system_options) */
  unsigned flags; /**< A sum of PENSTOCK_FS_... */
  /**
   * A number by which clients tell file systems of a server apart (fsid). It should be the same after a restart. Zero:
   * made from the path of the export.
   */
  uint64_t id;
  uint64_t max_file_size;  /**< The largest size of a file, in octets. Zero: 2^63-1. */
  uint32_t name_max;       /**< The longest name, in octets. Zero: 255, which is the most. */
  uint32_t link_max;       /**< The most names of a file. Zero: 2^32-1. */
  uint32_t granularity_ns; /**< The precision of times, in nanoseconds. Zero: 1. */
} penstock_file_system_options;
/** The default properties. */
#define PENSTOCK_FILE_SYSTEM_OPTIONS_INIT {sizeof(penstock_file_system_options), 0, 0, 0, 0, 0, 0}

/**
 * Makes a file system of functions of the host.
 *
 * @param ops                The functions.
 * @param self               For the functions. It must live until penstock_file_system_ops::destroy is called; without
 *     that function, until the file system is freed and no server exports it.
 * @param options            Null: PENSTOCK_FILE_SYSTEM_OPTIONS_INIT.
 * @param[out] file_system   The file system. The caller frees it. After a failure, `destroy` is not called.
 * @return Zero; -EINVAL if a required function is missing, or for wrong options.
 */
PENSTOCK_API int penstock_file_system_new(const penstock_file_system_ops* ops, void* self,
                                          const penstock_file_system_options* options,
                                          penstock_file_system** file_system);

/** Frees a file system, which may be null. Servers that export it keep what they need of it. */
PENSTOCK_API void penstock_file_system_free(penstock_file_system* file_system);

PENSTOCK_END_DECLS

#endif
