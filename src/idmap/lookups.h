// Look-ups of users and groups for callers that must not wait long. The database may be a directory service that does
// not answer for minutes, and a look-up cannot be interrupted. So look-ups run on threads of their own, the number of
// look-ups under way is limited, and callers stop waiting after a short time. Answers are remembered for a while.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>

#include "base/client_key.h"
#include "base/loop.h"
#include "base/task.h"
#include "base/timer.h"
#include "idmap/database.h"

namespace penstock::idmap {

// The caller of look-ups, for the time of one request.
struct Caller {
  Loop* loop = nullptr;  // resumes the caller; null: the thread that brings the answer does
  ClientKey client{};    // shares the threads and the places of look-ups with others
  // When this caller stops to wait for answers. Set by its first wait, so that a request with many names waits no
  // longer than a request with one.
  std::optional<TimePoint> until{};
};

// Any thread.
class Lookups {
 public:
  struct Settings {
    // How long a caller waits for the answers to all its questions, and how long all callers together wait for one. If
    // no look-up has ended for so long, callers wait a twentieth of it.
    Duration patience = std::chrono::seconds(2);
    Duration known_for = std::chrono::minutes(5);
    Duration unknown_for = std::chrono::minutes(1);
    // How long the name of an id remains in use beyond known_for if the database does not answer.
    Duration outage = std::chrono::hours(1);
    // The limits of AnswerCache.
    size_t known = 16384;
    size_t unknown = 4096;
    // Look-ups that run or wait for a thread. A host gets another one only if three times as many as it has are left.
    size_t under_way = 256;
  };
  // Runs a function that may block, later or at once. Thread-safe.
  using Run = std::function<void(std::move_only_function<void()> function, const ClientKey& client)>;
  // Runs functions on at most `count` threads, which are started when they are needed. One client alone gets a quarter
  // of them, so some more of its look-ups end while a few hang. A thread whose look-up hangs outlives the result, and
  // so must the database.
  static Run OnThreads(size_t count = 64);

  // `clock` outlives this object; any thread may call its Now(). It makes the timers of callers without a loop. An
  // empty `run` means that callers run the look-ups themselves.
  Lookups(Database database, TimerService& clock, Run run) : Lookups(std::move(database), clock, std::move(run), {}) {}
  Lookups(Database database, TimerService& clock, Run run, const Settings& settings);
  // No call of Find() may be under way.
  ~Lookups();
  Lookups(const Lookups&) = delete;
  Lookups& operator=(const Lookups&) = delete;

  // Returns the remembered answer or asks the database. Callers with the same question share one look-up. Returns
  // NoAnswer if the answer does not come in time, or if there are too many look-ups. To a question by id, returns an
  // older answer rather than NoAnswer: a client that sets an owner by name can try again later. `caller` outlives the
  // call.
  Task<Answer> Find(Query query, Caller& caller);

  // Returns the remembered answer, or nothing if the database is to be asked. Does not wait.
  std::optional<std::optional<Account>> Known(const Query& query) const;

  // The number of look-ups that run or wait for a thread.
  size_t under_way() const;
  // The number of remembered answers.
  size_t remembered() const;

 private:
  struct Waiting;
  class State;
  Task<Answer> Wait(const Query& query, const Caller& caller, std::shared_ptr<Waiting> waiting, Duration limit);

  const std::shared_ptr<State> state_;  // shared with look-ups that hang
  TimerService& clock_;
  const Run run_;
};

}  // namespace penstock::idmap
