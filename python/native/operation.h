// How Python waits for an operation of libpenstock. build_ffi.py makes a function for each operation of the library
// from the parts below.
//
// The `done` of an operation is C and needs nothing of Python: it notes the result and wakes the thread that waits, or
// puts the operation into a queue from which an event loop takes it. So no thread of the library ever waits for the
// interpreter, and the interpreter can end at any time. All state is in C as well. A signal handler of Python can raise
// an exception between any two steps of Python code; whatever has begun then is still known here.
#include <errno.h>
#include <penstock/penstock.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// What penstock_py_wait() and the functions that start operations return.
enum {
  PENSTOCK_PY_WAITING =
      0,                 // The operation goes on. Let Python handle signals, and look at the progress; then wait again.
  PENSTOCK_PY_ENDED = 1  // It has ended, or was never started.
};

// A runtime, mount or file that several threads may know. It counts the operations that use the object, so that no
// thread closes an object that another one uses.
typedef struct penstock_py_handle {
  pthread_mutex_t mutex;
  void* object;  // Null: closed.
  int users;     // Operations that have not ended.
  pid_t process;
} penstock_py_handle;

// Handles, queues and logs are memory of Python, which is there until nothing refers to it. Memory that a finalizer
// frees would not do: in a cycle, the garbage collector calls all finalizers, in any order, and those of others still
// use it.
static void penstock_py_handle_begin(penstock_py_handle* handle) {
  pthread_mutex_init(&handle->mutex, NULL);
  handle->process = getpid();
}

// Moves an object from the place where an operation has put it into its handle, in one step.
static void penstock_py_handle_take(penstock_py_handle* handle, void** place) {
  pthread_mutex_lock(&handle->mutex);
  if (*place != NULL) handle->object = *place;
  *place = NULL;
  pthread_mutex_unlock(&handle->mutex);
}

static int penstock_py_handle_is_open(penstock_py_handle* handle) {
  if (handle->process != getpid()) return 0;
  pthread_mutex_lock(&handle->mutex);
  int open = handle->object != NULL;
  pthread_mutex_unlock(&handle->mutex);
  return open;
}

static int penstock_py_handle_is_of_this_process(const penstock_py_handle* handle) {
  return handle->process == getpid();
}

typedef struct penstock_py_operation penstock_py_operation;

// Operations that have ended, for an event loop. Only the thread of the loop uses it.
typedef struct penstock_py_queue {
  penstock_py_operation *first, *last;
} penstock_py_queue;

struct penstock_py_operation {
  penstock_call call;
  pthread_mutex_t mutex;
  sem_t changed;  // It ended, or got on.
  int under_way, ended, has_progress;
  uint64_t progress, total;
  int64_t result;
  char error[1024];
  penstock_py_handle* handle;   // What it uses until it ends. Null: nothing.
  int closes;                   // Whether it frees the object of `handle`.
  void* object;                 // That object.
  penstock_py_queue* queue;     // Receives the operation when it has ended. Null: a thread waits.
  penstock_py_operation* next;  // In the queue.
  uint64_t id;                  // For the event loop.
  pid_t process;
};

static penstock_py_operation* penstock_py_operation_new(penstock_py_queue* queue) {
  penstock_py_operation* operation = (penstock_py_operation*)calloc(1, sizeof *operation);
  if (operation == NULL) return NULL;
  operation->call = (penstock_call)PENSTOCK_CALL_INIT;
  if (penstock_cancellation_new(&operation->call.cancellation) < 0) {
    free(operation);
    return NULL;
  }
  pthread_mutex_init(&operation->mutex, NULL);
  sem_init(&operation->changed, 0, 0);
  operation->queue = queue;
  operation->ended = 1;
  operation->process = getpid();
  return operation;
}

// Frees an operation. One that has not ended is left to the library, and so is that of a parent process.
static void penstock_py_operation_free(penstock_py_operation* operation) {
  if (operation->process != getpid()) return;
  pthread_mutex_lock(&operation->mutex);
  int ended = operation->ended;
  pthread_mutex_unlock(&operation->mutex);
  if (!ended) return;
  penstock_cancellation_free(operation->call.cancellation);
  sem_destroy(&operation->changed);
  pthread_mutex_destroy(&operation->mutex);
  free(operation);
}

static void penstock_py_end(penstock_py_operation* operation, int64_t result, const char* error) {
  penstock_py_handle* handle = operation->handle;
  if (handle != NULL) {
    pthread_mutex_lock(&handle->mutex);
    --handle->users;
    // The library keeps an object that is busy.
    if (operation->closes && result == -EBUSY) handle->object = operation->object;
    pthread_mutex_unlock(&handle->mutex);
  }
  // The mutex is held until the operation is not touched any more: the thread that waits takes it before it goes on.
  pthread_mutex_lock(&operation->mutex);
  operation->handle = NULL;
  operation->result = result;
  snprintf(operation->error, sizeof operation->error, "%s", error != NULL ? error : "");
  operation->ended = 1;
  if (operation->queue != NULL && operation->under_way) {
    operation->next = NULL;
    if (operation->queue->first == NULL) {
      operation->queue->first = operation;
    } else {
      operation->queue->last->next = operation;
    }
    operation->queue->last = operation;
  }
  operation->under_way = 0;
  sem_post(&operation->changed);
  pthread_mutex_unlock(&operation->mutex);
}

