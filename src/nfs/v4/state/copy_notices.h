// The permissions that COPY_NOTIFY gives: another server may read a file on behalf of a client and its user, to copy it
// (RFC 7862 §15.3).
//
// A plain table.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/timer.h"
#include "nfs/caller.h"
#include "nfs/v4/state/ids.h"
#include "protocol/nfs4_types.h"

namespace penstock::nfs::v4 {

class CopyNotices {
 public:
  struct Limits {
    size_t per_client = 1024;
    size_t of_all = 16 << 10;
    // If there is no room, notices of other clients that are over make some, at most so often.
    Duration between_searches = std::chrono::seconds(1);
  };
  CopyNotices() : CopyNotices(Limits{}) {}
  explicit CopyNotices(const Limits& limits) : limits_(limits) {}

  struct Notice {
    ClientId client;
    FileHandle file;
    // The open, lock or delegation that the client presented, with a seqid of zero. The reader has its rights, as long
    // as it lasts.
    nfs4::stateid4 source;
    std::string destination;  // netloc4, encoded
    Caller user;              // who sent COPY_NOTIFY
    TimePoint until{};        // when the first READ must have come
    bool begun = false;       // a READ has come, so the notice has no end in time
  };

  // Adds a notice and returns its stateid, or renews the notice that agrees in client, user, file, state and
  // destination. `random` makes the stateid hard to guess. `lasts` says whether the state of a notice still exists.
  // Returns nothing if there are too many notices.
  std::optional<nfs4::stateid4> Give(Notice notice, uint64_t random, TimePoint now,
                                     const std::function<bool(const Notice&)>& lasts);
  // Whether the stateid has the form of those that Give() returns. No other stateid of the server has it.
  static bool IsOne(const nfs4::stateid4& stateid);
  // A READ comes under this stateid. Returns null if the notice does not exist, concerns another file, or has expired
  // before any READ (NFS4ERR_PARTNER_NO_AUTH).
  const Notice* Use(const nfs4::stateid4& stateid, const FileHandle& file, TimePoint now);
  // OFFLOAD_CANCEL. Returns false if the client has given no such notice for the file.
  bool Cancel(ClientId client, const FileHandle& file, const nfs4::stateid4& stateid);
  void ForgetClient(ClientId client);

  size_t size() const { return clients_.size(); }

 private:
  // Returns null if there is no such notice for the file.
  Notice* Find(const nfs4::stateid4& stateid, const FileHandle& file);
  // Removes the client's notices that are over.
  void EraseOf(ClientId client, const std::function<bool(const Notice&)>& is_over);
  void EraseOfAll(const std::function<bool(const Notice&)>& is_over);

  Limits limits_;
  // Both by the random part of the stateid. A call looks at the notices of its own client only.
  std::unordered_map<uint64_t, ClientId> clients_;
  std::unordered_map<ClientId, std::unordered_map<uint64_t, Notice>> by_client_;
  TimePoint next_search_ = TimePoint::min();
};

}  // namespace penstock::nfs::v4
