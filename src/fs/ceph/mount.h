// An export's mount of CephFS, which is made again when the cluster has ended it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "base/workers.h"
#include "fs/ceph/client.h"
#include "fs/ceph/handles.h"
#include "fs/ceph/objects.h"

namespace penstock::fs::ceph {

// One client of the cluster, from its mount to its end.
struct Session {
  explicit Session(std::shared_ptr<Client> mounted) : client(std::move(mounted)) {}
  const std::shared_ptr<Client> client;
  Objects objects;
};
using SessionRef = std::shared_ptr<Session>;

// Any thread. A thread of its own closes files that were not used for a short time, and mounts again.
class Mount : public std::enable_shared_from_this<Mount> {
 public:
  // `pool` runs what may block. Stop() comes before its end.
  Mount(Location location, Module& module, std::chrono::seconds patience, Workers& pool, std::shared_ptr<Client> client,
        const InodeNumber& root);
  // Call both once. Stop() syncs the data that clients have written. It waits for the cluster without a limit.
  void Start();
  void Stop();

  const Location& location() const { return location_; }
  // Null while the cluster has not accepted this server again.
  SessionRef Current() const;
  // To be called with -ESHUTDOWN or -ENOTCONN of the session. Data that were not synced are lost.
  void NoteEnded(const SessionRef& session);
  // Changes when data may have been lost.
  std::atomic<uint64_t>& verifier() { return verifier_; }

  // Keeps a file that has no name. Returns a negative errno.
  int Pin(const SessionRef& session, const ObjectRef& object);
  void Unpin(const InodeNumber& number);
  bool is_pinned(const InodeNumber& number) const;

 private:
  struct Kept {
    size_t pins = 0;
    FileRef file;  // keeps the MDS from removing the file
    ObjectRef object;
  };

  void Keep();
  SessionRef MountAgain();
  // The client calls this object until its end, so that no session outlives this object.
  SessionRef Adopt(std::shared_ptr<Client> client);
  void CloseUnused(Session& session, TimePoint before);

  const Location location_;
  Module& module_;
  const std::chrono::seconds patience_;
  const InodeNumber root_;
  std::atomic<uint64_t> verifier_;
  std::condition_variable wake_;
  mutable std::mutex mutex_;  // guards the following
  Workers* pool_;             // null after Stop()
  SessionRef session_;
  std::unordered_map<InodeNumber, Kept> pinned_;
  bool ends_ = false;
  bool wants_fewer_ = false;  // the MDS asks for it; the keeper looks at it in every interval
  bool is_closing_ = false;   // a thread of the pool closes unused files
  std::thread keeper_;
};

}  // namespace penstock::fs::ceph
