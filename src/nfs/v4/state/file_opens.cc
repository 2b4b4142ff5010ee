#include "nfs/v4/state/file_opens.h"

#include <iterator>

#include "nfs/v4/state/records.h"

namespace penstock::nfs::v4 {
namespace {

constexpr size_t kWriters = 1;  // of by_bit_
constexpr size_t kDenials = 2;  // there they begin

// The bits of `share`, as FileOpens has them.
uint32_t BitsOf(const Share& share) { return share.access | share.deny << kDenials; }

}  // namespace

void FileOpens::Add(OpenState& open) {
  all_.emplace(open.owner, &open);
  ++by_client_[open.client->id].opens;
}

void FileOpens::Remove(OpenState& open) {
  SetShare(open, {});
  all_.erase(open.owner);
  const auto counts = by_client_.find(open.client->id);
  if (--counts->second.opens == 0) by_client_.erase(counts);
}

void FileOpens::SetShare(OpenState& open, const Share& share) {
  const uint32_t before = BitsOf(open.share), after = BitsOf(share);
  for (size_t bit = 0; bit < kBits; ++bit) {
    const bool was = before >> bit & 1, is = after >> bit & 1;
    if (was && !is) by_bit_[bit].erase(open.places[bit]);
    if (is && !was) open.places[bit] = by_bit_[bit].insert(by_bit_[bit].end(), &open);
  }
  if (open.share.writes()) --by_client_[open.client->id].writers;
  if (share.writes()) ++by_client_[open.client->id].writers;
  open.share = share;
}

OpenState* FileOpens::Find(const OpenOwner& owner) const {
  const auto at = all_.find(&owner);
  return at == all_.end() ? nullptr : at->second;
}

const OpenState* FileOpens::FindConflict(const Share& share) const {
  // RFC 8881 §9.7: what is wanted and denied, and what is denied and open.
  const uint32_t against = BitsOf({.access = share.deny, .deny = share.access});
  for (size_t bit = 0; bit < kBits; ++bit) {
    if ((against >> bit & 1) && !by_bit_[bit].empty()) return by_bit_[bit].front();
  }
  return nullptr;
}

const OpenState* FileOpens::FindDenial(bool write, const OpenState* own) const {
  const auto& denials = by_bit_[kDenials + (write ? 1 : 0)];
  auto at = denials.begin();
  if (at != denials.end() && *at == own) ++at;
  return at == denials.end() ? nullptr : *at;
}

FileOpens::Counts FileOpens::CountsOf(ClientId client) const {
  const auto at = by_client_.find(client);
  return at == by_client_.end() ? Counts() : at->second;
}

bool FileOpens::HasOthers(ClientId client) const { return all_.size() > CountsOf(client).opens; }
bool FileOpens::HasOtherWriters(ClientId client) const { return by_bit_[kWriters].size() > CountsOf(client).writers; }

}  // namespace penstock::nfs::v4
