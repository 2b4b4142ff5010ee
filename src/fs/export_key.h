// What signs the handles of one export.
#pragma once

#include <string_view>

#include "base/bytes.h"
#include "base/siphash.h"

namespace penstock::fs {

// Where the signature is in a handle of any kind: behind the octet that says the kind.
constexpr size_t kTagAt = 1;

// Derives the key of an export from the kept key, so that a handle of one export is invalid in all others, even in
// those of the same directory. `identity` distinguishes directories that were exported under the same name.
SipKey KeyOfExport(const SipKey& kept, std::string_view name, ConstBytes identity);

}  // namespace penstock::fs
