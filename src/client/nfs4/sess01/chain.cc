#include "client/nfs4/sess01/chain.h"

namespace penstock::client::v4::sess01 {

std::vector<Part> Split(std::span<const Size> operations, const Size& room) {
  std::vector<Part> parts;
  Size used;
  for (uint32_t i = 0; i < operations.size(); ++i) {
    const Size with{used.request + operations[i].request, used.reply + operations[i].reply};
    if (parts.empty() || !with.Fits(room)) {
      parts.push_back({i, 1});
      used = operations[i];
    } else {
      ++parts.back().count;
      used = with;
    }
  }
  return parts;
}

nfs4::ChainFlags FlagOf(size_t index, size_t count) {
  if (count == 1) return nfs4::ChainFlags::NOCHAIN;
  if (index == 0) return nfs4::ChainFlags::CHAINBEGIN;
  return index + 1 == count ? nfs4::ChainFlags::CHAINEND : nfs4::ChainFlags::CHAINCONTINUE;
}

}  // namespace penstock::client::v4::sess01
