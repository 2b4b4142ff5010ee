#include "nfs/v4/state/files/file_opens.h"

#include <iterator>

#include "nfs/v4/state/files/records.h"

namespace penstock::nfs::v4 {
namespace {

constexpr size_t kWriters = 1;  // the index in FileOpens::Lists of the opens for writing
constexpr size_t kDenials = 2;  // the first index in FileOpens::Lists of opens that deny access

// The bits of `share`, numbered as the indices of FileOpens::Lists.
uint32_t BitsOf(const Share& share) { return share.access | share.deny << kDenials; }

FileOpens::Opener OpenerOf(const OpenState& open) { return {open.owner, open.handle.export_id}; }

}  // namespace

void FileOpens::Add(OpenState& open) {
  all_.emplace(OpenerOf(open), &open);
  ++without_access_;
  ++by_party_[PartyOf(open)].opens;
}

void FileOpens::Remove(OpenState& open) {
  SetShare(open, {});
  --without_access_;
  all_.erase(OpenerOf(open));
  const auto counts = by_party_.find(PartyOf(open));
  if (--counts->second.opens == 0) by_party_.erase(counts);
}

void FileOpens::SetShare(OpenState& open, const Share& share) {
  const uint32_t before = BitsOf(open.share), after = BitsOf(share);
  Lists& by_bit = IsLockHost(open.client->id) ? of_hosts_ : of_clients_;
  for (size_t bit = 0; bit < kBits; ++bit) {
    const bool was = before >> bit & 1, is = after >> bit & 1;
    if (was && !is) by_bit[bit].erase(open.places[bit]);
    if (is && !was) open.places[bit] = by_bit[bit].insert(by_bit[bit].end(), &open);
  }
  if (open.share.access == 0) --without_access_;
  if (share.access == 0) ++without_access_;
  if (open.share.writes()) --by_party_[PartyOf(open)].writers;
  if (share.writes()) ++by_party_[PartyOf(open)].writers;
  open.share = share;
}

OpenState* FileOpens::Find(const Opener& opener) const {
  const auto at = all_.find(opener);
  return at == all_.end() ? nullptr : at->second;
}

const OpenState* FileOpens::FindConflict(const Share& share) const {
  // RFC 8881 §9.7: the new share conflicts with an open that denies its access, or that has the access that it denies.
  const uint32_t against = BitsOf({.access = share.deny, .deny = share.access});
  for (size_t bit = 0; bit < kBits; ++bit) {
    if (!(against >> bit & 1)) continue;
    for (const Lists* by_bit : {&of_clients_, &of_hosts_}) {
      if (!(*by_bit)[bit].empty()) return (*by_bit)[bit].front();
    }
  }
  return nullptr;
}

const OpenState* FileOpens::FindDenial(bool write, const OpenState* own) const {
  const auto& denials = of_clients_[kDenials + (write ? 1 : 0)];
  auto at = denials.begin();
  if (at != denials.end() && *at == own) ++at;
  return at == denials.end() ? nullptr : *at;
}

FileOpens::Counts FileOpens::CountsOf(const Party& party) const {
  const auto at = by_party_.find(party);
  return at == by_party_.end() ? Counts() : at->second;
}

bool FileOpens::HasOthers(const Party& party) const { return all_.size() > CountsOf(party).opens; }
size_t FileOpens::CountWriters() const { return of_clients_[kWriters].size() + of_hosts_[kWriters].size(); }
bool FileOpens::HasWriters() const { return CountWriters() > 0; }
bool FileOpens::HasOtherWriters(const Party& party) const { return CountWriters() > CountsOf(party).writers; }

}  // namespace penstock::nfs::v4
