// The key that signs handles.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "base/siphash.h"

namespace penstock::fs::posix {

// Loads the key from `directory`, and makes one on first use. Only one server may use the directory: see
// StateDirectory.
SetupResult<SipKey> LoadHandleKey(const std::filesystem::path& directory);

// Derives the key of an export from the kept key, so that a handle of one export is invalid in all others, even in
// those of the same directory. `identity` distinguishes directories that were exported under the same name.
SipKey KeyOfExport(const SipKey& kept, std::string_view name, ConstBytes identity);

}  // namespace penstock::fs::posix
