// The stream store keeps the sessions of 2004 that outlive the server (persist, draft-talpey-nfsv4-rdma-sess-01 §6.1).
//
// Such a session goes on after a restart: its client binds new connections to it, sends again what it has no answer to,
// and then sends new requests. So the server must know of a request that changes something whether it was begun:
//   - before the request is executed, its name is kept (Begin());
//   - before its reply is sent, the reply is kept (Keep()).
// After a restart, a request with a reply gets this reply. A request that was begun and has no reply gets
// NFS4ERR_SESS01_UNKNOWN_FATE. Every other request is executed, since it was not executed before or changed nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "nfs/v4/state/clients/principal.h"
#include "nfs/v4/state/sess01/ids.h"
#include "protocol/nfs4_types.h"
#include "rpc/xid.h"
#include "xdr/message.h"

namespace penstock::nfs::v4 {

// A request on its streamid (see sess01::StreamTable), and the results of its COMPOUND if they are known. They own
// their memory.
struct StreamRecord {
  sess01::ChannelId channel;
  rpc::Xid xid;
  uint64_t digest = 0;
  std::optional<xdr::Message> results{};
};

// A session and its client, as SESSION_CREATE made them.
struct BoundSessionRecord {
  uint64_t id = 0;  // sessionid
  // Later sessions have greater numbers. Of two sessions of one owner that were bound, the later one is valid.
  uint64_t created = 0;
  std::string owner;
  nfs4::verifier4 verifier{};
  Principal principal;
  uint32_t streams = 0;  // totalrequests
  uint32_t reply = 0;    // the most octets of the results that are kept of one request, unreduced
};

// The numbers that a session may have used.
struct ChannelBlock {
  sess01::ChannelId end{0};  // the numbers of its channels are below it; 0 if the session was never bound
  bool had_back = false;     // a back channel was bound
  uint32_t streams = 0;      // its streamids are below it since CB_CREDITRECALL; 0: all of BoundSessionRecord::streams

  // Adds what `other` knows: the end only grows, and the number of streamids only falls.
  void Add(const ChannelBlock& other) {
    end = std::max(end, other.end);
    had_back |= other.had_back;
    if (streams == 0 || (other.streams != 0 && other.streams < streams)) streams = other.streams;
  }
};

// The storage of one session. Calls block, on any thread; one at a time for each streamid.
class StreamStorage {
 public:
  virtual ~StreamStorage() = default;
  // Keeps the name of a request that is about to be executed; the streamid's last request is still known until the
  // call succeeds. If it returns true, the name outlives the process and, if `lasting`, a power failure. If it returns
  // false, the request must not be executed. `request` has no results.
  virtual bool Begin(sess01::StreamId stream, const StreamRecord& request, bool lasting) = 0;
  // Keeps a request with its results, in place of the streamid's last request. Requires that they fit into the room of
  // the session.
  virtual bool Keep(sess01::StreamId stream, const StreamRecord& request, bool lasting) = 0;
  // Keeps the numbers of the session on stable storage, in addition to those that were kept before: see
  // ChannelBlock::Add().
  virtual bool Reserve(const ChannelBlock& channels) = 0;
  // Forgets the session. Calls that are still under way fail, or have no effect. If it returns true, no restart of the
  // server brings the session back; if `lasting`, no power failure either.
  virtual bool Remove(bool lasting) = 0;
};

// A session that is found after a restart.
struct SavedBoundSession {
  BoundSessionRecord session;
  ChannelBlock channels{};
  std::vector<std::optional<StreamRecord>> streams{};  // by streamid
  std::shared_ptr<StreamStorage> storage{};
};

// Calls block, on any thread.
class StreamStore {
 public:
  virtual ~StreamStore() = default;
  // Returns the sessions of earlier runs of the server. Call it once, before all other methods.
  virtual std::vector<SavedBoundSession> Load() = 0;
  // Whether Create() would find room for the session now. False also if the names of the client are too long.
  virtual bool HasRoomFor(const BoundSessionRecord& session) = 0;
  // Takes the room for a session, so that it does not run out later. Returns null if there is no room, the storage
  // fails, or the names of the client are too long; then the session cannot outlive the server.
  virtual std::shared_ptr<StreamStorage> Create(const BoundSessionRecord& session) = 0;
};

// Keeps the sessions in memory, for as long as the process runs. Tests restart servers with it.
class MemoryStreamStore : public StreamStore {
 public:
  MemoryStreamStore();
  ~MemoryStreamStore() override;
  std::vector<SavedBoundSession> Load() override;
  bool HasRoomFor(const BoundSessionRecord& /*session*/) override { return true; }
  std::shared_ptr<StreamStorage> Create(const BoundSessionRecord& session) override;

 private:
  class Session;
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

// Opens the store in a directory, which is created if necessary; it has a file for each session. Returns an error if a
// file in it is foreign, damaged or unreadable. A file whose creation was interrupted is removed.
SetupResult<std::unique_ptr<StreamStore>> OpenStreamStore(const std::string& directory);

}  // namespace penstock::nfs::v4
