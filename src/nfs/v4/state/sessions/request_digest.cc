#include <algorithm>

#include "base/mix.h"
#include "nfs/v4/state/sessions/sessions.h"

namespace penstock::nfs::v4 {
namespace {

// Returns how many octets at the beginning of `rest` cannot hold a payload: PUTFH with its filehandle, otherwise 12
// octets. The earliest possible payload is the text of a symbolic link, which follows PUTROOTFH, CREATE and the type of
// the object.
size_t HeadOf(ConstBytes rest) {
  constexpr size_t kAlways = 12;
  if (rest.size() < 8 || LoadBig<uint32_t>(rest.data()) != static_cast<uint32_t>(nfs4::OP_PUTFH)) return kAlways;
  return std::max<size_t>(kAlways, 8 + std::min<uint32_t>(LoadBig<uint32_t>(rest.data() + 4), nfs4::NFS4_FHSIZE));
}

}  // namespace

uint64_t RequestDigest(const rpc::Credential& credential, uint32_t operations, size_t size, ConstBytes rest) {
  uint64_t digest = Mix(static_cast<uint64_t>(credential.flavor), credential.uid);
  if (credential.initiator) digest = Mix(digest, AsBytes(credential.initiator->name));
  digest = Mix(digest, uint64_t{operations} << 32 ^ size);
  return Mix(digest, rest.first(std::min(rest.size(), HeadOf(rest))));
}

}  // namespace penstock::nfs::v4
