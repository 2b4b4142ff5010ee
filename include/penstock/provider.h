/**
 * @file
 * An RDMA provider of the host: a network of its own that carries the RDMA connections of a runtime's mounts
 * (penstock_runtime_options::provider) and of a server (penstock_server_options::provider). A simulator, a library for
 * a fabric in user space or shared memory can be such a network.
 *
 * **Two directions.** The library calls the functions of penstock_provider_ops: connect, send, expose memory. The host
 * calls the functions whose names begin with penstock_provider_, and so tells what has happened: a peer has connected,
 * a message was received, a request is complete, the connection has ended.
 *
 * **Names.** Each side has a name of its own for a connection. The host's name is a pointer, `endpoint`: the library
 * passes it to the functions of the host. The library's name is a number, `connection`: the host passes it to the
 * functions of the library. Numbers are not used again, so a number of a connection that has ended does no harm. A
 * listener has a pointer and a number as well.
 *
 * **Rules of a connection.** A connection is reliable and has the semantics of RDMA verbs (RFC 5040, RFC 5041). What
 * one side posts reaches the other side in the order of posting. An RDMA Write is in place when a later Send is
 * received. A Read may be overtaken. An error ends the connection: no request fails alone.
 *
 * **Mistakes of the host.** The library checks what the host tells it. A number that is not known is an error of the
 * function (-ENOENT), and nothing else happens. A statement that cannot be true ends the connection, and the log says
 * why: a request that is complete twice, a message that is longer than its buffer, an unknown stag. NFS then connects
 * again. What the library cannot check is what the host does with the memory that it is given.
 */
#ifndef PENSTOCK_PROVIDER_H
#define PENSTOCK_PROVIDER_H

#include <stddef.h>
#include <stdint.h>

#include "penstock/api.h"
#include "penstock/penstock.h"

PENSTOCK_BEGIN_DECLS

/* ---- what connections are made with ---- */

/** How many RDMA Reads a side serves at once (IRD), and how many it has outstanding at once (ORD): RFC 6581 §9.1. */
typedef struct penstock_rdma_depths {
  uint16_t ird; /**< Reads of the peer that the side serves at once. */
  uint16_t ord; /**< Reads of the side that are outstanding at once. */
} penstock_rdma_depths;

/** Memory of the other side of a connection, as that side has exposed it. */
typedef struct penstock_rdma_segment {
  uint32_t stag;   /**< The steering tag (RFC 5040 §2) of the exposed memory, or the key of another kind of network. */
  uint32_t length; /**< The number of octets. */
  uint64_t offset; /**< The tagged offset (RFC 5040 §2) of the first octet. */
} penstock_rdma_segment;

/** A piece of a message. A message or the source of a Write is the sequence of its pieces. */
typedef struct penstock_rdma_piece {
  const void* data; /**< The octets. */
  size_t size;      /**< Their number, which may be zero. */
} penstock_rdma_piece;

/** A buffer for one message of the peer. */
typedef struct penstock_rdma_receive {
  uint64_t request; /**< For penstock_provider_received(). */
  void* buffer;     /**< The memory. */
  size_t size;      /**< Its size in octets. */
} penstock_rdma_receive;

/** With what this side connects, or accepts a connection. The library makes it; all is valid until the call returns. */
typedef struct penstock_rdma_terms {
  size_t size;              /**< sizeof(penstock_rdma_terms) in the library. */
  const void* private_data; /**< For the peer (RFC 8797). */
  size_t private_size;      /**< Its octets, at most penstock_provider_options::max_private_data. */
  /** What this side asks for, or, in `accept`, what it has chosen. The peer must be told. */
  penstock_rdma_depths depths;
  const penstock_rdma_receive* receives; /**< Receives that are posted before the peer can send. */
  size_t receive_count;                  /**< How many. */
} penstock_rdma_terms;

