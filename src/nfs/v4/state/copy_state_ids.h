// The stateids of copies (RFC 7862 §4.8, §15.3.3). Their `other` is a mark of 4 octets that tells their kind, and a
// number of 8 octets that is hard to guess. Other stateids begin with the instance of the server (see StateIdTable), so
// they differ as long as the instance is not equal to a mark.
#pragma once

#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "protocol/nfs4_types.h"

namespace penstock::nfs::v4 {

enum class CopyStateKind : uint32_t {
  kOffload = 0x636f7079,  // an asynchronous copy
  kNotice = 0x6e746679,   // the permission to read that COPY_NOTIFY gives
};

// The seqid is never zero (RFC 7862 §4.8).
inline nfs4::stateid4 MakeCopyStateId(CopyStateKind kind, uint64_t number) {
  nfs4::stateid4 id{.seqid = 1, .other = {}};
  StoreBig<uint32_t>(id.other.data(), static_cast<uint32_t>(kind));
  StoreBig<uint64_t>(id.other.data() + 4, number);
  return id;
}

// Returns the number of a stateid of this kind, or nothing.
inline std::optional<uint64_t> NumberOf(CopyStateKind kind, const nfs4::stateid4& id) {
  if (id.seqid != 1 || LoadBig<uint32_t>(id.other.data()) != static_cast<uint32_t>(kind)) return std::nullopt;
  return LoadBig<uint64_t>(id.other.data() + 4);
}

}  // namespace penstock::nfs::v4
