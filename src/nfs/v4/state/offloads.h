// Asynchronous copies, which go on after the reply to COPY (RFC 7862 §4.8): their progress and their results.
//
// A plain table. The copying coroutine reports each step and learns when to stop; clients ask for the progress. A copy
// ends with the server, because its stateid does (§4.8).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/timer.h"
#include "nfs/v4/state/ids.h"
#include "protocol/nfs4_types.h"

namespace penstock::nfs::v4 {

class Offloads {
 public:
  struct Limits {
    // Copies whose coroutines have not left, cancelled ones among them: a client that starts and cancels copies must
    // not have more of them than one that waits.
    size_t per_client = 16;
    size_t of_all = 256;
    // The result of a copy is kept for this time, for a client that missed the callback, unless newer results take its
    // place.
    Duration memory = std::chrono::seconds(90);
    size_t results_per_client = 16;
    size_t results_of_all = 1024;
  };
  Offloads() : Offloads(Limits{}) {}
  explicit Offloads(const Limits& limits) : limits_(limits) {}

  struct Offload {
    ClientId client;
    FileHandle file;  // the target
    nfs4::stateid4 stateid{};
    uint64_t done = 0;                       // octets
    std::optional<nfs4::nfsstat4> result{};  // set once the copy has ended
    TimePoint ended{};
    bool abandoned = false;  // cancelled, or its client has gone: clients do not find it
    bool writing = false;    // see BeginWrite()
    bool left = false;       // see Leave(); only the result remains
  };

  // Starts a copy. `random` makes the stateid hard to guess. Returns nothing if too many copies are under way; the
  // caller then copies before it replies.
  std::optional<nfs4::stateid4> Start(ClientId client, const FileHandle& file, uint64_t random, TimePoint now);
  enum class Order : uint8_t {
    kContinue,
    kEnd,      // the server is about to stop: the client is told what has been copied until now
    kAbandon,  // without a callback: the copy was cancelled, or its client has gone
  };
  // A part is about to be written. Returns false if the copy is abandoned: it must not write any more, because the
  // client may have written the same part since.
  bool BeginWrite(const nfs4::stateid4& stateid);
  // Reports progress. Nothing is being written.
  Order Advance(const nfs4::stateid4& stateid, uint64_t done);
  // Reports the result. Returns false if the copy was cancelled, or its client has gone.
  bool End(const nfs4::stateid4& stateid, nfs4::nfsstat4 result, TimePoint now);

  // Returns null if the client has no such copy to this file (NFS4ERR_BAD_STATEID).
  const Offload* Find(ClientId client, const FileHandle& file, const nfs4::stateid4& stateid) const;
  enum class Cancelled : uint8_t {
    kUnknown,  // the client has no such copy to this file
    kWriting,  // the copy is abandoned, and ends after the part that it is writing: ask again
    kYes,      // the copy writes no more
  };
  // OFFLOAD_CANCEL (RFC 7862 §15.8).
  Cancelled Cancel(ClientId client, const FileHandle& file, const nfs4::stateid4& stateid);
  void ForgetClient(ClientId client);
  // The copying coroutine has ended, and has told the client. Call it once for each Start().
  void Leave(const nfs4::stateid4& stateid);
  // The server is about to stop: all copies end after their current step, and no other starts.
  void EndAll() { stopping_ = true; }

  // The number of coroutines that copy and have not left.
  size_t running() const;

 private:
  // Returns null if the copy is abandoned.
  Offload* Find(const nfs4::stateid4& stateid);
  // Forgets the oldest result, of this client or, without one, of any.
  void ForgetOldest(std::optional<ClientId> client);

  Limits limits_;
  std::vector<Offload> offloads_;  // few, so a search visits all
  bool stopping_ = false;
};

}  // namespace penstock::nfs::v4