/** The other side of a connection. The host makes it; it is copied. Initialize it with PENSTOCK_RDMA_PEER_INIT. */
typedef struct penstock_rdma_peer {
  size_t size;       /**< sizeof(penstock_rdma_peer) */
  const char* local; /**< The address of this side: "192.0.2.1:20049", "[2001:db8::1]:20049". Required. */
  /** The address of the other side, likewise. A server admits clients by it. Required. */
  const char* peer;
  const void* private_data; /**< What the other side has sent. Zeros behind it do no harm. */
  size_t private_size;      /**< Its octets, at most 1024. */
  /** The depths in the terms of the other side. Null: the network does not carry them. */
  const penstock_rdma_depths* depths;
} penstock_rdma_peer;
/** No addresses, no private data, no depths. */
#define PENSTOCK_RDMA_PEER_INIT {sizeof(penstock_rdma_peer), NULL, NULL, NULL, 0, NULL}

/** What the other side may do with exposed memory. */
typedef enum penstock_rdma_access {
  PENSTOCK_RDMA_READ = 1, /**< Read it by RDMA Read. */
  PENSTOCK_RDMA_WRITE = 2 /**< Write to it by RDMA Write. */
} penstock_rdma_access;

/** Why a connection has ended, or was not made. */
typedef enum penstock_rdma_reason {
  PENSTOCK_RDMA_CLOSED = 1,      /**< Closed in order, by penstock_provider_ops::disconnect of either side. */
  PENSTOCK_RDMA_RESET = 2,       /**< Lost: the network has failed, or the other side is gone. */
  PENSTOCK_RDMA_TERMINATED = 3,  /**< The other side has refused a request of this side. */
  PENSTOCK_RDMA_VIOLATED = 4,    /**< This side has refused a request of the other side. */
  PENSTOCK_RDMA_FAULT = 5,       /**< Something has failed on this side. */
  PENSTOCK_RDMA_UNREACHABLE = 6, /**< Nothing answers at the address. */
  PENSTOCK_RDMA_REFUSED = 7,     /**< Nobody listens at the address. */
  PENSTOCK_RDMA_REJECTED = 8,    /**< The listener has rejected the connection (penstock_provider_ops::reject). */
  PENSTOCK_RDMA_TIMED_OUT = 9    /**< The answer took too long. */
} penstock_rdma_reason;

/** The end of a connection. The host makes it; it is copied. Initialize it with PENSTOCK_RDMA_END_INIT. */
typedef struct penstock_rdma_end {
  size_t size;                 /**< sizeof(penstock_rdma_end) */
  penstock_rdma_reason reason; /**< Why it has ended. */
  const char* detail;          /**< One line for people. Null: none. */
  /** The request that the other side has refused, or that has failed on this side. Zero: none, or it is not known. */
  uint64_t request;
  const void* private_data; /**< For PENSTOCK_RDMA_REJECTED: what the other side has sent. */
  size_t private_size;      /**< Its octets, at most 1024. */
} penstock_rdma_end;
/** The connection is lost. */
#define PENSTOCK_RDMA_END_INIT {sizeof(penstock_rdma_end), PENSTOCK_RDMA_RESET, NULL, 0, NULL, 0}

/* ---- the functions of the host ---- */

/**
 * The functions of a provider. Initialize the table with PENSTOCK_PROVIDER_OPS_INIT, and set all functions but
 * `allocate` and `release`, which are optional. The table is copied. `self` is the pointer that was given to
 * penstock_provider_new().
 *
 * **Threads.** Each connection belongs to one event loop, of the runtime or of the server. The thread of that loop
 * makes all calls for its connection, one at a time. Connections of different loops are called at the same time. The
 * functions must not wait for anything and must not call other functions of this library than those of this header.
 * They may call these, for example penstock_provider_completed(): the library takes note, and acts later.
 *
 * **Memory.** The library keeps the memory of a request in place until the host has told that the request is complete
 * or that the connection has ended, or until `close` or `reject` has been called. Before it tells that, and before
 * `close` or `reject` returns, the host must have ended every access to that memory, on all of its threads. The same
 * holds for exposed memory: it stays in place until it is invalid. Descriptions of memory, such as the array of pieces,
 * are valid only until the function returns.
 *
 * **Results.** Zero for success, a negative errno for a failure. If a function for an open connection fails, the
 * library ends the connection: it calls `close`. No function may throw an exception.
 *
 * **Order.** For one endpoint: `connect`, or `accept`, or `reject`; requests as soon as the host has told that the
 * connection is open; `disconnect` at most once; and last, once, `close`. After `disconnect` only `invalidate` and
 * `close` follow. After `reject` nothing follows.
 */
