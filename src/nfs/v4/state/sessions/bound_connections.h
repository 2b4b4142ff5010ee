// The connections that are associated with the channels of a session (RFC 8881 §2.10.3.1).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "protocol/nfs4.h"
#include "rpc/transport.h"

namespace penstock::nfs::v4 {

// A connection, as the session tables record it. `back_channel` is null if the transport cannot carry calls to the
// client.
struct SessionConnection {
  uint64_t number = 0;
  std::shared_ptr<rpc::BackChannel> back_channel{};

  static SessionConnection Of(const rpc::Peer& peer) { return {peer.connection, peer.back_channel}; }
};

class BoundConnections {
 public:
  // The most connections that a session remembers. To make room, it forgets the oldest connection that is only in the
  // fore channel.
  static constexpr size_t kMax = 64;

  bool Has(uint64_t connection) const { return Find(connection) != nullptr; }

  // Adds the connection to the fore channel, as CREATE_SESSION and SEQUENCE do. If it is in the backchannel, it stays
  // there.
  void JoinFore(const SessionConnection& connection);
  // Adds the connection to the backchannel. Returns false if it cannot carry calls to the client.
  bool JoinBack(const SessionConnection& connection);

  // Executes BIND_CONN_TO_SESSION (RFC 8881 §18.34). NFS4ERR_INVAL if the request would change the channels of a
  // connection that was bound before, or asks for a channel that the connection cannot carry.
  Result<nfs4::channel_dir_from_server4, nfs4::nfsstat4> Bind(const SessionConnection& connection,
                                                              nfs4::channel_dir_from_client4 direction);

  // Returns a connection of the backchannel that is not lost and over which no call has failed; null if there is none.
  std::shared_ptr<rpc::BackChannel> BackChannel() const;
  bool HasBack() const { return FindBack() != nullptr; }
  // Notes that a call over the connection got no reply: the connection carries no calls until the client binds it
  // again.
  void Suspect(const rpc::BackChannel& channel);

  // Calls look(number, is_back) for each connection that is not known to be lost.
  template <class Look>
  void ForEach(Look look) const {
    for (const Binding& each : bindings_) {
      const auto& way = each.connection.back_channel;
      if (!way || way->connected()) look(each.connection.number, each.back);
    }
  }

 private:
  struct Binding {
    SessionConnection connection;
    bool fore = false;
    bool back = false;
    bool asked = false;    // bound by BIND_CONN_TO_SESSION, not only by use
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