static void penstock_py_done(void* context, int64_t result, const char* error) {
  penstock_py_end((penstock_py_operation*)context, result, error);
}

// For penstock_download() and penstock_upload(). Its context is the operation.
static void penstock_py_progress(void* context, uint64_t done, uint64_t total) {
  penstock_py_operation* operation = (penstock_py_operation*)context;
  pthread_mutex_lock(&operation->mutex);
  operation->progress = done;
  operation->total = total;
  if (!operation->has_progress) sem_post(&operation->changed);
  operation->has_progress = 1;
  pthread_mutex_unlock(&operation->mutex);
}

// Prepares an operation that uses the object of a handle, and returns the object. Null: the operation has ended.
static void* penstock_py_begin(penstock_py_operation* operation, penstock_py_handle* handle, int closes,
                               int64_t timeout_ms) {
  while (sem_trywait(&operation->changed) == 0) {
  }
  operation->call.done = &penstock_py_done;
  operation->call.context = operation;
  operation->call.timeout_ms = timeout_ms;
  operation->handle = NULL;
  operation->closes = closes;
  operation->object = NULL;
  operation->ended = 0;
  operation->has_progress = 0;
  if (handle->process != getpid()) {
    penstock_py_end(operation, -EPERM, "the object belongs to the parent process, which made it before fork()");
    return NULL;
  }
  const char* why = NULL;
  int code = 0;
  pthread_mutex_lock(&handle->mutex);
  if (handle->object == NULL) {
    code = -EBADF;
    why = "the object is closed";
  } else if (closes && handle->users > 0) {
    code = -EBUSY;
    why = "operations on the object have not ended";
  } else {
    operation->object = handle->object;
    if (closes) handle->object = NULL;
    ++handle->users;
  }
  pthread_mutex_unlock(&handle->mutex);
  if (why != NULL) {
    operation->closes = 0;
    penstock_py_end(operation, code, why);
    return NULL;
  }
  operation->handle = handle;
  operation->under_way = 1;
  return operation->object;
}

// Notes what the function returned that should have started the operation.
static void penstock_py_started(penstock_py_operation* operation, int64_t result) {
  if (result >= 0) return;
  operation->under_way = 0;
  penstock_py_end(operation, result, penstock_error_text());
}

// Waits until something has changed, at most for a fifth of a second, or until a signal arrives. Python then handles
// signals that arrived between its last look and the wait, or on another thread.
static int penstock_py_wait(penstock_py_operation* operation) {
  pthread_mutex_lock(&operation->mutex);
  int waits = operation->queue == NULL && !operation->ended;
  pthread_mutex_unlock(&operation->mutex);
  if (waits) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 200000000;
    if (until.tv_nsec >= 1000000000) {
      until.tv_nsec -= 1000000000;
      ++until.tv_sec;
    }
    sem_timedwait(&operation->changed, &until);
  }
  pthread_mutex_lock(&operation->mutex);
  int ended = operation->ended;
  pthread_mutex_unlock(&operation->mutex);
  return ended ? PENSTOCK_PY_ENDED : PENSTOCK_PY_WAITING;
}

// Copies how far the operation is, and returns 1, if that is new; otherwise returns 0.
static int penstock_py_take_progress(penstock_py_operation* operation, uint64_t* done, uint64_t* total) {
  pthread_mutex_lock(&operation->mutex);
  int is_new = operation->has_progress;
  operation->has_progress = 0;
  *done = operation->progress;
  *total = operation->total;
  pthread_mutex_unlock(&operation->mutex);
  return is_new;
}

// Cancels an operation and waits until it has ended, which is at once, whatever signals arrive. Not for operations of
// an event loop.
static void penstock_py_abandon(penstock_py_operation* operation) {
  pthread_mutex_lock(&operation->mutex);
  int ended = operation->ended;
  pthread_mutex_unlock(&operation->mutex);
  if (ended) return;
  penstock_cancel(operation->call.cancellation);
  do {
    sem_wait(&operation->changed);
    pthread_mutex_lock(&operation->mutex);
    ended = operation->ended;
    pthread_mutex_unlock(&operation->mutex);
  } while (!ended);
}

// Cancels an operation of an event loop. It ends in the next dispatch.
static void penstock_py_cancel(penstock_py_operation* operation) { penstock_cancel(operation->call.cancellation); }

