// The lock manager of a mount's server: NLM version 4 (RFC 1813 appendix II, X/Open XNFS), the protocol of the locks of
// NFS version 3. Knows the files that have locks there.
//
// The server forgets locks when it restarts. Its status monitor (NSM) would tell the client's monitor, which a user's
// program cannot be. So the client takes each lost connection for a restart: it asks for each lock again, and reclaims
// it if the server is in its grace period.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/buffer.h"
#include "base/cancellation.h"
#include "base/result.h"
#include "base/signal.h"
#include "base/task.h"
#include "base/timer.h"
#include "base/under_way.h"
#include "client/error.h"
#include "client/nfs3/lock_records.h"
#include "client/reconnecting_channel.h"
#include "client/set_up.h"
#include "client/turn.h"
#include "protocol/nlm4.h"
#include "rpc/client.h"

namespace penstock::client::v3 {

class FileLocks;

// Belongs to one loop.
class LockService {
 public:
  struct Parts {
    TimerService& timers;
    BufferPool& buffers;
    std::string host;  // for messages
    // Connects to the lock manager.
    ReconnectingChannel::Opener open;
    // Waits, as all calls of the mount do, for a server that does not answer.
    std::function<Task<Result<void>>()> reach_server;
    rpc::ClientCredential credential;
    RetryPolicy retry;
    // Ends all calls and waits. It outlives the service.
    Cancellation* ending = nullptr;

    // Where it is remembered which locks the server keeps if this process is killed (client/nfs3/lock_records.h), and
    // of which server. Empty: nowhere.
    std::filesystem::path records{};
    std::string server{};
    // Runs a function that does I/O, while the loop serves others. Only with `records`.
    std::function<Task<void>(std::function<void()>)> aside{};
  };
  explicit LockService(Parts parts);
  LockService(const LockService&) = delete;
  LockService& operator=(const LockService&) = delete;

  // A server knows an owner of locks by the client's name and a number. The name has a random part: two mounts of this
  // host are two clients. The numbers begin at a random one, because Linux's server knows clients by their address
  // only.
  const std::string& caller_name() const { return caller_name_; }
  int32_t NewOwner() { return static_cast<int32_t>(++last_owner_ & INT32_MAX); }
  // The name of an owner for people who read captures (oh).
  static std::string HandleOf(int32_t owner, std::string_view client);
  // The server repeats it. Some expect four octets.
  static constexpr std::string_view kCookie = "lock";

  // Calls a procedure. The first call connects; if that fails, the error is ENOLCK.
  template <class Procedure>
  Task<Result<rpc::Reply<typename Procedure::Results>>> Call(const typename Procedure::Arguments& arguments,
                                                             std::string_view what) {
    PENSTOCK_CO_CHECK(co_await Connect(what));
    auto reply = co_await client_.Call<Procedure>(arguments);
    if (!reply) co_return std::unexpected(WithTrouble(client::ErrorOf(reply.error(), what), channel_.trouble()));
    co_return *std::move(reply);
  }
  // Waits while locks may have to be reclaimed.
  Task<Result<void>> Ready(std::string_view what);
  // Whether a call has reached the server.
  bool connected() const { return connected_; }
  // Whether the last call had a reply.
  bool answered() const { return channel_.trouble().message.empty(); }

  // The file has locks, or may have some.
  void Add(std::shared_ptr<FileLocks> file);
  void Remove(FileLocks& file) { files_.erase(&file); }

  // Remembers that an owner may have locks in a file, until it has none.
  Task<void> Remember(LockRecord record);
  Task<void> Forget(LockRecord record);
  // Gives back what dead mounts of this server on this host have left. Returns before that is done.
  void GiveBackLeftLocks();

  // A connection to the server was lost, or was replaced: the server may have restarted.
  void HandleLoss();
  // Starts `task`. Ended() waits for it.
  void SpawnBackground(Task<void> task);
  // Gives all locks back, unless the server does not answer. Call it once, when no other call is under way.
  Task<void> Stop();
  // Waits for the end of all work. Call it behind Stop(), when the mount has ended.
  Task<void> Ended() { return under_way_.Ended(); }

  TimerService& timers() { return parts_.timers; }
  // Ends the calls that give locks back.
  Cancellation* ending() { return &ending_; }
  // Ends all other work: nobody needs the locks any more.
  Cancellation* closing() { return &closing_; }
  Duration give_up_after() const { return parts_.retry.give_up_after; }
  Duration reply_limit() const { return channel_.reply_limit(); }

 private:
  Task<Result<void>> Connect(std::string_view what);
  Task<void> Recover();
  // Returns false if the server has not answered for a file.
  Task<bool> ReclaimAll();
  // Runs `change` on the records while no other change runs, and aside of the loop.
  Task<SetupResult<void>> ChangeRecords(std::function<SetupResult<void>()> change);
  Task<void> GiveBackAll();
  // Returns whether the server has no locks of the owner any more.
  Task<bool> GiveBack(const std::string& client, const LockRecord& record);

  const Parts parts_;
  const std::string caller_name_;
  uint32_t last_owner_;
  Turn connecting_;
  bool connected_ = false;
  bool told_ = false;  // whether the log says that there is no lock manager
  std::optional<LockRecords> records_;
  Turn recording_;
  bool told_of_records_ = false;  // whether the log says that records cannot be written
  std::map<FileLocks*, std::shared_ptr<FileLocks>> files_;
  bool is_stale_ = false;  // the server may have forgotten locks
  bool recovering_ = false;
  uint64_t failures_ = 0;  // of recoveries
  Signal changed_;
  UnderWay under_way_;
  // Both are cancelled at the end of the mount. Stop() cancels the one at its begin, and the other at its end.
  Cancellation closing_;
  Cancellation ending_;
  const Cancellation::Entry at_end_;
  ReconnectingChannel channel_;
  rpc::Client client_;
};

}  // namespace penstock::client::v3
