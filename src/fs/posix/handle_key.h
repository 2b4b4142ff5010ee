// The key that handles are signed with.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "base/siphash.h"

namespace penstock::fs::posix {

// The key in `directory`, made on first use. One server at a time: see StateDirectory.
SetupResult<SipKey> LoadHandleKey(const std::filesystem::path& directory);

// An export's own key, made of the one that is kept, so that a handle of one export is none of any other, even of the same
// directory. `identity` tells directories from each other that were exported by one name.
SipKey KeyOfExport(const SipKey& kept, std::string_view name, ConstBytes identity);

}  // namespace penstock::fs::posix