typedef struct penstock_provider_ops {
  size_t size; /**< sizeof(penstock_provider_ops) */

  /**
   * Begins to connect to a listener. The host answers with penstock_provider_connected() or penstock_provider_ended().
   * The library limits the time: it calls `close` when the answer takes too long.
   *
   * @param connection     The number of the connection.
   * @param address        The address of the listener: "192.0.2.7:20049".
   * @param terms          For the listener.
   * @param[out] endpoint  The host's name of the connection. Not null.
   * @return Zero; -ECONNREFUSED, -EHOSTUNREACH, -ETIMEDOUT or another errno: the connection is not made, and `close` is
   *     not called.
   */
  int (*connect)(void* self, uint64_t connection, const char* address, const penstock_rdma_terms* terms,
                 void** endpoint);

  /**
   * Begins to listen. The host then tells each peer that asks for a connection: penstock_provider_requested(). All
   * loops of a server share one listener. Called by the thread that starts the server.
   *
   * @param listener           The number of the listener.
   * @param address            "192.0.2.7:20049". With port 0 the host chooses a port.
   * @param[out] actual        Receives the address with the port, as text with a NUL.
   * @param actual_size        The room in `actual`, in octets. It is 64.
   * @param[out] listener_ptr  The host's name of the listener. Not null.
   * @return Zero; -EADDRINUSE, -EADDRNOTAVAIL or another errno: it does not listen.
   */
  int (*listen)(void* self, uint64_t listener, const char* address, char* actual, size_t actual_size,
                void** listener_ptr);

  /** Ends listening, and frees the listener. The last call for it. Any thread of the server. */
  void (*stop_listening)(void* listener_ptr);

  /**
   * Accepts a peer that penstock_provider_requested() has told. The host answers with penstock_provider_connected() or
   * penstock_provider_ended().
   *
   * @return Zero, or a negative errno. In contrast to `connect`, the library calls `close` after a failure, too.
   */
  int (*accept)(void* endpoint, const penstock_rdma_terms* terms);

  /**
   * Rejects a peer that penstock_provider_requested() has told, and frees the endpoint. The peer's host tells
   * PENSTOCK_RDMA_REJECTED.
   *
   * @param private_data  For the peer. Valid until the function returns.
   * @param private_size  Its octets.
   */
  void (*reject)(void* endpoint, const void* private_data, size_t private_size);

  /**
   * Posts a buffer for one message. Each Send of the peer goes to the oldest buffer. A Send without a buffer, or longer
   * than its buffer, ends the connection on both sides: PENSTOCK_RDMA_VIOLATED here, PENSTOCK_RDMA_TERMINATED there.
   */
  int (*post_receive)(void* endpoint, const penstock_rdma_receive* receive);

  /**
   * Sends a message of at most penstock_provider_options::max_message octets, which is in one piece for its receiver.
   * The request is complete (penstock_provider_completed()) when its memory is free for other use; the peer need not
   * have the message.
   *
   * @param pieces      The octets. There may be none.
   * @param invalidate  Null; or the stag of memory of the peer that this message makes invalid, before the peer's host
   *     tells the message (Send with Invalidate, RFC 5040 §5.3). If the stag is not valid there, the connection ends as
   *     for a refused access. Only if the peer has PENSTOCK_PROVIDER_REMOTE_INVALIDATION.
   * @param solicited   Not zero: the peer's host passes this flag on.
   */
  int (*send)(void* endpoint, uint64_t request, const penstock_rdma_piece* pieces, size_t piece_count,
              const uint32_t* invalidate, int solicited);

  /**
   * Writes to memory of the peer (RDMA Write). The request is complete when its memory is free for other use. The peer
   * checks the access: the stag is one of this connection, valid, and exposed for Writes; the whole segment lies in the
   * exposed memory (RFC 5040 §7.2, RFC 5041 §7.1). Otherwise nothing is written, and the connection ends on both sides:
   * PENSTOCK_RDMA_TERMINATED here, PENSTOCK_RDMA_VIOLATED there. A Write of no octets is complete without a check.
   *
   * @param remote  Where to. Its length is that of all pieces.
   */
  int (*write)(void* endpoint, uint64_t request, const penstock_rdma_piece* pieces, size_t piece_count,
               const penstock_rdma_segment* remote);

  /**
   * Reads memory of the peer (RDMA Read). The request is complete when the octets are in place. The peer checks the
   * access as for a Write. The library posts no more Reads at once than the depths of the connection allow.
   *
   * @param to      The destination, of remote->length octets.
   * @param remote  Where from.
   */
  int (*read)(void* endpoint, uint64_t request, void* to, const penstock_rdma_segment* remote);

  /**
   * Exposes memory to the peer, from now on and on this connection only. It is valid until `invalidate`, until a
   * message of the peer makes it invalid, or until the connection ends.
   *
   * @param access       What the peer may do.
   * @param[out] stag    The name of the memory, which no other valid memory of the connection has. It should not be
   *     predictable (RFC 5042 §6.1.1), and should not be used again soon.
   * @param[out] offset  The tagged offset of the first octet.
   */
  int (*expose)(void* endpoint, void* memory, size_t size, penstock_rdma_access access, uint32_t* stag,
                uint64_t* offset);

  /**
   * Makes exposed memory invalid. The request is complete when the peer can no longer access the memory, and no access
   * is under way. A message of the peer may have made it invalid already: then the request is complete as well.
   */
  int (*invalidate)(void* endpoint, uint64_t request, uint32_t stag);

  /**
   * Closes the connection in order: after the peer has what was posted before. The host then tells
   * PENSTOCK_RDMA_CLOSED on both sides. Reads that are under way may be given up. The library waits for at most 10
   * seconds, and then calls `close`.
   */
  int (*disconnect)(void* endpoint);

  /**
   * Ends the connection at once, in whatever state it is, unless it has ended already, and frees the endpoint. The
   * peer's host tells PENSTOCK_RDMA_RESET. When this function returns, the host accesses none of the memory that it was
   * given for this connection, neither for requests nor exposed memory. The last call for the endpoint.
   */
  void (*close)(void* endpoint);

  /**
   * Allocates memory for buffers: for receives, for the destinations of Reads, and for most pieces. For networks that
   * can use only memory of their own, or use it faster. Other pieces and exposed memory may lie anywhere. Any thread of
   * the library. Null: the library uses its own memory.
   *
   * @param size       The octets, a power of two.
   * @param alignment  A power of two.
   * @return The memory, which lasts until `release`. Null if there is none: then the library ends the process, as
   *     wherever memory runs out.
   */
  void* (*allocate)(void* self, size_t size, size_t alignment);

  /** Frees memory of `allocate`. Any thread of the library. Required with `allocate`. */
  void (*release)(void* self, void* memory, size_t size);
} penstock_provider_ops;
/** A table without functions. */
#define PENSTOCK_PROVIDER_OPS_INIT \
  {sizeof(penstock_provider_ops),  \
   NULL,                           \
   NULL,                           \
   NULL,                           \
   NULL,                           \
   NULL,                           \
   NULL,                           \
   NULL,                           \
   NULL,                           \
   NULL,                           \
   NULL,                           \
   NULL,                           \
   NULL,                           \
   NULL,                           \
   NULL,                           \
   NULL}

