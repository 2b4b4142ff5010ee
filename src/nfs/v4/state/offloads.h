// Copies that go on after their COPY was answered (RFC 7862 §4.8): how far they are, and what came of them.
//
// A plain table. Whoever copies tells it of each step, and is told when to stop; clients ask it.
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
    size_t per_client = 16;
    size_t of_all = 256;
    // For so long it is remembered what came of a copy, for a client that did not hear of it.
    Duration memory = std::chrono::seconds(90);
  };
  Offloads() : Offloads(Limits{}) {}
  explicit Offloads(const Limits& limits) : limits_(limits) {}

  struct Offload {
    ClientId client;
    FileHandle file;  // what is copied to
    nfs4::stateid4 stateid{};
    uint64_t done = 0;                       // octets
    std::optional<nfs4::nfsstat4> result{};  // when it has ended
    TimePoint ended{};
  };

  // `random` makes a stateid that nobody guesses. Nothing where too many are under way: what cannot be told later is to be done at once.
  std::optional<nfs4::stateid4> Start(ClientId client, const FileHandle& file, uint64_t random, TimePoint now);
  // False where the copy is to stop, and nobody wants to hear of it: it was cancelled, or its client is gone.
  bool Advance(const nfs4::stateid4& stateid, uint64_t done);
  // The same.
  bool End(const nfs4::stateid4& stateid, nfs4::nfsstat4 result, TimePoint now);

  // Null: no such copy of this client to this file (NFS4ERR_BAD_STATEID).
  const Offload* Find(ClientId client, const FileHandle& file, const nfs4::stateid4& stateid) const;
  // OFFLOAD_CANCEL (RFC 7862 §15.8). False: no such copy.
  bool Cancel(ClientId client, const FileHandle& file, const nfs4::stateid4& stateid);
  void ForgetClient(ClientId client);
  // Whoever copies has ended, whatever came of it. Once for each Start().
  void Leave() { --running_; }
  // The server is about to end: so are all copies, and no other begins.
  void StopAll() {
    offloads_.clear();
    stopping_ = true;
  }

  // Those who copy and have not left.
  size_t running() const { return running_; }

 private:
  Offload* Find(const nfs4::stateid4& stateid);

  Limits limits_;
  std::vector<Offload> offloads_;  // few
  size_t running_ = 0;
  bool stopping_ = false;
};

}  // namespace penstock::nfs::v4
