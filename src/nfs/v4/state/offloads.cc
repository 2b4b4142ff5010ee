#include "nfs/v4/state/offloads.h"

#include <algorithm>

#include "nfs/v4/state/copy_state_ids.h"

namespace penstock::nfs::v4 {

std::optional<nfs4::stateid4> Offloads::Start(ClientId client, const FileHandle& file, uint64_t random, TimePoint now) {
  std::erase_if(offloads_,
                [&](const Offload& offload) { return offload.result && now - offload.ended >= limits_.memory; });
  if (stopping_) return std::nullopt;
  const auto of_client = std::ranges::count(offloads_, client, &Offload::client);
  if (offloads_.size() >= limits_.of_all || static_cast<size_t>(of_client) >= limits_.per_client) return std::nullopt;
  const nfs4::stateid4 stateid = MakeCopyStateId(CopyStateKind::kOffload, random);
  offloads_.push_back({.client = client, .file = file, .stateid = stateid});
  ++running_;
  return stateid;
}

Offloads::Offload* Offloads::Find(const nfs4::stateid4& stateid) {
  const auto found = std::ranges::find(offloads_, stateid, &Offload::stateid);
  return found == offloads_.end() ? nullptr : &*found;
}

const Offloads::Offload* Offloads::Find(ClientId client, const FileHandle& file, const nfs4::stateid4& stateid) const {
  const auto found = std::ranges::find_if(offloads_, [&](const Offload& offload) {
    return offload.stateid == stateid && offload.client == client && offload.file == file;
  });
  return found == offloads_.end() ? nullptr : &*found;
}

Offloads::Order Offloads::Advance(const nfs4::stateid4& stateid, uint64_t done) {
  Offload* const offload = Find(stateid);
  if (!offload) return Order::kAbandon;
  offload->done = done;
  return stopping_ ? Order::kEnd : Order::kContinue;
}

bool Offloads::End(const nfs4::stateid4& stateid, nfs4::nfsstat4 result, TimePoint now) {
  Offload* const offload = Find(stateid);
  if (!offload) return false;
  offload->result = result;
  offload->ended = now;
  return true;
}

bool Offloads::Cancel(ClientId client, const FileHandle& file, const nfs4::stateid4& stateid) {
  const Offload* const found = Find(client, file, stateid);
  if (!found) return false;
  offloads_.erase(offloads_.begin() + (found - offloads_.data()));
  return true;
}

void Offloads::ForgetClient(ClientId client) {
  std::erase_if(offloads_, [&](const Offload& offload) { return offload.client == client; });
}

}  // namespace penstock::nfs::v4
