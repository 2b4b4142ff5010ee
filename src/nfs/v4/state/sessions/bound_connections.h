// Which connections belong to a session's channels (RFC 8881 §2.10.3.1).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "protocol/nfs4.h"
#include "rpc/transport.h"

namespace penstock::nfs::v4 {

// A connection as the tables know it. What can be called over it is there only where the transport can.
struct SessionConnection {
  uint64_t number = 0;
  std::shared_ptr<rpc::BackChannel> back_channel{};

  static SessionConnection Of(const rpc::Peer& peer) { return {peer.connection, peer.back_channel}; }
};

class BoundConnections {
 public:
  // More than these are not remembered: the one that was associated first and only with the fore channel makes room.
  static constexpr size_t kMax = 64;

  bool Has(uint64_t connection) const { return Find(connection) != nullptr; }

  // What CREATE_SESSION and SEQUENCE do: the connection joins the fore channel, and stays in the backchannel where it
  // is.
  void JoinFore(const SessionConnection& connection);
  // True where the connection can carry calls the other way, and does from now on.
  bool JoinBack(const SessionConnection& connection);

  // BIND_CONN_TO_SESSION (RFC 8881 §18.34). NFS4ERR_INVAL where a connection that was bound before should change its
  // channels, or is asked for what it cannot do.
  Result<nfs4::channel_dir_from_server4, nfs4::nfsstat4> Bind(const SessionConnection& connection,
                                                              nfs4::channel_dir_from_client4 direction);

  // A connection of the backchannel that may be called over: not lost, and no call over it has failed. Null where there
  // is none.
  std::shared_ptr<rpc::BackChannel> BackChannel() const;
  bool HasBack() const { return FindBack() != nullptr; }
  // A call over it was not answered: it is not to be used until the client binds it again.
  void Suspect(const rpc::BackChannel& channel);

 private:
  struct Binding {
    SessionConnection connection;
    bool fore = false;
    bool back = false;
    bool asked = false;    // by BIND_CONN_TO_SESSION, and not just along the way
    bool suspect = false;  // a call over it has failed
  };

  const Binding* Find(uint64_t connection) const;
  Binding* Find(uint64_t connection) { return const_cast<Binding*>(std::as_const(*this).Find(connection)); }
  Binding& FindOrAdd(const SessionConnection& connection);
  const Binding* FindBack() const;
  void MakeRoom();

  std::vector<Binding> bindings_;
};

}  // namespace penstock::nfs::v4
