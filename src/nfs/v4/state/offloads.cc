#include "nfs/v4/state/offloads.h"

#include <algorithm>
#include <cassert>

#include "nfs/v4/state/copy_state_ids.h"

namespace penstock::nfs::v4 {

std::optional<nfs4::stateid4> Offloads::Start(ClientId client, const FileHandle& file, uint64_t random, TimePoint now) {
  std::erase_if(offloads_, [&](const Offload& each) { return each.left && now - each.ended >= limits_.memory; });
  if (stopping_ || running() >= limits_.of_all) return std::nullopt;
  const auto is_running = [client](const Offload& each) { return each.client == client && !each.left; };
  if (static_cast<size_t>(std::ranges::count_if(offloads_, is_running)) >= limits_.per_client) return std::nullopt;
  const nfs4::stateid4 stateid = MakeCopyStateId(CopyStateKind::kOffload, random);
  offloads_.push_back({.client = client, .file = file, .stateid = stateid});
  return stateid;
}

Offloads::Offload* Offloads::Find(const nfs4::stateid4& stateid) {
  const auto found = std::ranges::find(offloads_, stateid, &Offload::stateid);
  return found == offloads_.end() || found->abandoned ? nullptr : &*found;
}

const Offloads::Offload* Offloads::Find(ClientId client, const FileHandle& file, const nfs4::stateid4& stateid) const {
  const auto found = std::ranges::find_if(offloads_, [&](const Offload& offload) {
    return offload.stateid == stateid && offload.client == client && offload.file == file && !offload.abandoned;
  });
  return found == offloads_.end() ? nullptr : &*found;
}

bool Offloads::BeginWrite(const nfs4::stateid4& stateid) {
  Offload* const offload = Find(stateid);
  if (offload) offload->writing = true;
  return offload;
}

Offloads::Order Offloads::Advance(const nfs4::stateid4& stateid, uint64_t done) {
  const auto offload = std::ranges::find(offloads_, stateid, &Offload::stateid);
  if (offload == offloads_.end()) return Order::kAbandon;
  offload->writing = false;
  if (offload->abandoned) return Order::kAbandon;
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

Offloads::Cancelled Offloads::Cancel(ClientId client, const FileHandle& file, const nfs4::stateid4& stateid) {
  const auto found = std::ranges::find(offloads_, stateid, &Offload::stateid);
  if (found == offloads_.end() || found->client != client || found->file != file) return Cancelled::kUnknown;
  if (found->left) {
    offloads_.erase(found);
    return Cancelled::kYes;
  }
  found->abandoned = true;
  return found->writing ? Cancelled::kWriting : Cancelled::kYes;
}

void Offloads::ForgetClient(ClientId client) {
  std::erase_if(offloads_, [&](const Offload& offload) { return offload.client == client && offload.left; });
  for (Offload& each : offloads_) each.abandoned |= each.client == client;
}

void Offloads::Leave(const nfs4::stateid4& stateid) {
  const auto found = std::ranges::find(offloads_, stateid, &Offload::stateid);
  assert(found != offloads_.end() && !found->left);
  if (found->abandoned || !found->result) {
    offloads_.erase(found);
    return;
  }
  found->left = true;
  const ClientId client = found->client;
  const auto left = [](const Offload& each) { return each.left; };
  const auto left_of_client = [client](const Offload& each) { return each.left && each.client == client; };
  if (static_cast<size_t>(std::ranges::count_if(offloads_, left_of_client)) > limits_.results_per_client) {
    ForgetOldest(client);
  }
  if (static_cast<size_t>(std::ranges::count_if(offloads_, left)) > limits_.results_of_all) ForgetOldest(std::nullopt);
}

void Offloads::ForgetOldest(std::optional<ClientId> client) {
  auto oldest = offloads_.end();
  for (auto each = offloads_.begin(); each != offloads_.end(); ++each) {
    if (!each->left || (client && each->client != *client)) continue;
    if (oldest == offloads_.end() || each->ended < oldest->ended) oldest = each;
  }
  if (oldest != offloads_.end()) offloads_.erase(oldest);
}

size_t Offloads::running() const { return static_cast<size_t>(std::ranges::count(offloads_, false, &Offload::left)); }

}  // namespace penstock::nfs::v4