static penstock_py_operation* penstock_py_queue_take(penstock_py_queue* queue) {
  penstock_py_operation* operation = queue->first;
  if (operation != NULL) queue->first = operation->next;
  return operation;
}

// ---- runtimes ----

// The messages of a runtime that Python has not taken yet. Threads of the library put them here without waiting for the
// interpreter.
enum { PENSTOCK_PY_MESSAGES = 1024 };

typedef struct penstock_py_message {
  int level;
  char module[64];
  char text[1024];
} penstock_py_message;

typedef struct penstock_py_log {
  pthread_mutex_t mutex;
  sem_t available;
  unsigned first, count;
  uint64_t dropped;  // Since the last message that was taken.
  int ended;
  penstock_py_message messages[PENSTOCK_PY_MESSAGES];
} penstock_py_log;

static void penstock_py_log_begin(penstock_py_log* log) {
  pthread_mutex_init(&log->mutex, NULL);
  sem_init(&log->available, 0, 0);
}

static void penstock_py_log_put(void* context, penstock_log_level level, const char* module, const char* text) {
  penstock_py_log* log = (penstock_py_log*)context;
  pthread_mutex_lock(&log->mutex);
  if (log->count == PENSTOCK_PY_MESSAGES) {
    ++log->dropped;
  } else {
    penstock_py_message* message = &log->messages[(log->first + log->count++) % PENSTOCK_PY_MESSAGES];
    message->level = (int)level;
    snprintf(message->module, sizeof message->module, "%s", module);
    snprintf(message->text, sizeof message->text, "%s", text);
    sem_post(&log->available);
  }
  pthread_mutex_unlock(&log->mutex);
}

// Takes the oldest message, and tells how many younger ones were dropped before it was taken.
// Returns 1, or 0 if there is none.
static int penstock_py_log_take(penstock_py_log* log, penstock_py_message* message, uint64_t* dropped) {
  pthread_mutex_lock(&log->mutex);
  int taken = log->count > 0;
  if (taken) {
    *message = log->messages[log->first];
    log->first = (log->first + 1) % PENSTOCK_PY_MESSAGES;
    --log->count;
  }
  *dropped = log->dropped;
  log->dropped = 0;
  pthread_mutex_unlock(&log->mutex);
  return taken;
}

// Waits for a message. Returns 0 if penstock_py_log_end() was called.
static int penstock_py_log_wait(penstock_py_log* log) {
  while (sem_wait(&log->available) < 0) {
  }
  pthread_mutex_lock(&log->mutex);
  int goes_on = !log->ended;
  pthread_mutex_unlock(&log->mutex);
  return goes_on;
}

static void penstock_py_log_end(penstock_py_log* log) {
  pthread_mutex_lock(&log->mutex);
  log->ended = 1;
  sem_post(&log->available);
  pthread_mutex_unlock(&log->mutex);
}

// Makes a runtime, with the log, which may be null.
static int penstock_py_runtime_new(unsigned threads, unsigned blocking_threads, penstock_py_log* log, int log_level,
                                   const char* rdma, const char* rdma_device, penstock_runtime** runtime) {
  penstock_runtime_options options = PENSTOCK_RUNTIME_OPTIONS_INIT;
  options.threads = threads;
  options.blocking_threads = blocking_threads;
  if (log != NULL) {
    options.log = &penstock_py_log_put;
    options.log_context = log;
    options.log_level = (penstock_log_level)log_level;
  }
  options.rdma = rdma;
  options.rdma_device = rdma_device;
  return penstock_runtime_new(&options, runtime);
}

// Frees the runtime of a handle, as penstock_runtime_free().
static int penstock_py_runtime_free(penstock_py_handle* handle) {
  if (handle->process != getpid()) return -EPERM;
  pthread_mutex_lock(&handle->mutex);
  void* object = handle->object;
  int busy = handle->users > 0;
  if (!busy) handle->object = NULL;
  pthread_mutex_unlock(&handle->mutex);
  if (busy) return -EBUSY;
  int result = penstock_runtime_free((penstock_runtime*)object);
  if (result == -EBUSY) {
    pthread_mutex_lock(&handle->mutex);
    handle->object = object;
    pthread_mutex_unlock(&handle->mutex);
  }
  return result;
}

static int penstock_py_runtime_fd(penstock_py_handle* handle) {
  if (handle->process != getpid()) return -EPERM;
  return handle->object == NULL ? -EBADF : penstock_runtime_fd((penstock_runtime*)handle->object);
}

static int penstock_py_runtime_dispatch(penstock_py_handle* handle, int timeout_ms) {
  if (handle->process != getpid()) return -EPERM;
  return handle->object == NULL ? -EBADF : penstock_runtime_dispatch((penstock_runtime*)handle->object, timeout_ms);
}
