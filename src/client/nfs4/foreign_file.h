// A file of a server that this process reads on behalf of another client, to copy it: with the filehandle and stateid
// that the client has from the server by COPY_NOTIFY (RFC 7862 §4.6.2, §15.3).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/address.h"
#include "base/cancellation.h"
#include "base/local_port.h"
#include "base/loop.h"
#include "client/mount.h"
#include "client/nfs4/session.h"
#include "rpc/auth.h"
#include "rpc/client.h"
#include "rpc/tcp/channel.h"

namespace penstock::client::v4 {

// One connection over TCP, with a session of version 4.2. It is not made again when it is lost: then all calls fail.
// Belongs to its loop.
class ForeignFile {
 public:
  struct Target {
    SocketAddress server;
    Handle file;
    nfs4::stateid4 stateid;
    rpc::SystemIdentity user;  // AUTH_SYS
    LocalPort local_port = LocalPort::kReserved;
  };
  struct Limits {
    Duration connect = std::chrono::seconds(5);
    // The most time for one call, also while the server answers NFS4ERR_DELAY.
    Duration call = std::chrono::seconds(30);
    // Ends Connect() early. Null: nothing does.
    Cancellation* cancellation = nullptr;
  };

  // Connects to the server. `loop` outlives the result.
  static Task<Result<std::unique_ptr<ForeignFile>>> Connect(Loop& loop, Target target, Limits limits);
  // After Close().
  ~ForeignFile() = default;
  ForeignFile(const ForeignFile&) = delete;
  ForeignFile& operator=(const ForeignFile&) = delete;

  // Begins the session, learns the attributes of the file, and makes sure that the stateid allows to read it. Call it
  // first, once.
  Task<Result<void>> Open();
  const Attributes& attributes() const { return attributes_; }
  // Reads up to into.size() octets. The reply has none only at the end of the file, or if `into` is empty.
  Task<Result<File::ReadReply>> Read(uint64_t offset, Bytes into);
  // Tells the server that the session ends, and closes the connection. Call it last, when no other call is under way.
  Task<void> Close();
  // Closes the connection now: calls under way, and later ones, fail. Close() must still follow.
  void Abort() { channel_->Close(); }

 private:
  ForeignFile(Loop& loop, Target target, Limits limits, std::unique_ptr<rpc::tcp::Channel> channel);

  Loop& loop_;
  const Target target_;
  const std::string name_;  // in errors
  std::unique_ptr<rpc::tcp::Channel> channel_;
  rpc::Client client_;
  Session session_;
  Attributes attributes_;
};

}  // namespace penstock::client::v4
