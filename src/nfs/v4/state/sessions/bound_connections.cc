#include "nfs/v4/state/sessions/bound_connections.h"

#include <algorithm>

namespace penstock::nfs::v4 {

using nfs4::channel_dir_from_client4;
using nfs4::channel_dir_from_server4;

const BoundConnections::Binding* BoundConnections::Find(uint64_t connection) const {
  const auto found =
      std::ranges::find_if(bindings_, [&](const Binding& b) { return b.connection.number == connection; });
  return found == bindings_.end() ? nullptr : &*found;
}

BoundConnections::Binding& BoundConnections::FindOrAdd(const SessionConnection& connection) {
  if (Binding* known = Find(connection.number)) return *known;
  MakeRoom();
  return bindings_.emplace_back(Binding{.connection = connection});
}

void BoundConnections::MakeRoom() {
  const auto lost = [](const Binding& b) {
    return b.connection.back_channel && !b.connection.back_channel->connected();
  };
  std::erase_if(bindings_, lost);
  if (bindings_.size() < kMax) return;
  const auto fore_only = std::ranges::find_if(bindings_, [](const Binding& b) { return !b.back; });
  bindings_.erase(fore_only == bindings_.end() ? bindings_.begin() : fore_only);
}

void BoundConnections::JoinFore(const SessionConnection& connection) { FindOrAdd(connection).fore = true; }

bool BoundConnections::JoinBack(const SessionConnection& connection) {
  if (!connection.back_channel) return false;
  Binding& binding = FindOrAdd(connection);
  binding.back = true;
  binding.suspect = false;
  return true;
}

Result<channel_dir_from_server4, nfs4::nfsstat4> BoundConnections::Bind(const SessionConnection& connection,
                                                                        channel_dir_from_client4 direction) {
  const bool can_call = connection.back_channel != nullptr;
  bool fore = direction != nfs4::CDFC4_BACK;
  bool back = can_call && direction != nfs4::CDFC4_FORE;
  const bool insists = direction == nfs4::CDFC4_BACK || direction == nfs4::CDFC4_BACK_OR_BOTH;
  if (insists && !can_call) return std::unexpected(nfs4::NFS4ERR_INVAL);

  // RFC 8881 §18.34.3: BIND_CONN_TO_SESSION does not change the channels of a connection that it bound before. A
  // connection that only CREATE_SESSION or SEQUENCE added may still join the backchannel. A client repairs a lost
  // backchannel in this way.
  if (const Binding* known = Find(connection.number); known && known->asked) {
    const bool content = direction == nfs4::CDFC4_FORE_OR_BOTH   ? known->fore
                         : direction == nfs4::CDFC4_BACK_OR_BOTH ? known->back
                                                                 : known->fore == fore && known->back == back;
    if (!content) return std::unexpected(nfs4::NFS4ERR_INVAL);
    fore = known->fore;
    back = known->back;
  }
  Binding& binding = FindOrAdd(connection);
  binding.asked = true;
  binding.fore = fore;
  binding.back = back;
  binding.suspect = false;
  if (!back) return nfs4::CDFS4_FORE;
  return fore ? nfs4::CDFS4_BOTH : nfs4::CDFS4_BACK;
}

const BoundConnections::Binding* BoundConnections::FindBack() const {
  const auto usable = [](const Binding& b) { return b.back && !b.suspect && b.connection.back_channel->connected(); };
  const auto found = std::ranges::find_if(bindings_, usable);
  return found == bindings_.end() ? nullptr : &*found;
}

std::shared_ptr<rpc::BackChannel> BoundConnections::BackChannel() const {
  const Binding* binding = FindBack();
  return binding ? binding->connection.back_channel : nullptr;
}

void BoundConnections::Suspect(const rpc::BackChannel& channel) {
  for (Binding& binding : bindings_) {
    if (binding.connection.back_channel.get() == &channel) binding.suspect = true;
  }
}

}  // namespace penstock::nfs::v4