/* ---- providers ---- */

/** Values of penstock_provider_options::flags. */
enum {
  /** A message of the peer can make memory of this side invalid (RFC 5040 §5.3). */
  PENSTOCK_PROVIDER_REMOTE_INVALIDATION = 1
};

/** The properties of a provider. Initialize them with PENSTOCK_PROVIDER_OPTIONS_INIT. */
typedef struct penstock_provider_options {
  size_t size;             /**< sizeof(penstock_provider_options) */
  unsigned flags;          /**< A sum of PENSTOCK_PROVIDER_... */
  const char* name;        /**< For messages. Null: "host". */
  uint32_t max_message;    /**< The most octets of a message. Zero: 1 MiB. At least 4096. */
  uint32_t max_transfer;   /**< The most octets of a Write or Read. Zero: 1 GiB. At least 4096. */
  size_t max_private_data; /**< The most octets of private data. Zero: 512. At least 56, at most 1024. */
} penstock_provider_options;
/** The default properties. */
#define PENSTOCK_PROVIDER_OPTIONS_INIT {sizeof(penstock_provider_options), 0, NULL, 0, 0, 0}

/**
 * Makes a provider of functions of the host. It may be given to any number of runtimes and servers.
 *
 * @param ops            The functions.
 * @param self           For the functions. It must live until the provider is freed.
 * @param options        Null: PENSTOCK_PROVIDER_OPTIONS_INIT.
 * @param[out] provider  The provider. The caller frees it.
 * @return Zero; -EINVAL if a required function is missing, or for wrong options.
 */
PENSTOCK_API int penstock_provider_new(const penstock_provider_ops* ops, void* self,
                                       const penstock_provider_options* options, penstock_provider** provider);

/**
 * Frees a provider. From then on the library calls none of its functions, and no thread of the host may use it.
 *
 * @param provider  Null: nothing happens.
 * @return Zero; -EBUSY, and the provider stays, if a runtime or a server has it that is not freed, or if buffers of
 *     `allocate` are in use; -EDEADLK in a function of a provider.
 */
PENSTOCK_API int penstock_provider_free(penstock_provider* provider);

/* ---- what the host tells ---- */

/*
 * Any thread may call the following functions, also from inside of a function of the host. They do not block and call
 * no function of the host. For one connection the order of the calls is the order of the events: calls for one
 * connection must not be made by several threads at the same time.
 */

/**
 * Tells that a peer asks for a connection. The library answers with `accept` or `reject`.
 *
 * @param listener         The number of the listener.
 * @param endpoint         The host's name of the connection. Not null.
 * @param peer             The peer.
 * @param[out] connection  The number of the connection. It is set before a function of the host is called for it.
 * @return Zero; -ENOENT if the listener has ended; -EAGAIN if too many peers wait for an answer; -EINVAL for a wrong
 *     peer. After a failure the library does not know the endpoint.
 */
PENSTOCK_API int penstock_provider_requested(penstock_provider* provider, uint64_t listener, void* endpoint,
                                             const penstock_rdma_peer* peer, uint64_t* connection);

/**
 * Tells that a connection is open, after `connect` or `accept`, before anything else is told about it.
 *
 * @param peer  After `connect`: the peer. After `accept`: null.
 * @return Zero; -ENOENT if there is no such connection any more; -EINVAL for a wrong peer.
 */
PENSTOCK_API int penstock_provider_connected(penstock_provider* provider, uint64_t connection,
                                             const penstock_rdma_peer* peer);

/**
 * Tells that a message is in the buffer of a receive, which no longer belongs to the host.
 *
 * @param request      penstock_rdma_receive::request.
 * @param length       The octets of the message.
 * @param invalidated  Null; or the stag of memory of this side that the message has made invalid.
 * @param solicited    Not zero if the sender has set this flag.
 * @return Zero; -ENOENT if there is no such connection any more.
 */
PENSTOCK_API int penstock_provider_received(penstock_provider* provider, uint64_t connection, uint64_t request,
                                            size_t length, const uint32_t* invalidated, int solicited);

/**
 * Tells that a request other than a receive is complete: `send`, `write`, `read`, `invalidate`. The library passes
 * Sends and Writes on in the order of posting, in whatever order the host tells them.
 *
 * @return Zero; -ENOENT if there is no such connection any more.
 */
PENSTOCK_API int penstock_provider_completed(penstock_provider* provider, uint64_t connection, uint64_t request);

/**
 * Tells that a connection has ended, or was not made. The host accesses none of the memory any more that it was given
 * for the connection. The library completes all requests itself, calls `close`, and knows the number no more. Requests
 * that it posts before it has taken note may be dropped.
 *
 * @param end  Null: PENSTOCK_RDMA_END_INIT.
 * @return Zero; -ENOENT if there is no such connection any more; -EINVAL for an unknown reason.
 */
PENSTOCK_API int penstock_provider_ended(penstock_provider* provider, uint64_t connection,
                                         const penstock_rdma_end* end);

PENSTOCK_END_DECLS

#endif
